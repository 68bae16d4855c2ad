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
use disc_ir::{OpKind, Value};

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
            // No barrier of the scores is behind the threads that read the weights before.
            frame.kb.barrier();
        }
        let kb = &mut frame.kb;
        for (number, &weight) in (0..).zip(weights) {
            let (row, key) = (kb.int(number / Tile::OWN_KEYS), kb.int(number % Tile::OWN_KEYS * Tile::SIDE));
            let (line, key) = (kb.add(place.down, row), kb.add(place.along, key));
            let index = memory.weights.index(kb, line, key);
            let weight = kb.convert(weight, self.sum());
            kb.store(memory.weights.buffer, index, weight, None);
        }
        let bounds = self.values_of_tile(kb, keys);
        let mut open = kb.open_for_carrying(bounds, totals);
        frame.elements.open_scope();
        frame.kb.barrier();
        let first = frame.kb.add(keys.first, open.index);
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
        let length = kb.dim(&self.parts.length);
        let left = kb.sub(length, keys.first);
        [zero, kb.map(OpKind::Minimum, &[left, all]), step]
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
        let width = kb.int(self.tile.lanes);
        let own = kb.mul(place.along, width);
        kb.for_(bounds, totals, |kb, key, totals| {
            let of_tile = kb.add(first, key);
            let weights: Vec<Value> = (0..self.tile.rows)
                .map(|number| {
                    let number = kb.int(number);
                    let line = kb.add(place.down, number);
                    let index = memory.weights.index(kb, line, of_tile);
                    kb.load(memory.weights.buffer, index, lanes, None)
                })
                .collect();
            let mut next = totals.to_vec();
            for lane in 0..lanes {
                let number = kb.int(i64::from(lane));
                let line = kb.add(key, number);
                let values: Vec<Value> = (0..self.tile.vectors())
                    .map(|vector| {
                        let offset = kb.int(vector * self.tile.apart());
                        let column = kb.add(own, offset);
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
            let width = kb.int(self.tile.lanes);
            let own = kb.mul(place.along, width);
            for (row, totals) in (0..).zip(totals.chunks(self.tile.vectors() as usize)) {
                let row = kb.int(row);
                let line = kb.add(place.down, row);
                for (number, &total) in (0..).zip(&totals[part as usize * each..][..each]) {
                    let offset = kb.int(number * self.tile.apart());
                    let column = kb.add(own, offset);
                    let index = memory.weights.index(kb, line, column);
                    kb.store(memory.weights.buffer, index, total, None);
                }
            }
            kb.barrier();
            let [low, high, step] = [0, self.tile.block_rows() * Tile::HEAD, Tile::THREADS].map(|bound| kb.int(bound));
            let open = kb.open_for([low, high, step]);
            let element = kb.add(open.index, place.thread);
            let (width, skipped) = (kb.int(Tile::HEAD), kb.int(part * Tile::HEAD));
            let (line, along) = (kb.div(element, width), kb.rem(element, width));
            let (row, column) = (kb.add(place.first_row, line), kb.add(place.first_column, along));
            let column = kb.add(column, skipped);
            let [rows, columns] = [&self.parts.rows, &self.parts.columns].map(|dim| kb.dim(dim));
            let [above, before] = [kb.compare("LT", row, rows), kb.compare("LT", column, columns)];
            let exists = kb.and(above, before);
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
