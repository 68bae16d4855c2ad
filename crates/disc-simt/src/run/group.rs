//! Runs ops that the threads of a warp do together, and checks that all of them do.
use super::{Done, Run, message::Stop};
use crate::{
    alu::{bits_at, combine},
    program::{Binary, Reg, Shuffle, Vote},
};

impl Run<'_> {
    /// Checks that all threads of the block take part.
    pub(super) fn check_block(&self, what: &str) -> Done {
        if self.mask == self.live {
            return Ok(());
        }
        let missing = self.live.without(&self.mask).first().unwrap_or(0);
        let (count, all) = (self.mask.count, self.live.count);
        let message = format!("{what} is reached by {count} of {all} threads: thread {missing} is elsewhere");
        Err(Stop::new(self.mask.first(), message))
    }

    /// Checks that all threads of a warp take part, or none.
    pub(super) fn check_warps(&self, what: &str) -> Done {
        let size = self.program.warp;
        for warp in 0..self.program.threads / size {
            let (some, all) = (self.mask.warp(warp, size), self.live.warp(warp, size));
            if some != 0 && some != all {
                let first = |bits: u64| warp * size + bits.trailing_zeros();
                let (count, of, missing) = (some.count_ones(), all.count_ones(), first(all & !some));
                let message = format!("{what} is reached by {count} of {of} threads of the warp: thread {missing} is elsewhere");
                return Err(Stop::new(Some(first(some)), message));
            }
        }
        Ok(())
    }

    pub(super) fn shuffle(&mut self, how: Shuffle, width: u32, [value, by]: [Reg; 2], to: Reg) -> Done {
        self.check_warps("a shuffle")?;
        let (value, by, to) = (self.slot(value), self.slot(by), self.slot(to));
        let each = value.bytes() / self.program.threads as usize;
        for thread in self.mask.iter() {
            let by = self.integer(by, thread as usize);
            let (lane, last) = (i64::from(thread % width), i64::from(width) - 1);
            let other = match how {
                Shuffle::Xor => lane ^ by,
                Shuffle::Up => lane - by,
                Shuffle::Down => lane + by,
                Shuffle::Index => by & last,
            };
            let other = if (0..=last).contains(&other) { other } else { lane };
            let mut from = thread - lane as u32 + other as u32;
            // A thread that failed has no value; the launch reports its failure.
            if !self.live.has(from) {
                from = thread;
            }
            let bytes = self.planes.bytes(value)[from as usize * each..][..each].to_vec();
            self.planes.bytes_mut(to)[thread as usize * each..][..each].copy_from_slice(&bytes);
        }
        Ok(())
    }

    pub(super) fn reduce_group(&mut self, applies: Binary, width: u32, value: Reg, to: Reg) -> Done {
        self.check_warps("a reduction of a group")?;
        let (value, to) = (self.slot(value), self.slot(to));
        let (dtype, size, lanes) = (value.dtype(), value.dtype().size(), value.lanes as usize);
        let bytes = self.planes.bytes(value);
        let mut values: Vec<u64> = (0..value.count as usize).map(|i| bits_at(bytes, size, i)).collect();
        let mut next = values.clone();
        let mut step = width as usize / 2;
        while step > 0 {
            for thread in 0..self.program.threads as usize {
                // The lower lane is the left operand, so that both have the same bits.
                for lane in 0..lanes {
                    let (low, high) = ((thread & !step) * lanes + lane, (thread | step) * lanes + lane);
                    next[thread * lanes + lane] = combine(applies, dtype, values[low], values[high]);
                }
            }
            std::mem::swap(&mut values, &mut next);
            step /= 2;
        }
        let bytes = self.planes.bytes_mut(to);
        for (bytes, value) in bytes.chunks_exact_mut(size).zip(values) {
            bytes.copy_from_slice(&value.to_le_bytes()[..size]);
        }
        Ok(())
    }

    pub(super) fn vote(&mut self, how: Vote, pred: Reg, to: Reg) -> Done {
        self.check_warps("a vote")?;
        let holds = self.mask.only(self.planes.get::<u8>(self.slot(pred)));
        let (to, size) = (self.slot(to), self.program.warp);
        for warp in 0..self.program.threads / size {
            let (some, all) = (holds.warp(warp, size), self.mask.warp(warp, size));
            let answer = match how {
                Vote::Any => i64::from(some != 0),
                Vote::All => i64::from(some == all),
                Vote::Count => some.count_ones().into(),
            };
            for thread in warp * size..(warp + 1) * size {
                self.set_integer(to, thread as usize, answer);
            }
        }
        Ok(())
    }
}
