//! Combines the values of threads with those of the threads before: in a warp by shuffles, in a
//! block also through shared memory.
//!
//! Invariant: the order in which values are combined depends only on the sizes of warp and block.
use super::frame::publish;
use crate::kernel::KernelBuilder;
use disc_ir::{DType, Dim, Grid, TensorType, Value};
use disc_kernel_macros::expr;

/// Combines values of earlier threads with values of later ones.
pub(super) type Combine<'c> = dyn FnMut(&mut KernelBuilder, &[Value], &[Value]) -> Vec<Value> + 'c;

/// The threads that combine their values: those of a warp, or those of a block.
pub(super) struct Prefix {
    warp: u32,
    /// The number of this thread in its warp.
    lane: Value,
    /// The warps of a block that meet.
    meeting: Option<Meeting>,
}

struct Meeting {
    warps: u32,
    /// The number of this thread's warp.
    warp: Value,
    /// A value of each warp, `rounds` times over, for each value that a thread has.
    memory: Vec<Value>,
}

impl Prefix {
    /// Begins with the threads of a warp, or with all of a block, which combine values of these
    /// types, so many sets of them at a time.
    pub(super) fn new(kb: &mut KernelBuilder, grid: Grid, threads: u32, dtypes: &[DType], rounds: usize) -> Self {
        let lane = kb.place("lane");
        let warps = grid.threads / grid.warp;
        let meeting = (threads > grid.warp).then(|| {
            let room = Dim::constant(i64::from(warps) * rounds as i64);
            let memory = dtypes.iter().map(|&dtype| kb.shared(TensorType::new([room.clone()], dtype))).collect();
            Meeting { warps, warp: kb.place("warp"), memory }
        });
        Self { warp: grid.warp, lane, meeting }
    }

    /// Replaces each set of values by the combination of `before`, the sets before it, the values
    /// of its set in the previous threads, and its own. Returns the combination of all.
    pub(super) fn inclusive(
        &self,
        kb: &mut KernelBuilder,
        sets: &mut [Vec<Value>],
        before: &[Value],
        combine: &mut Combine<'_>,
    ) -> Vec<Value> {
        sets.iter_mut().for_each(|set| *set = self.in_warp(kb, set, combine));
        let mut total = before.to_vec();
        let Some(meeting) = &self.meeting else {
            let last = kb.int(i64::from(self.warp) - 1);
            for set in sets {
                let of_warp: Vec<Value> = set.iter().map(|&value| kb.shuffle("index", value, last, self.warp)).collect();
                *set = combine(kb, &total, set);
                total = combine(kb, &total, &of_warp);
            }
            return total;
        };
        meeting.share(kb, (self.lane, self.warp), sets);
        for (round, set) in sets.iter_mut().enumerate() {
            let mut start = total.clone();
            for number in 0..meeting.warps {
                let of_warp = meeting.of_warp(kb, round as u32 * meeting.warps + number);
                total = combine(kb, &total, &of_warp);
                if number + 1 < meeting.warps {
                    let is_later = expr!(kb, meeting.warp > int(number.into()));
                    start = total.iter().zip(&start).map(|(&more, &less)| kb.select(is_later, more, less)).collect();
                }
            }
            *set = combine(kb, &start, set);
        }
        total
    }

    fn in_warp(&self, kb: &mut KernelBuilder, own: &[Value], combine: &mut Combine<'_>) -> Vec<Value> {
        let mut own = own.to_vec();
        let mut distance = 1;
        while distance < self.warp {
            let by = kb.int(distance.into());
            let others: Vec<Value> = own.iter().map(|&value| kb.shuffle("up", value, by, self.warp)).collect();
            let has_other = expr!(kb, self.lane >= by);
            let combined = combine(kb, &others, &own);
            own = combined.iter().zip(&own).map(|(&more, &less)| kb.select(has_other, more, less)).collect();
            distance *= 2;
        }
        own
    }
}

impl Meeting {
    /// Shows the values of the last lanes to all warps.
    fn share(&self, kb: &mut KernelBuilder, (lane, width): (Value, u32), sets: &[Vec<Value>]) {
        let is_last = expr!(kb, lane == int(i64::from(width) - 1));
        publish(kb, is_last, |kb| {
            for (round, set) in sets.iter().enumerate() {
                let place = expr!(kb, int(i64::from(self.warps) * round as i64) + self.warp);
                self.memory.iter().zip(set).for_each(|(&memory, &value)| kb.store(memory, place, value, None));
            }
        });
    }

    fn of_warp(&self, kb: &mut KernelBuilder, number: u32) -> Vec<Value> {
        let place = kb.int(number.into());
        self.memory.iter().map(|&memory| kb.load(memory, place, 1, None)).collect()
    }
}
