//! Runs asynchronous copies. The bytes are copied at once, but nobody may touch them before the
//! thread has waited; that is when the write happens.
use super::{Done, Run, access::Span, mask::Mask};
use crate::{program::CopyAsync, shadow::Kind};

/// The copies of a block that have not ended.
pub(super) struct Copies {
    pending: Vec<Pending>,
    /// The batch that each thread fills.
    batches: Vec<u32>,
}

struct Pending {
    thread: u32,
    batch: u32,
    start: u64,
    bytes: u64,
}

impl Copies {
    pub(super) fn new(threads: u32) -> Self {
        Self { pending: Vec::new(), batches: vec![0; threads as usize] }
    }

    pub(super) fn begin_block(&mut self) {
        self.pending.clear();
        self.batches.fill(0);
    }

    /// Ends the batch of each thread.
    pub(super) fn commit(&mut self, mask: &Mask) {
        mask.iter().for_each(|thread| self.batches[thread as usize] += 1);
    }
}

impl Run<'_> {
    pub(super) fn copy_async(&mut self, op: &CopyAsync) -> Done {
        let size = self.program.buffers[op.from as usize].dtype.size() as u32;
        let bytes = op.elements * size;
        let span = |buffer, address, index, verb| Span {
            buffer,
            address: self.slot(address),
            index: self.slot(index),
            each: op.elements,
            align: Some(bytes),
            verb,
        };
        let from = span(op.from, op.from_address, op.from_index, "copies from");
        let to = span(op.to, op.to_address, op.to_index, "copies to");
        let mask = self.mask;
        let reading = op.exists.map_or(mask, |exists| mask.only(self.planes.get::<u8>(self.slot(exists))));
        self.locate(&from, &reading)?;
        self.count_access(self.space(op.from), &reading, bytes.into(), false);
        let mut held = vec![0; self.program.threads as usize * bytes as usize];
        self.runs(&from, &reading, |run, first, count| {
            run.record(&from, (first, count), Kind::Read)?;
            let at = run.memory_at(op.from, first);
            let held = &mut held[(first * bytes) as usize..((first + count) * bytes) as usize];
            // SAFETY: the range was checked.
            unsafe { at.copy_to_nonoverlapping(held.as_mut_ptr(), held.len()) };
            Ok(())
        })?;
        self.locate(&to, &mask)?;
        self.count_access(self.space(op.to), &mask, bytes.into(), true);
        self.runs(&to, &mask, |run, first, count| {
            run.record(&to, (first, count), Kind::Write)?;
            let at = run.memory_at(op.to, first);
            let held = &held[(first * bytes) as usize..((first + count) * bytes) as usize];
            // SAFETY: the range was checked.
            unsafe { at.copy_from_nonoverlapping(held.as_ptr(), held.len()) };
            for thread in first..first + count {
                let (start, batch) = (run.addresses[thread as usize], run.copies.batches[thread as usize]);
                run.shared.set_pending(start, bytes.into(), true);
                run.copies.pending.push(Pending { thread, batch, start, bytes: bytes.into() });
            }
            Ok(())
        })
    }

    /// Ends the copies of all batches of the threads but their last ones.
    pub(super) fn wait_copies(&mut self, left: u32) {
        let mut pending = std::mem::take(&mut self.copies.pending);
        pending.retain(|copy| {
            let committed = self.copies.batches[copy.thread as usize];
            let stays = !self.mask.has(copy.thread) || copy.batch + left >= committed;
            if !stays {
                self.shared.set_pending(copy.start, copy.bytes, false);
                self.shared.cells().finish(copy.start, copy.bytes, &self.who(copy.thread));
            }
            stays
        });
        self.shared.is_pending = !pending.is_empty();
        self.copies.pending = pending;
    }
}
