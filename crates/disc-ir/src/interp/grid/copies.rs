//! Evaluates asynchronous copies: each is made when its thread waits for it, and what was at its
//! destination is lost when it begins.
use super::{Mask, Threads, active, by, together::fault};
use crate::{
    attr::Attr,
    diag::Diagnostic,
    graph::Inst,
    interp::{machine::Machine, memory::Buffer},
    ops::OpKind,
};

/// The copies that a thread has begun.
#[derive(Clone, Default)]
pub(super) struct Copies {
    /// Those of the batch that is not ended yet.
    open: Vec<Copy>,
    /// The batches that were not waited for, the oldest first.
    batches: Vec<Vec<Copy>>,
}

#[derive(Clone)]
struct Copy {
    to: (Buffer, i64),
    /// None for zeros.
    from: Option<(Buffer, i64)>,
    elements: i64,
}

impl<'a> Threads<'a> {
    pub(super) fn copy(&mut self, machine: &mut Machine<'a>, inst: Inst, mask: &Mask) -> Result<(), Diagnostic> {
        for thread in active(mask) {
            match self.function.kind_of(inst) {
                OpKind::CopyAsync => {
                    let copy = self.begun(machine, inst, thread).map_err(by(thread))?;
                    self.copies[thread].open.push(copy);
                }
                OpKind::CommitCopies => {
                    let batch = std::mem::take(&mut self.copies[thread].open);
                    self.copies[thread].batches.push(batch);
                }
                _ => self.finish_copies(machine, inst, thread).map_err(by(thread))?,
            }
        }
        Ok(())
    }

    /// Begins a copy: until it ends, nobody reads its destination.
    fn begun(&self, machine: &mut Machine<'a>, inst: Inst, thread: usize) -> Result<Copy, Diagnostic> {
        let [to, to_index, from, from_index, ref exists @ ..] = self.function.operands(inst)[..] else {
            unreachable!("at least four operands")
        };
        let to = (self.buffer(to, thread)?, self.int(to_index, thread)?);
        let exists = exists.first().map_or(Ok(true), |&exists| Ok(self.tensor(exists, thread)?.at(0).is_true()))?;
        let from = if exists { Some((self.buffer(from, thread)?, self.int(from_index, thread)?)) } else { None };
        let elements = self.number(inst, "elements");
        let bytes = elements * to.0.dtype.size() as i64;
        for (buffer, element) in [Some(&to), from.as_ref()].into_iter().flatten() {
            if !buffer.is_aligned(*element, bytes) {
                return Err(fault(format!("element {element} of the buffer starts at no multiple of {bytes} bytes")));
            }
        }
        (0..elements).try_for_each(|element| machine.memory.forget(&to.0, to.1 + element))?;
        Ok(Copy { to, from, elements })
    }

    /// Makes the copies of all batches but the last `left`.
    fn finish_copies(&mut self, machine: &mut Machine<'a>, inst: Inst, thread: usize) -> Result<(), Diagnostic> {
        let left = self.number(inst, "left") as usize;
        let batches = &mut self.copies[thread].batches;
        let done = batches.len().saturating_sub(left);
        for Copy { to, from, elements } in batches.drain(..done).flatten() {
            for element in 0..elements {
                let bytes = match &from {
                    Some((from, start)) => machine.memory.read(from, start + element)?.to_vec(),
                    None => vec![0; to.0.dtype.size()],
                };
                machine.memory.write(&to.0, to.1 + element, &bytes)?;
            }
        }
        Ok(())
    }

    pub(super) fn number(&self, inst: Inst, name: &str) -> i64 {
        let position = self.function.def(inst).attr_position(name);
        match position.and_then(|position| self.function.inst(inst).attrs[position].as_ref()) {
            Some(Attr::Int(value)) => *value,
            _ => 0,
        }
    }
}
