//! Loads fragments of tiles from lines in shared memory, for products by a whole warp.
//!
//! A line is some chunks of 16 bytes, and a fragment is made of matrices of 8 lines by a chunk. The
//! chunks of a line are permuted by its number, so that 8 neighbouring lines have a chunk of one
//! number in different banks: neither threads that load a matrix wait for banks, nor those that
//! bring neighbouring chunks.
//!
//! Fragments of `mma.sync` are alike for all types: a thread has 4 bytes of each matrix, and a step
//! has two chunks of terms.
pub(super) mod panel;
pub(super) mod passage;

use crate::{kernel::KernelBuilder, schedule::Group, target::GpuModel};
use disc_ir::{DType, Dim, TensorType, Value, fragment::Tile};
use disc_kernel_macros::expr;

/// Bytes of a chunk.
pub(super) const CHUNK: i64 = 16;
/// Chunks of terms of a step: one matmul of tiles.
pub(super) const STEP_CHUNKS: i64 = 2;
/// Rows of the left tile, and columns of two right ones, which are loaded together.
pub(super) const TILE_ROWS: i64 = 16;
pub(super) const PAIR_COLUMNS: i64 = 16;
/// Chunks that have all banks, each in its own.
const BANKED: i64 = 8;

/// Returns the tile for products of operands of this type on the group's chip: those of f32 are
/// rounded to tf32, where that is allowed.
pub(super) fn tile_of(group: &Group<'_>, dtype: DType) -> Option<Tile> {
    let model = GpuModel::of(group.target)?;
    if !model.multiplied.contains(&dtype) || (dtype == DType::F32 && !group.tf32) {
        return None;
    }
    match dtype {
        DType::F16 | DType::BF16 => Some(Tile::M16N8K16),
        DType::I8 | DType::U8 => Some(Tile::M16N8K32),
        DType::F32 => Some(Tile::M16N8K8),
        _ => None,
    }
}

/// Lines of an operand in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    pub(super) memory: Value,
    pub(super) dtype: DType,
    /// The first chunk, from where a step of the pipeline begins.
    pub(super) start: i64,
    /// Chunks of a line: 4, or a multiple of 8.
    pub(super) chunks: i64,
    /// A line has terms of one row or column; else it has rows or columns of one term.
    pub(super) along_terms: bool,
}

/// The number of a thread in its warp, as the parts that name lines of matrices.
#[derive(Clone, Copy)]
pub(super) struct LaneParts {
    pub(super) lane: Value,
    /// The line of a matrix.
    line: Value,
    /// The number of the matrix: its low bit and its high one.
    low: Value,
    high: Value,
}

impl LaneParts {
    pub(super) fn new(kb: &mut KernelBuilder) -> Self {
        let (lane, eight, two) = (kb.place("lane"), kb.int(8), kb.int(2));
        let (line, matrix) = (expr!(kb, lane % eight), expr!(kb, lane / eight));
        Self { lane, line, low: expr!(kb, matrix % two), high: expr!(kb, matrix / two) }
    }
}

/// The part of an operand that a warp multiplies: places from `first` on, a multiple of 8, and as
/// many matmuls of tiles along the terms as are in memory.
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub(super) first: Value,
    pub(super) places: i64,
    pub(super) steps: i64,
}

impl Lines {
    /// Elements of a chunk.
    pub(super) fn per_chunk(&self) -> i64 {
        CHUNK / self.dtype.size() as i64
    }

    /// Returns the number that permutes the chunks of a line: the same for lines that are 8 apart.
    fn turn(&self, kb: &mut KernelBuilder, line: Value) -> Value {
        if self.chunks < BANKED {
            // Lines of half the banks take turns in pairs.
            let (lines, chunks) = (kb.int(BANKED / self.chunks), kb.int(self.chunks));
            let pair = expr!(kb, line / lines);
            return expr!(kb, pair % chunks);
        }
        expr!(kb, line % int(BANKED))
    }

