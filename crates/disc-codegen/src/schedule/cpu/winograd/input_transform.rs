//! Transforms the input: from the elements that a tile reads to the places of its transformed
//! window, for neighbouring tiles at once.
//!
//! A row of the input is read in contiguous vectors; rounds of taking every second lane split it
//! into the columns of the tiles: two of them for tiles of four columns, one for those of two.
use super::{Emitter, Segment};
use crate::kernel::KernelBuilder;
use disc_ir::{DType, Dim, Value};
use disc_kernel_macros::expr;

/// The values that are the same for all features.
struct Reading {
    /// The place of the first element of each row in the input, for the first feature; and a mask
    /// of the lanes whose row the input has.
    rows: Vec<(Value, Value)>,
    /// The mask of the elements of a row that exist, for each vector that is read.
    masks: Vec<Value>,
}

impl Emitter<'_, '_> {
    /// Transforms a segment of tiles for all input features.
    pub(super) fn transform(&mut self, kb: &mut KernelBuilder, segment: &Segment) {
        let plan = self.plan;
        let reading = self.reading(kb, segment);
        let (zero, one, channels) = (kb.int(0), kb.int(1), kb.int(plan.channels));
        let plane = kb.dim(&(&plan.size[0] * &plan.size[1]));
        let written = plan.has_masks.then(|| kb.lane_mask(segment.count, segment.lanes));
        kb.for_each([zero, channels, one], |kb, channel| {
            let before = expr!(kb, channel * plane);
            let mut columns: Vec<Vec<Value>> = Vec::new();
            for &(row, exists) in &reading.rows {
                let from = expr!(kb, row + before);
                let elements = self.columns(kb, segment, from, exists, &reading.masks);
                columns.push(plan.method.transform_input(kb, &elements));
            }
            let row = kb.int(plan.tiles_row());
            let to = expr!(kb, channel * row + segment.first);
            let read = plan.method.read() as usize;
            for across in 0..read {
                let column: Vec<Value> = columns.iter().map(|row| row[across]).collect();
                for (down, value) in plan.method.transform_input(kb, &column).into_iter().enumerate() {
                    let place = (down * read + across) as i64;
                    let there = expr!(kb, to + int(place * plan.tiles_pitch()));
                    kb.store(self.held, there, value, written);
                }
            }
        });
    }

    fn reading(&self, kb: &mut KernelBuilder, segment: &Segment) -> Reading {
        let plan = self.plan;
        let (zero, side) = (kb.int(0), kb.int(plan.method.side()));
        let [low_y, low_x] = [0, 1].map(|i| kb.dim(&plan.low[i]));
        let [height, width] = [0, 1].map(|i| kb.dim(&plan.size[i]));
        let (first_y, first_x) = (expr!(kb, segment.row * side), expr!(kb, segment.column * side));
        let (first_y, first_x) = (expr!(kb, first_y - low_y), expr!(kb, first_x - low_x));
        let image = kb.dim(&(Dim::constant(plan.channels) * &plan.size[0] * &plan.size[1]));
        let image = expr!(kb, segment.batch * image);
        let rows = (0..plan.method.read()).map(|row| {
            let y = expr!(kb, first_y + int(row));
            let exists = expr!(kb, (y >= zero) & (y < height));
            let line = expr!(kb, image + y * width);
            // All lanes, or none.
            let lanes = expr!(kb, select(exists, int(i64::from(segment.lanes)), zero));
            (expr!(kb, line + first_x), kb.lane_mask(lanes, segment.lanes))
        });
        let rows = rows.collect();
        let masks = shifts(plan.method.side(), segment.lanes).into_iter().map(|shift| {
            let x = expr!(kb, first_x + int(shift));
            let (start, stop) = (expr!(kb, zero - x), expr!(kb, width - x));
            let (before, until) = (kb.lane_mask(start, segment.lanes), kb.lane_mask(stop, segment.lanes));
            expr!(kb, until & !before)
        });
        Reading { rows, masks: masks.collect() }
    }

    /// The columns of the tiles in one row of the input.
    fn columns(&self, kb: &mut KernelBuilder, segment: &Segment, from: Value, exists: Value, masks: &[Value]) -> Vec<Value> {
        let side = self.plan.method.side();
        let read: Vec<Value> = shifts(side, segment.lanes)
            .into_iter()
            .zip(masks)
            .map(|(shift, &mask)| {
                let (shift, mask) = (kb.int(shift), expr!(kb, mask & exists));
                let at = expr!(kb, from + shift);
                let loaded = kb.load(self.input, at, segment.lanes, Some(mask));
                kb.convert(loaded, DType::F32)
            })
            .collect();
        let (own, next) = read.split_at(side as usize);
        let mut columns = parted(kb, own);
        columns.extend(parted(kb, next).into_iter().take(2));
        columns
    }
}

/// Gives the starts of the vectors of a row that are read: as many as tiles have columns for these,
/// and as many that start with the next column.
fn shifts(side: i64, lanes: u32) -> Vec<i64> {
    let starts = |first: i64| (0..side).map(move |number| first + number * i64::from(lanes));
    starts(0).chain(starts(side)).collect()
}

/// Splits the lanes of two or four vectors, taken as one, by their numbers modulo that many.
fn parted(kb: &mut KernelBuilder, vectors: &[Value]) -> Vec<Value> {
    if let [low, high] = *vectors {
        return kb.unzip_lanes(low, high).to_vec();
    }
    let [even_low, odd_low] = kb.unzip_lanes(vectors[0], vectors[1]);
    let [even_high, odd_high] = kb.unzip_lanes(vectors[2], vectors[3]);
    let [zero, two] = kb.unzip_lanes(even_low, even_high);
    let [one, three] = kb.unzip_lanes(odd_low, odd_high);
    vec![zero, one, two, three]
}
