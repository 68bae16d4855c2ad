//! Runs atomic changes of elements, in the order of threads.
use super::{Done, Run, access::Span};
use crate::{
    alu::{bits_at, combine},
    program::{Atomic, AtomicHow, Binary},
    shadow::Kind,
};

impl Run<'_> {
    pub(super) fn atomic(&mut self, op: &Atomic) -> Done {
        let span = Span {
            buffer: op.buffer,
            address: self.slot(op.address),
            index: self.slot(op.index),
            each: 1,
            align: None,
            verb: "changes",
        };
        let mask = self.mask;
        self.locate(&span, &mask)?;
        let (bytes, space) = (span.bytes(self), self.space(op.buffer));
        self.count_access(space, &mask, bytes, false);
        self.count_access(space, &mask, bytes, true);
        let (to, value) = (self.slot(op.to), self.slot(op.value));
        let (dtype, size) = (to.dtype(), bytes as usize);
        for thread in mask.iter() {
            let found = self.record(&span, (thread, 1), Kind::Atomic);
            found.map_err(|found| {
                let element = self.integer(span.index, thread as usize);
                self.complaint(&span, thread, element, found)
            })?;
            let at = self.memory_at(op.buffer, thread);
            let mut word = [0; 8];
            // SAFETY: the range was checked.
            unsafe { at.copy_to_nonoverlapping(word.as_mut_ptr(), size) };
            let operand = |slot| bits_at(self.planes.bytes(slot), size, thread as usize);
            let (old, value) = (u64::from_le_bytes(word), operand(value));
            let new = match op.how {
                AtomicHow::Add => combine(Binary::Add, dtype, old, value),
                AtomicHow::Max => combine(Binary::Maximum, dtype, old, value),
                AtomicHow::Min => combine(Binary::Minimum, dtype, old, value),
                AtomicHow::Exchange => value,
                AtomicHow::Compare => match op.expected {
                    Some(expected) if operand(self.slot(expected)) != old => old,
                    _ => value,
                },
            };
            // SAFETY: the range was checked.
            unsafe { at.copy_from_nonoverlapping(new.to_le_bytes().as_ptr(), size) };
            self.planes.bytes_mut(to)[thread as usize * size..(thread as usize + 1) * size].copy_from_slice(&word[..size]);
        }
        Ok(())
    }
}
