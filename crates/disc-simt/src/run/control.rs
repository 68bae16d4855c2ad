//! Runs structured control flow: regions under the mask of the threads that take them.
use super::{Done, Run, mask::Mask, message::Stop};
use crate::program::{Carried, For, If, Reg, While};

impl<'a> Run<'a> {
    /// Copies a register to the threads of a set.
    fn copy(&mut self, from: Reg, to: Reg, threads: &Mask) {
        let (from, to) = (self.slot(from), self.slot(to));
        if from.at == to.at {
            return;
        }
        let ([from_bytes], to_bytes) = self.planes.split::<u8, u8, 1>([from.as_bytes()], to.as_bytes());
        if !to.varying || threads.is_all() {
            return to_bytes.copy_from_slice(from_bytes);
        }
        let each = to_bytes.len() / self.program.threads as usize;
        for thread in threads.iter() {
            let range = thread as usize * each..(thread as usize + 1) * each;
            to_bytes[range.clone()].copy_from_slice(&from_bytes[range]);
        }
    }

    /// Counts warps whose threads part.
    fn count_divergence(&mut self, taken: &Mask, of: &Mask) {
        if taken.count == 0 || taken.count == of.count {
            return;
        }
        let warp = self.program.warp;
        let parts = |number: &u32| {
            let (some, all) = (taken.warp(*number, warp), of.warp(*number, warp));
            some != 0 && some != all
        };
        self.counters.divergent += (0..self.program.threads / warp).filter(parts).count() as u64;
    }

    pub(super) fn if_(&mut self, op: &'a If) -> Done {
        let (pred, before) = (self.slot(op.pred), self.mask);
        let holds = match pred.varying {
            true => before.only(self.planes.get::<u8>(pred)),
            false if self.planes.get::<u8>(pred)[0] != 0 => before,
            false => before.without(&before),
        };
        let fails = before.without(&holds);
        self.count_divergence(&holds, &before);
        for (side, (taken, code)) in (1..).zip([(holds, &op.then), (fails, &op.otherwise)]) {
            if taken.count == 0 {
                continue;
            }
            self.mask = taken;
            self.code(code)?;
            for result in &op.results {
                self.copy(result[side], result[0], &taken);
            }
        }
        self.mask = before.and(&self.live);
        Ok(())
    }

    /// Gives carried values their first values.
    fn begin(&mut self, carried: &[Carried]) {
        let mask = self.mask;
        carried.iter().for_each(|value| self.copy(value.init, value.register, &mask));
    }

    /// Gives carried values their next values, all at once.
    fn go_on(&mut self, carried: &[Carried]) {
        let mask = self.mask;
        let reads_others =
            |value: &Carried| value.next != value.register && carried.iter().any(|other| other.register == value.next);
        if !carried.iter().any(reads_others) {
            return carried.iter().for_each(|value| self.copy(value.next, value.register, &mask));
        }
        let nexts: Vec<Vec<u8>> = carried.iter().map(|value| self.planes.bytes(self.slot(value.next)).to_vec()).collect();
        for (value, next) in carried.iter().zip(nexts) {
            let to = self.slot(value.register);
            let each = if to.varying { next.len() / self.program.threads as usize } else { next.len() };
            let threads: Vec<u32> = if to.varying { mask.iter().collect() } else { vec![0] };
            for thread in threads {
                let range = thread as usize * each..(thread as usize + 1) * each;
                self.planes.bytes_mut(to)[range.clone()].copy_from_slice(&next[range]);
            }
        }
    }

    pub(super) fn for_(&mut self, op: &'a For) -> Done {
        let (before, step) = (self.mask, self.slot(op.step));
        let threads: Vec<u32> = if step.varying { before.iter().collect() } else { vec![0] };
        if let Some(&thread) = threads.iter().find(|&&thread| self.integer(step, thread as usize) <= 0) {
            let value = self.integer(step, thread as usize);
            return Err(Stop::new(before.first().max(Some(thread)), format!("has a loop with a step of {value}")));
        }
        self.begin(&op.carried);
        match self.slot(op.index).varying {
            true => self.for_threads(op)?,
            false => self.for_block(op)?,
        }
        self.mask = before.and(&self.live);
        Ok(())
    }

    /// Runs a loop that all threads run equally often.
    fn for_block(&mut self, op: &'a For) -> Done {
        let bound = |register| self.integer(self.slot(register), 0);
        let (mut index, upper, step) = (bound(op.lower), bound(op.upper), bound(op.step));
        let slot = self.slot(op.index);
        while index < upper && self.mask.count > 0 {
            self.count_step()?;
            self.set_integer(slot, 0, index);
            self.code(&op.body)?;
            self.go_on(&op.carried);
            index = index.saturating_add(step);
        }
        Ok(())
    }

    /// Runs a loop whose bounds differ between threads.
    fn for_threads(&mut self, op: &'a For) -> Done {
        let mask = self.mask;
        self.copy(op.lower, op.index, &mask);
        let (index, upper, step) = (self.slot(op.index), self.slot(op.upper), self.slot(op.step));
        let mut ended = false;
        while !ended {
            let active = self.mask;
            let goes_on: Vec<u8> = (0..self.program.threads as usize)
                .map(|thread| u8::from(self.integer(index, thread) < self.integer(upper, thread)))
                .collect();
            let taken = active.only(&goes_on);
            self.count_divergence(&taken, &active);
            self.mask = taken;
            if taken.count == 0 {
                break;
            }
            self.count_step()?;
            self.code(&op.body)?;
            self.go_on(&op.carried);
            let mut over = vec![0; self.program.threads as usize];
            for thread in self.mask.iter() {
                let thread = thread as usize;
                let next = self.integer(index, thread).saturating_add(self.integer(step, thread));
                // An index beyond its type is beyond every bound.
                over[thread] = u8::from(next >= self.integer(upper, thread));
                self.set_integer(index, thread, next);
            }
            let (active, remaining) = (self.mask, self.mask.without(&self.mask.only(&over)));
            self.count_divergence(&remaining, &active);
            self.mask = remaining;
            ended = self.mask.count == 0;
        }
        Ok(())
    }

    pub(super) fn while_(&mut self, op: &'a While) -> Done {
        let before = self.mask;
        self.begin(&op.carried);
        loop {
            self.count_step()?;
            self.code(&op.cond)?;
            if self.mask.count == 0 {
                break;
            }
            let (goes_on, active) = (self.slot(op.goes_on), self.mask);
            if goes_on.varying {
                self.mask = active.only(self.planes.get::<u8>(goes_on));
                let taken = self.mask;
                self.count_divergence(&taken, &active);
            } else if self.planes.get::<u8>(goes_on)[0] == 0 {
                break;
            }
            if self.mask.count == 0 {
                break;
            }
            self.code(&op.body)?;
            self.go_on(&op.carried);
        }
        self.mask = before.and(&self.live);
        Ok(())
    }
}
