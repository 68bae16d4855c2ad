//! Passes sums of a warp's tiles through shared memory. A thread of a tile has pairs of
//! neighbouring sums; it takes those of a run of neighbours, which it can store together.
use super::{LaneParts, TILE_ROWS};
use crate::{kernel::KernelBuilder, schedule::gpu::frame::GridFrame};
use disc_ir::{DType, Value};
use disc_kernel_macros::expr;

/// Sums of a run, where results are vectors.
pub(in crate::schedule::gpu) const RUN: u32 = 4;
/// Bytes of a sum.
const SUM: i64 = 4;
/// Sums between the lines of a warp, beside its columns: pairs of 8 lines meet in all banks.
const APART: i64 = 8;
/// Threads of a warp, and those that have a line of a tile.
const WARP: i64 = 32;
const MEMBERS: i64 = 4;

/// The memory of a warp: a row of tiles.
#[derive(Clone, Copy)]
pub(in crate::schedule::gpu) struct Passage {
    /// Memory of a block, and the type of its elements, which are no wider than sums.
    pub(in crate::schedule::gpu) memory: Value,
    pub(in crate::schedule::gpu) dtype: DType,
    pub(in crate::schedule::gpu) sum: DType,
    /// Columns of the warp.
    pub(in crate::schedule::gpu) columns: i64,
}

/// Returns the elements of this type that warps with so many columns need for their passage.
pub(in crate::schedule::gpu) fn passage_elements(dtype: DType, warps: i64, columns: i64) -> i64 {
    warps * TILE_ROWS * (columns + APART) * SUM / dtype.size() as i64
}

impl Passage {
    /// The sums from one line of a warp to the next.
    fn pitch(&self) -> i64 {
        self.columns + APART
    }

    /// Returns the first sum of a warp.
    fn start(&self, kb: &mut KernelBuilder, warp: Value) -> Value {
        expr!(kb, warp * int(TILE_ROWS * self.pitch()))
    }

    fn index(&self, kb: &mut KernelBuilder, start: Value, [row, column]: [Value; 2]) -> Value {
        let (pitch, each) = (kb.int(self.pitch()), kb.int(SUM / self.dtype.size() as i64));
        expr!(kb, (start + row * pitch + column) * each)
    }

    /// Puts the sums of a row of tiles into memory. The warp has to meet before it if it took
    /// others from there.
    pub(in crate::schedule::gpu) fn put(&self, kb: &mut KernelBuilder, lane: &LaneParts, warp: Value, sums: &[Value]) {
        let start = self.start(kb, warp);
        let (members, two) = (kb.int(MEMBERS), kb.int(2));
        let line = expr!(kb, lane.lane / members);
        let own = expr!(kb, lane.lane % members * two);
        for (number, &tile) in sums.iter().enumerate() {
            for (half, pair) in kb.halves_of(tile, self.dtype).into_iter().enumerate() {
                let (below, beside) = (kb.int(8 * half as i64), kb.int(8 * number as i64));
                let (row, column) = (expr!(kb, line + below), expr!(kb, own + beside));
                let index = self.index(kb, start, [row, column]);
                kb.store(self.memory, index, pair, None);
            }
        }
        kb.warp_barrier();
    }

    /// Takes runs of `lanes` sums from memory: `body` gets the row and the first column of each, in
    /// the row of tiles, and a way to load it.
    pub(in crate::schedule::gpu) fn take<'g>(
        &self,
        frame: &mut GridFrame<'g>,
        lane: &LaneParts,
        (warp, lanes): (Value, u32),
        body: impl FnOnce(&mut GridFrame<'g>, [Value; 2], &dyn Fn(&mut KernelBuilder) -> Value),
    ) {
        let kb = &mut frame.kb;
        let start = self.start(kb, warp);
        let width = self.columns / i64::from(lanes);
        let bounds = [lane.lane, kb.int(TILE_ROWS * width), kb.int(WARP)];
        let open = kb.open_for(bounds);
        let (width, each) = (kb.int(width), kb.int(lanes.into()));
        let row = expr!(kb, open.index / width);
        let column = expr!(kb, open.index % width * each);
        let index = self.index(kb, start, [row, column]);
        let load = |kb: &mut KernelBuilder| {
            let found = kb.load(self.memory, index, lanes * (SUM as u32 / self.dtype.size() as u32), None);
            if self.dtype == self.sum { found } else { kb.recast(found, self.sum) }
        };
        body(frame, [row, column], &load);
        frame.kb.close_for(open);
    }
}
