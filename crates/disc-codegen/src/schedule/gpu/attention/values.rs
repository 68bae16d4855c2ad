//! Multiplies weights by values, and writes the outputs.
use super::{
    Attention,
    memory::{Memory, Side},
    rows::Keys,
    tile::{Place, Tile},
};
use crate::{
    element::matmul::multiply_add,
    kernel::KernelBuilder,
    schedule::gpu::{frame::GridFrame, matmul::conclude},
};
use disc_ir::Value;
use disc_kernel_macros::expr;

impl Attention<'_> {
    /// Adds the products of the weights of a tile with the values to totals.
    pub(super) fn weigh(
        &self,
        frame: &mut GridFrame<'_>,
        place: &Place,
        memory: &Memory,
        keys: &Keys,
        weights: &[Value],
        totals: &[Value],
    ) -> Vec<Value> {
        let has_terms = self.group.solver.range(&self.parts.terms).lo.is_some_and(|least| least > 0);
        if !has_terms {
            // The scores have had no barrier since threads read the previous weights.
            frame.kb.barrier();
        }
        let kb = &mut frame.kb;
        for (number, &weight) in (0..).zip(weights) {
            let (row, key) = (kb.int(number / Tile::OWN_KEYS), kb.int(number % Tile::OWN_KEYS * Tile::SIDE));
            let (line, key) = (expr!(kb, place.down + row), expr!(kb, place.along + key));
            let index = memory.weights.index(kb, line, key);
            let weight = kb.convert(weight, self.sum());
            kb.store(memory.weights.buffer, index, weight, None);
        }
        let bounds = self.values_of_tile(kb, keys);
        let mut open = kb.open_for_carrying(bounds, totals);
        frame.elements.open_scope();
        frame.kb.barrier();
        let first = expr!(frame.kb, keys.first + open.index);
        let sides = self.value_sides(place, first);
        self.bring(frame, place, (&self.parts.values, memory.values), &sides);
        frame.kb.barrier();
        open.next = self.add_values(&mut frame.kb, place, memory, open.index, &open.carried);
        frame.elements.close_scope();
        frame.kb.close_for(open)
    }

    /// Returns the bounds of a loop over the keys of a tile, as many at once as have values in
    /// shared memory.
    pub(super) fn values_of_tile(&self, kb: &mut KernelBuilder, keys: &Keys) -> [Value; 3] {
        let (zero, step, all) = (kb.int(0), kb.int(Tile::STEP), kb.int(Tile::KEYS));
        let left = expr!(kb, dim(&self.parts.length) - keys.first);
        [zero, kb.min(left, all), step]
    }

    /// Returns the keys and the columns of values that are in shared memory at once.
    pub(super) fn value_sides(&self, place: &Place, first: Value) -> [Side<'_>; 2] {
        let lines = Side { first, count: Tile::STEP, size: &self.parts.length, is_summed: true };
        let columns = Side { first: place.first_column, count: self.tile.columns, size: &self.parts.columns, is_summed: false };
        [lines, columns]
    }

    /// Adds the products with the values in shared memory.
    fn add_values(&self, kb: &mut KernelBuilder, place: &Place, memory: &Memory, first: Value, totals: &[Value]) -> Vec<Value> {
        let lanes = self.tile.lanes as u32;
        let bounds = [0, Tile::STEP, self.tile.lanes].map(|bound| kb.int(bound));
        let own = expr!(kb, place.along * int(self.tile.lanes));
        kb.for_(bounds, totals, |kb, key, totals| {
            let of_tile = expr!(kb, first + key);
            let weights: Vec<Value> = (0..self.tile.rows)
                .map(|number| {
                    let line = expr!(kb, place.down + int(number));
                    let index = memory.weights.index(kb, line, of_tile);
                    kb.load(memory.weights.buffer, index, lanes, None)
                })
                .collect();
            let mut next = totals.to_vec();
            for lane in 0..lanes {
                let line = expr!(kb, key + int(i64::from(lane)));
                let values: Vec<Value> = (0..self.tile.vectors())
                    .map(|vector| {
                        let column = expr!(kb, own + int(vector * self.tile.apart()));
                        let index = memory.values.index(kb, line, column);
                        kb.load(memory.values.buffer, index, lanes, None)
                    })
                    .collect();
                for (totals, &weight) in next.chunks_mut(values.len()).zip(&weights) {
                    let weight = kb.extract_lane(weight, lane);
                    let weight = kb.widen(weight, lanes);
                    for (total, &value) in totals.iter_mut().zip(&values) {
                        *total = multiply_add(kb, self.sum(), weight, value, *total);
                    }
                }
            }
            next
        })
    }

    /// Computes the outputs and stores them, some columns after the others: they pass through
    /// shared memory, so that neighbouring threads store neighbouring columns.
    pub(super) fn write(&self, frame: &mut GridFrame<'_>, place: &Place, memory: &Memory, totals: &[Value]) {
        let each = (Tile::HEAD / self.tile.apart()) as usize;
        for part in 0..self.tile.columns / Tile::HEAD {
            // The threads have read what was there before.
            frame.kb.barrier();
            let kb = &mut frame.kb;
            let own = expr!(kb, place.along * int(self.tile.lanes));
            for (row, totals) in (0..).zip(totals.chunks(self.tile.vectors() as usize)) {
                let line = expr!(kb, place.down + int(row));
                for (number, &total) in (0..).zip(&totals[part as usize * each..][..each]) {
                    let column = expr!(kb, own + int(number * self.tile.apart()));
                    let index = memory.weights.index(kb, line, column);
                    kb.store(memory.weights.buffer, index, total, None);
                }
            }
            kb.barrier();
            let [low, high, step] = [0, self.tile.block_rows() * Tile::HEAD, Tile::THREADS].map(|bound| kb.int(bound));
            let open = kb.open_for([low, high, step]);
            let element = expr!(kb, open.index + place.thread);
            let (width, skipped) = (kb.int(Tile::HEAD), kb.int(part * Tile::HEAD));
            let (line, along) = (expr!(kb, element / width), expr!(kb, element % width));
            let row = expr!(kb, place.first_row + line);
            let column = expr!(kb, place.first_column + along + skipped);
            let [rows, columns] = [&self.parts.rows, &self.parts.columns].map(|dim| kb.dim(dim));
            let [above, before] = [expr!(kb, row < rows), expr!(kb, column < columns)];
            let exists = expr!(kb, above & before);
            let inside = kb.open_if(exists);
            let index = memory.weights.index(kb, line, along);
            let total = kb.load(memory.weights.buffer, index, 1, None);
            frame.elements.open_scope();
            conclude(frame, self.group, self.parts.weighted, &place.at(&[row, column]), total);
            frame.elements.close_scope();
            frame.kb.close_if(inside);
            frame.kb.close_for(open);
        }
    }
}
