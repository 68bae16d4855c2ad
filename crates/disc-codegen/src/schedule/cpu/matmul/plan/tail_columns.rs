//! Decides which of the last columns of a packed product are multiplied along the sums: those too
//! few for a vector.
//!
//! 49 columns are three vectors of 16 and one column more. A vector for that one would cost what 8
//! or 16 columns cost; along the sums all lanes work, and the rows that are read for it were just
//! read for the columns before.
//!
//! Invariant: the columns that are computed this way depend only on their number, and on what is
//! known of the matmul when it is compiled.
use super::MatmulPlan;
use disc_ir::{Dim, TensorType};

/// Adding up the lanes of a sum costs as much as some products: shorter sums are computed in
/// vectors of columns, and of sums up to the second bound fewer columns are left over.
const SHORT_SUM: i64 = 64;
const LONG_SUM: i64 = 256;
/// Below so many rows copying a column costs more than it saves, and below the second bound copying
/// several.
const FEW_ROWS: i64 = 16;
const SOME_ROWS: i64 = 48;
/// Columns that share the reads of the rows, where so many are left over.
const PAIR: u32 = 2;

impl MatmulPlan {
    /// The most columns that are left over.
    pub(in crate::schedule) fn most_rest(&self) -> u32 {
        let along = self.shape.k.left.is_const(1) && self.word.is_none() && self.packs_known_rows();
        match (self.shape.k.size.as_const(), self.shape.m.size.as_const()) {
            (Some(sums), Some(rows)) if along && sums >= LONG_SUM && rows >= SOME_ROWS => self.narrow() / 2,
            (Some(sums), Some(rows)) if along && sums >= SHORT_SUM && rows >= FEW_ROWS => self.narrow() / 4,
            _ => 0,
        }
    }

    /// The numbers of them that are multiplied at once, more first; empty if no columns are left
    /// over.
    pub(in crate::schedule) fn rest_blocks(&self) -> Vec<u32> {
        let Some(columns) = self.shape.n.size.as_const() else {
            let most = if self.partition.whole_panels { 0 } else { self.most_rest() };
            return [PAIR, 1].into_iter().filter(|&columns| columns <= most).collect();
        };
        let last = (columns % i64::from(self.tile.columns)) as u32;
        let rest = self.tail_of(last).map_or(0, |tail| last.saturating_sub(tail * self.narrow()));
        let pairs = (rest >= PAIR).then_some(PAIR);
        pairs.into_iter().chain((!rest.is_multiple_of(PAIR)).then_some(1)).collect()
    }

    /// Narrow vectors for the columns of a last panel, if that is fewer than a panel has.
    pub(in crate::schedule) fn tail_of(&self, columns: u32) -> Option<u32> {
        let (narrow, most) = (self.narrow(), self.tile.columns / self.narrow());
        let tail = columns.saturating_sub(self.most_rest()).div_ceil(narrow);
        (columns > 0 && tail < most).then_some(tail)
    }

    /// Task memory for columns that are left over.
    pub(in crate::schedule) fn rest_memory(&self) -> Option<TensorType> {
        let columns = i64::from(self.most_rest());
        (!self.rest_blocks().is_empty()).then(|| TensorType::new([self.rest_stride() * columns], self.compute))
    }

    /// Elements from one such column to the next.
    pub(in crate::schedule) fn rest_stride(&self) -> Dim {
        let lanes = i64::from(self.tile.lanes);
        self.shape.k.size.ceil_div(&Dim::constant(lanes)) * lanes
    }
}
