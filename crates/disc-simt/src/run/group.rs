//! Runs ops that the threads of a warp do together, and checks that all of them do.
use super::{Done, Run, message::Stop};
use crate::{
    alu,
    program::{Alu, Binary, Reg, Shuffle, Vote},
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
        let (value, to) = (self.slot(value), self.slot(to));
        let each = value.bytes() / self.program.threads as usize;
        let places: Vec<i32> = self.planes.get::<i32>(self.slot(by)).to_vec();
        let ([value], to) = self.planes.split::<u8, u8, 1>([value.as_bytes()], to.as_bytes());
        for thread in self.mask.iter() {
            let by = i64::from(places[thread as usize]);
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
            let [from, thread] = [from, thread].map(|thread| thread as usize * each);
            to[thread..thread + each].copy_from_slice(&value[from..from + each]);
        }
        Ok(())
    }

    pub(super) fn reduce_group(&mut self, (applies, width): (Binary, u32), value: Reg, halves: [Reg; 2], to: Reg) -> Done {
        self.check_warps("a reduction of a group")?;
        let (from, result) = (self.slot(value).as_bytes(), self.slot(to).as_bytes());
        let each = from.bytes() / self.program.threads as usize;
        let ([from], to_bytes) = self.planes.split::<u8, u8, 1>([from], result);
        to_bytes.copy_from_slice(from);
        let mut step = width as usize / 2;
        while step > 0 {
            // The lower lane is the left operand, so that both have the same bits.
            for (upper, half) in halves.into_iter().enumerate() {
                let half = self.slot(half).as_bytes();
                let ([from], half) = self.planes.split::<u8, u8, 1>([result], half);
                let part = step * each;
                for (pair, half) in from.chunks_exact(2 * part).zip(half.chunks_exact_mut(2 * part)) {
                    let lane = &pair[upper * part..(upper + 1) * part];
                    half[..part].copy_from_slice(lane);
                    half[part..].copy_from_slice(lane);
                }
            }
            alu::run(&mut self.planes, &self.program.registers, &Alu::Binary(applies, halves, to));
            step /= 2;
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
