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
    /// The steps whose elements, or words, of a row are loaded as one vector, if they are.
    pub(in crate::schedule) fn steps_by_lane(&self) -> Option<i64> {
        let steps = match self.word {
            Some(word) if word.is_paired() => 2,
            _ if self.multiplies_by_lane => i64::from(self.tile.lanes),
            _ => return None,
        };
        self.shape.k.left.is_const(1).then_some(steps)
    }
}
