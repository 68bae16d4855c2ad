//! Decides how rows that are a multiple of a page apart are read: beside panels of weights fewer of
//! them at once, in place; elsewhere a micro-kernel of many rows copies a vector of each to task
//! memory at a time, and reads them there.
//!
//! Rows at such a distance compete for the few lines of one set of the first-level cache, so that
//! each element of many rows would come from the second level. Copied, each line is read once.
//! Twelve loads and stores go with hundreds of products, where packing whole rows in each unit
//! would pass memory once more, and keep the caches from what they are for.
use super::{
    MatmulPlan,
    forms::{LeftForm, RightForm},
    rounds::round_steps,
};
use crate::target::{CpuModel, Target};

/// Bytes of a panel that stays in the second-level cache. A longer one is read from further away
/// for each block of rows, and fewer rows in a block would read it more often.
const PANEL_BYTES: i64 = 512 << 10;

/// Rows pages apart that the first-level cache holds at once.
pub(super) fn held_rows(target: &Target) -> u32 {
    if target.has_wide_cores() { CpuModel::WIDE_CACHE_WAYS } else { CpuModel::CACHE_WAYS }
}

impl MatmulPlan {
    /// Returns true if rows that are read in place would evict one another from the first-level
    /// cache.
    pub(super) fn rows_collide(&self, target: &Target) -> bool {
        let held = i64::from(held_rows(target));
        let many = i64::from(self.tile.rows) > held && self.shape.m.size.as_const().is_none_or(|rows| rows > held);
        let size = self.rows_dtype().size() as i64;
        many && self.shape.m.left.as_const().is_some_and(|stride| stride > 0 && stride * size % CpuModel::PAGE_BYTES == 0)
    }

    /// Returns true if rows that collide are best read in blocks of as many as the cache holds:
    /// panels are ready, and stay in the second-level cache.
    pub(super) fn fewer_rows_pay(&self) -> bool {
        let fits = |depth| depth * i64::from(self.tile.columns) * self.compute.size() as i64 <= PANEL_BYTES;
        let k = &self.shape.k;
        self.right.form == RightForm::Panels && k.left.is_const(1) && k.size.as_const().is_some_and(fits)
    }

    /// Returns true if a micro-kernel for `rows` rows copies vectors of them to task memory.
    pub(in crate::schedule) fn stages(&self, rows: u32) -> bool {
        matches!(self.left.form, LeftForm::Staged { most_rows } if rows > most_rows)
    }

    /// Steps whose elements are copied at a time.
    pub(in crate::schedule) fn staged_steps(&self) -> i64 {
        round_steps(self.tile).max(i64::from(self.tile.lanes))
    }

    /// Elements of a row in task memory.
    pub(in crate::schedule) fn staged_elements(&self) -> i64 {
        self.staged_steps() * self.word_size()
    }
}