    /// Returns the element at which a chunk of a line begins.
    pub(super) fn index(&self, kb: &mut KernelBuilder, line: Value, chunk: Value) -> Value {
        let turn = self.turn(kb, line);
        self.turned(kb, line, chunk, turn)
    }

    fn turned(&self, kb: &mut KernelBuilder, line: Value, chunk: Value, turn: Value) -> Value {
        let (chunks, per_chunk, start) = (kb.int(self.chunks), kb.int(self.per_chunk()), kb.int(self.start));
        let place = expr!(kb, chunk ^ turn);
        expr!(kb, (line * chunks + place + start) * per_chunk)
    }

    /// Returns the left fragments of a share at a step, 16 rows each.
    pub(super) fn left(&self, kb: &mut KernelBuilder, lane: &LaneParts, from: Value, share: &Share, step: i64) -> Vec<Value> {
        (0..share.places / TILE_ROWS).map(|tile| self.load(kb, lane, from, (share, tile, step), [lane.low, lane.high])).collect()
    }

    /// Returns the right fragments of a share at a step, 8 columns each.
    pub(super) fn right(&self, kb: &mut KernelBuilder, lane: &LaneParts, from: Value, share: &Share, step: i64) -> Vec<Value> {
        let mut found = Vec::new();
        for pair in 0..share.places / PAIR_COLUMNS {
            let both = self.load(kb, lane, from, (share, pair, step), [lane.high, lane.low]);
            found.extend(kb.halves_of(both, self.dtype));
        }
        found
    }

    /// Loads four matrices of the 16 places with this number: a thread names one whose places are 8
    /// further if `beside` is 1, and whose terms are a chunk, or 8 lines, further if `behind` is.
    ///
    /// Addresses of one share differ by constants where the permutation allows it: these are parts
    /// of the instruction.
    fn load(
        &self,
        kb: &mut KernelBuilder,
        lane: &LaneParts,
        from: Value,
        (share, number, step): (&Share, i64, i64),
        [beside, behind]: [Value; 2],
    ) -> Value {
        let eight = kb.int(8);
        let (line_further, line_offset) = match self.along_terms {
            true => (beside, PAIR_COLUMNS * number),
            false => (behind, STEP_CHUNKS * self.per_chunk() * step),
        };
        let (chunk_further, chunk_offset) = match self.along_terms {
            true => (behind, STEP_CHUNKS * step),
            false => (beside, PAIR_COLUMNS / self.per_chunk() * number),
        };
        let line = expr!(kb, line_further * eight + lane.line);
        let chunk = expr!(kb, int(chunk_offset % BANKED) + chunk_further);
        let (line, chunk) = if self.along_terms {
            (expr!(kb, share.first + line), chunk)
        } else {
            let first = expr!(kb, share.first / eight);
            (line, expr!(kb, first + chunk))
        };
        let turn = self.turn(kb, lane.line);
        let index = self.turned(kb, line, chunk, turn);
        let index = expr!(kb, from + index);
        let view = kb.view(self.memory, index, TensorType::new([Dim::constant(self.reach(share))], self.dtype));
        let offset = (line_offset * self.chunks + chunk_offset / BANKED * BANKED) * self.per_chunk();
        let offset = kb.int(offset);
        kb.load_matrix(view, offset, CHUNK as u32, !self.along_terms)
    }

    /// Returns the elements from the first that a thread names to the end of the last, in one line
    /// of each matrix.
    fn reach(&self, share: &Share) -> i64 {
        let per_chunk = self.per_chunk();
        let far = |chunks: i64| (chunks - 1) / BANKED * BANKED;
        let chunks = if self.along_terms {
            (share.places - PAIR_COLUMNS) * self.chunks + far(STEP_CHUNKS * share.steps)
        } else {
            (share.steps - 1) * STEP_CHUNKS * per_chunk * self.chunks + far(share.places / per_chunk)
        };
        (chunks + 1) * per_chunk
    }
}
