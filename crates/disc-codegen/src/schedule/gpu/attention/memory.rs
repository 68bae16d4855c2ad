//! Lays out the memory that a block shares, and brings tiles of operands to it.
//!
//! A line of queries or keys has terms, a line of values has columns. Lines are so far apart that
//! the threads of a warp do not wait for banks: those that read vectors of neighbouring lines find
//! them in different banks, and so do those that write the weights of different rows.
use super::{
    Attention,
    parts::Operand,
    tile::{Place, Tile},
};
use crate::{
    kernel::{Index, KernelBuilder},
    schedule::gpu::frame::GridFrame,
};
use disc_ir::{DType, Dim, TensorType, Value};
use disc_kernel_macros::expr;

/// Bytes of a sector of memory.
const SECTOR: i64 = 32;
/// Neighbouring threads that bring elements of a few sectors, where memory is contiguous across
/// lines: as many as the smallest warp has.
const NEIGHBOURS: i64 = 32;

/// Lines in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Area {
    pub(super) buffer: Value,
    start: i64,
    /// Elements from one line to the next.
    pub(super) pitch: i64,
}

impl Area {
    /// Returns the index of an element.
    pub(super) fn index(&self, kb: &mut KernelBuilder, line: Value, element: Value) -> Value {
        let (pitch, start) = (kb.int(self.pitch), kb.int(self.start));
        expr!(kb, line * pitch + element + start)
    }
}

/// The memory that a block shares.
pub(super) struct Memory {
    pub(super) queries: Area,
    pub(super) keys: Area,
    pub(super) values: Area,
    /// The weights of a tile; at the end, results.
    pub(super) weights: Area,
    /// Flags of the warps, if there are masks.
    pub(super) flags: Option<Value>,
}

impl Memory {
    pub(super) fn new(kb: &mut KernelBuilder, tile: &Tile, dtype: DType, flags: Option<Value>) -> Self {
        let rows = tile.block_rows();
        let pitch = Tile::STEP + tile.lanes;
        let of_queries = if tile.keeps_queries { Tile::HEAD + tile.lanes } else { pitch };
        let of_values = tile.columns + tile.lanes;
        let keys = rows * of_queries;
        // Values take the place of keys, and of queries that are brought again.
        let values = if tile.keeps_queries { keys } else { 0 };
        let size = (keys + Tile::KEYS * pitch).max(values + Tile::STEP * of_values);
        let buffer = kb.shared(TensorType::new([Dim::constant(size)], dtype));
        // The rows of neighbouring threads are half the banks apart.
        let of_weights = Tile::KEYS + Tile::SIDE / tile.rows;
        let weights = kb.shared(TensorType::new([Dim::constant(rows * of_weights)], dtype));
        Self {
            queries: Area { buffer, start: 0, pitch: of_queries },
            keys: Area { buffer, start: keys, pitch },
            values: Area { buffer, start: values, pitch: of_values },
            weights: Area { buffer: weights, start: 0, pitch: of_weights },
            flags,
        }
    }
}

/// A dimension of a tile in an operand: the first position and the number of them.
pub(super) struct Side<'d> {
    pub(super) first: Value,
    pub(super) count: i64,
    pub(super) size: &'d Dim,
    /// The positions are terms of sums: there are zeros after the last.
    pub(super) is_summed: bool,
}

