//! Shares the tile of a block among its threads: the sizes of tiles, and the place of a thread.
use super::parts::Parts;
use crate::{
    kernel::{Index, KernelBuilder},
    schedule::common::iteration_space::{Merged, positions_of},
    target::GpuModel,
};
use disc_ir::{DType, Dim, Value};
use disc_kernel_macros::expr;

/// The tile of a block.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// Rows of a thread.
    pub(super) rows: i64,
    /// Columns of values of the block.
    pub(super) columns: i64,
    /// The queries stay in shared memory.
    pub(super) keeps_queries: bool,
    /// Elements of an access of 16 bytes to shared memory.
    pub(super) lanes: i64,
}

impl Tile {
    /// Threads down the rows of a tile, and threads that have a row together.
    pub(super) const SIDE: i64 = 16;
    pub(super) const THREADS: i64 = Self::SIDE * Self::SIDE;
    /// Keys whose scores are in registers at a time, and those of a thread.
    pub(super) const KEYS: i64 = 64;
    pub(super) const OWN_KEYS: i64 = Self::KEYS / Self::SIDE;
    /// Terms of the sums that are in shared memory at a time.
    pub(super) const STEP: i64 = 32;
    /// The longest queries that stay in shared memory, and columns that are stored at a time.
    pub(super) const HEAD: i64 = 64;

    /// A few rows.
    pub(super) const FEW: Self = Self { rows: 1, columns: 2 * Self::HEAD, keeps_queries: false, lanes: 4 };
    /// Many rows, whose queries and values are short.
    pub(super) const HEADS: Self = Self { rows: 4, columns: Self::HEAD, keeps_queries: true, lanes: 4 };
    pub(super) const ANY: Self = Self { rows: 4, columns: 2 * Self::HEAD, keeps_queries: false, lanes: 4 };

    /// Returns the tile for sums of this type; `is_narrow` if there are few columns of values.
    pub(super) fn of(self, sum: DType, is_narrow: bool) -> Self {
        let is_wide = Self::is_wide(sum);
        Self {
            // Half the rows have as many bytes.
            rows: if is_wide { self.rows.min(2) } else { self.rows },
            columns: if is_wide || is_narrow { Self::HEAD } else { self.columns },
            lanes: i64::from(GpuModel::ACCESS_BYTES) / sum.size() as i64,
            ..self
        }
    }

    /// Returns true if elements of this type are wider than those that the tiles are made for.
    pub(super) fn is_wide(sum: DType) -> bool {
        sum.size() > DType::F32.size()
    }

    /// The rows of a block.
    pub(super) const fn block_rows(&self) -> i64 {
        self.rows * Self::SIDE
    }

    /// The vectors of a row of totals that a thread has, and the columns from one to the next.
    pub(super) fn vectors(&self) -> i64 {
        self.columns / self.apart()
    }

    pub(super) fn apart(&self) -> i64 {
        Self::SIDE * self.lanes
    }
}

/// The place of a thread.
pub(super) struct Place {
    /// The position of its block along the batch dimensions.
    pub(super) batch: Vec<Value>,
    /// The first row and the first column of its block.
    pub(super) first_row: Value,
    pub(super) first_column: Value,
    pub(super) thread: Value,
    /// Its number among the threads of a row, and its first row in the tile.
    pub(super) along: Value,
    pub(super) down: Value,
    /// The positions of its rows: those after the last row are at the last one.
    pub(super) rows: Vec<Value>,
}

impl Place {
    pub(super) fn new(kb: &mut KernelBuilder, tile: &Tile, parts: &Parts, tiles: [&Dim; 2]) -> Self {
        let [block, thread] = ["block", "thread"].map(|of| kb.place(of));
        let sizes = parts.batches.iter().chain(tiles);
        let runs: Vec<Merged> = sizes.map(|size| Merged { size: size.clone(), axis: 0 }).collect();
        let mut batch = positions_of(kb, block, &runs);
        let column = batch.pop().expect("a tile has a place");
        let row = batch.pop().expect("a tile has a place");
        let [height, width] = [tile.block_rows(), tile.columns].map(|size| kb.int(size));
        let (first_row, first_column) = (expr!(kb, row * height), expr!(kb, column * width));
        let (side, own, one) = (kb.int(Tile::SIDE), kb.int(tile.rows), kb.int(1));
        let (line, along) = (expr!(kb, thread / side), expr!(kb, thread % side));
        let down = expr!(kb, line * own);
        let (last, first) = (expr!(kb, dim(&parts.rows) - one), expr!(kb, first_row + down));
        let rows = (0..tile.rows).map(|number| expr!(kb, min(first + int(number), last)));
        let rows = rows.collect();
        Self { batch, first_row, first_column, thread, along, down, rows }
    }

    /// Returns a position at that of the block along the batch dimensions.
    pub(super) fn at(&self, further: &[Value]) -> Vec<Index> {
        self.batch.iter().chain(further).map(|&position| Index::uniform(position)).collect()
    }
}
