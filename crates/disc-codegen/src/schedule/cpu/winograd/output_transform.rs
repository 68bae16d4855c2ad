//! Transforms products to results: from the places of transformed windows to the results of each
//! tile, for neighbouring tiles at once.
use super::{Emitter, Position, Segment};
use crate::kernel::KernelBuilder;
use disc_ir::{DType, Value};
use disc_kernel_macros::expr;

/// The place of the results of a segment: the first one, and their number in a row.
pub(super) struct Corner {
    pub(super) batch: Value,
    pub(super) row: Value,
    pub(super) column: Value,
    pub(super) count: Value,
}

impl Emitter<'_, '_> {
    /// Computes and stores the results of a segment for one block of output features; those of a
    /// feature of which one is not finite, as sums of products.
    pub(super) fn finish(&mut self, kb: &mut KernelBuilder, segment: &Segment, block: Value) {
        let plan = self.plan;
        let (zero, one, side) = (kb.int(0), kb.int(1), kb.int(plan.method.side()));
        let (rows, features, width) = (kb.int(plan.rows), kb.int(plan.features), kb.dim(&plan.width));
        let (row, column) = (expr!(kb, segment.row * side), expr!(kb, segment.column * side));
        let count = expr!(kb, min(segment.count * side, width - column));
        let corner = Corner { batch: segment.batch, row, column, count };
        let first = expr!(kb, block * rows);
        let height = expr!(kb, min(rows, features - first));
        kb.for_each([zero, height, one], |kb, feature| {
            self.elements.open_scope();
            let from = expr!(kb, feature * int(plan.products_row()) + segment.first);
            let results = self.results(kb, segment, from);
            let number = expr!(kb, first + feature);
            let is_odd = is_not_finite(kb, segment, &results);
            kb.when(is_odd, |kb| {
                self.call_again(kb, &corner, number);
            });
            let is_even = expr!(kb, !is_odd);
            kb.when(is_even, |kb| {
                self.elements.open_scope();
                for (down, columns) in results.into_iter().enumerate() {
                    self.row(kb, &corner, number, down as i64, columns, segment.lanes);
                }
                self.elements.close_scope();
            });
            self.elements.close_scope();
        });
    }

    /// For each row of the tiles, its columns.
    fn results(&self, kb: &mut KernelBuilder, segment: &Segment, from: Value) -> Vec<Vec<Value>> {
        let (method, mut rows) = (self.plan.method, vec![Vec::new(); self.plan.method.side() as usize]);
        for across in 0..method.read() {
            let column: Vec<Value> = (0..method.read())
                .map(|down| {
                    let shift = kb.int((down * method.read() + across) * self.plan.products_pitch());
                    let at = expr!(kb, from + shift);
                    kb.load(self.made, at, segment.lanes, None)
                })
                .collect();
            for (row, value) in rows.iter_mut().zip(method.transform_products(kb, &column)) {
                row.push(value);
            }
        }
        rows.iter().map(|row| method.transform_products(kb, row)).collect()
    }

    /// Stores row `down` of the tiles: its columns, taken in turn, are adjacent in memory.
    fn row(&mut self, kb: &mut KernelBuilder, corner: &Corner, feature: Value, down: i64, columns: Vec<Value>, lanes: u32) {
        let (shift, height) = (kb.int(down), kb.dim(&self.plan.height));
        let y = expr!(kb, corner.row + shift);
        let exists = expr!(kb, y < height);
        kb.when(exists, |kb| {
            self.elements.open_scope();
            for (number, vector) in joined(kb, &columns).into_iter().enumerate() {
                let done = kb.int(number as i64 * i64::from(lanes));
                let (left, x) = (expr!(kb, corner.count - done), expr!(kb, corner.column + done));
                let at = Position { batch: corner.batch, feature, y, x };
                let any = expr!(kb, left > 0);
                kb.when(any, |kb| {
                    if self.plan.has_masks {
                        self.store(kb, at, (vector, Some(left)));
                    } else {
                        let is_whole = expr!(kb, left >= int(i64::from(lanes)));
                        kb.when(is_whole, |kb| {
                            self.store(kb, at, (vector, None));
                        });
                        let is_cut = expr!(kb, !is_whole);
                        kb.when(is_cut, |kb| {
                            self.store(kb, at, (vector, Some(left)));
                        });
                    }
                });
            }
            self.elements.close_scope();
        });
    }

    fn store(&mut self, kb: &mut KernelBuilder, at: Position, result: (Value, Option<Value>)) {
        super::store(kb, self.group, self.plan, self.elements, &self.targets, at, result);
    }
}

/// Tests if a result of the segment's tiles is not finite. A sum that overflows counts as not
/// finite: it costs only time.
fn is_not_finite(kb: &mut KernelBuilder, segment: &Segment, results: &[Vec<Value>]) -> Value {
    let add = |kb: &mut KernelBuilder, values: Vec<Value>| {
        values.into_iter().reduce(|a, b| expr!(kb, a + b)).expect("tiles have sides")
    };
    let rows: Vec<Value> = results.iter().map(|row| add(kb, row.clone())).collect();
    let (sum, none) = (add(kb, rows), kb.zero(DType::F32, segment.lanes));
    // Lanes without a tile hold anything.
    let tiles = kb.lane_mask(segment.count, segment.lanes);
    let sum = kb.select(tiles, sum, none);
    // NaN where it is not finite, else 0.
    let odd = expr!(kb, sum * none);
    let odd = kb.reduce_lanes(odd, "add");
    expr!(kb, odd != float(DType::F32, 0.0, 1))
}

/// Vectors of the columns by turns: what `parted` takes apart.
fn joined(kb: &mut KernelBuilder, columns: &[Value]) -> Vec<Value> {
    if let [even, odd] = *columns {
        return kb.zip_lanes(even, odd).to_vec();
    }
    let [even_low, even_high] = kb.zip_lanes(columns[0], columns[2]);
    let [odd_low, odd_high] = kb.zip_lanes(columns[1], columns[3]);
    let (low, high) = (kb.zip_lanes(even_low, odd_low), kb.zip_lanes(even_high, odd_high));
    [low, high].concat()
}
