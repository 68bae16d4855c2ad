//! Sizes the part of the result that a block computes, and those of its warps.

/// Threads of a warp that multiplies tiles.
const WARP: i64 = 32;

/// The part of a block.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) rows: i64,
    pub(super) columns: i64,
    /// Warps down the rows and along the columns.
    pub(super) warps: [i64; 2],
    /// Steps in shared memory at a time, where copies are asynchronous: what 48 KiB hold.
    pub(super) stages: i64,
}

impl Shape {
    /// For results that have enough parts of this size for all of a chip.
    pub(super) const LARGE: Self = Self { rows: 128, columns: 128, warps: [4, 2], stages: 3 };
    /// For others.
    pub(super) const SMALL: Self = Self { rows: 64, columns: 64, warps: [2, 2], stages: 4 };

    pub(super) fn threads(self) -> i64 {
        self.warps[0] * self.warps[1] * WARP
    }

    pub(super) fn warp_rows(self) -> i64 {
        self.rows / self.warps[0]
    }

    pub(super) fn warp_columns(self) -> i64 {
        self.columns / self.warps[1]
    }

    /// The parts of a result below which smaller ones keep more of a chip busy; `None` for the
    /// smallest ones.
    pub(super) fn least_blocks(self) -> Option<i64> {
        (self.rows > Self::SMALL.rows).then_some(64)
    }
}