impl Attention<'_> {
    /// Brings a tile of an operand: zeros after the last term, anything after the last row, key or
    /// column, whose results nobody keeps.
    pub(super) fn bring(
        &self,
        frame: &mut GridFrame<'_>,
        place: &Place,
        (operand, area): (&Operand, Area),
        sides: &[Side<'_>; 2],
    ) {
        let found = self.elements_of(frame, place, operand, sides);
        let kb = &mut frame.kb;
        let brought: Vec<(Value, Value)> =
            found.into_iter().map(|(line, along, value)| (area.index(kb, line, along), value)).collect();
        brought.into_iter().for_each(|(index, value)| kb.store(area.buffer, index, value, None));
    }

    /// Computes the elements of a tile of an operand that the thread brings, each with its line and
    /// its place there.
    pub(super) fn elements_of(
        &self,
        frame: &mut GridFrame<'_>,
        place: &Place,
        operand: &Operand,
        sides: &[Side<'_>; 2],
    ) -> Vec<(Value, Value, Value)> {
        let GridFrame { kb, elements, .. } = frame;
        let [lines, inner] = sides;
        let tensor = self.group.tensor(operand.value);
        let axis = |side: &Side<'_>| if side.is_summed { operand.sum } else { operand.free };
        let are_beside = axis(lines) + 1 == tensor.rank();
        let sector = SECTOR / tensor.dtype.size() as i64;
        let mut found = Vec::new();
        for number in 0..lines.count * inner.count / Tile::THREADS {
            let element = expr!(kb, place.thread + int(number * Tile::THREADS));
            let (line, along) = match are_beside {
                true => spread(kb, element, [sector, NEIGHBOURS / sector], inner.count),
                false => {
                    let count = kb.int(inner.count);
                    (expr!(kb, element / count), expr!(kb, element % count))
                }
            };
            let mut at = vec![Index::uniform(kb.int(0)); tensor.rank()];
            operand.batch.iter().zip(&place.batch).for_each(|(&axis, &position)| at[axis] = Index::uniform(position));
            let mut exists = None;
            for (side, position) in [(lines, line), (inner, along)] {
                let there = expr!(kb, side.first + position);
                let last = expr!(kb, dim(side.size) - 1);
                exists = exists.or(side.is_summed.then(|| expr!(kb, there <= last)));
                at[axis(side)] = Index::uniform(kb.min(there, last));
            }
            let value = elements.element(kb, operand.value, &at);
            let value = kb.convert(value, self.sum());
            let (exists, zero) = (exists.expect("an operand has terms"), kb.zero(self.sum(), 1));
            found.push((line, along, kb.select(exists, value, zero)));
        }
        found
    }

    /// Brings all queries of the tile.
    pub(super) fn keep_queries(&self, frame: &mut GridFrame<'_>, place: &Place, memory: &Memory) {
        let kb = &mut frame.kb;
        // It runs once, or not at all where there are no terms.
        let bounds = [kb.int(0), kb.dim(&self.parts.terms), kb.int(Tile::HEAD)];
        let open = kb.open_for(bounds);
        frame.elements.open_scope();
        self.bring_queries(frame, place, memory, open.index, Tile::HEAD);
        frame.elements.close_scope();
        frame.kb.close_for(open);
    }

    /// Brings some terms of the queries of the tile.
    pub(super) fn bring_queries(&self, frame: &mut GridFrame<'_>, place: &Place, memory: &Memory, first: Value, count: i64) {
        let lines = Side { first: place.first_row, count: self.tile.block_rows(), size: &self.parts.rows, is_summed: false };
        let terms = Side { first, count, size: &self.parts.terms, is_summed: true };
        self.bring(frame, place, (&self.parts.queries, memory.queries), &[lines, terms]);
    }
}

/// Returns the line and the place in it of an element: `lines` threads have neighbouring lines,
/// `places` neighbours have places in them.
fn spread(kb: &mut KernelBuilder, element: Value, [lines, places]: [i64; 2], count: i64) -> (Value, Value) {
    let [group, of_group, across, places] = [NEIGHBOURS, lines, count / places, places].map(|number| kb.int(number));
    let (block, own) = (expr!(kb, element / group), expr!(kb, element % group));
    let (down, along) = (expr!(kb, block / across), expr!(kb, block % across));
    let (down, along) = (expr!(kb, down * of_group), expr!(kb, along * places));
    let (line, place) = (expr!(kb, own % of_group), expr!(kb, own / of_group));
    (expr!(kb, down + line), expr!(kb, along + place))
}
