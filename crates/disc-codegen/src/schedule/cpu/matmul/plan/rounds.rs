//! Rounds: the steps along the sums between two prefetches.
use super::{MatmulPlan, tile::Tile};

/// Elements of one vector's width that a round of steps along the sums passes, between two rounds
/// of prefetches. The steps of a round are a loop of their own and not unrolled: LLVM would gather
/// the loads of several steps and spill the sums.
const ROUND_ELEMENTS: i64 = 128;
/// Sums that are added to in turn, so that none waits for its last addition.
pub(in crate::schedule) const CHAINS: usize = 8;

/// Steps of a round.
pub(in crate::schedule) fn round_steps(tile: Tile) -> i64 {
    (ROUND_ELEMENTS / i64::from(tile.lanes)).max(CHAINS as i64)
}

impl MatmulPlan {
    /// Returns true if a vector holds what several steps of a round read of a row.
    pub(in crate::schedule) fn reads_rows_by_lane(&self) -> bool {
        self.multiplies_by_lane && self.shape.k.left.is_const(1)
    }
}
