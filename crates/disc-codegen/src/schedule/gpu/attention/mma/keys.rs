//! Walks the keys of a block: computes the scores of a tile, and the weights of its values from
//! them.
use super::{Here, Mma, STEP, WARPS};
use crate::{
    kernel::{KernelBuilder, compute_dtype},
    schedule::gpu::{
        attention::rows::Keys,
        fragments::{PAIR_COLUMNS, Share, panel::Wanted},
        frame::GridFrame,
    },
};
use disc_ir::{DType, Value};
use disc_kernel_macros::expr;

/// Threads that have a row of scores together.
pub(super) const MEMBERS: u32 = 4;
/// Columns of a tile of scores, and those that a thread has.
const TILE_COLUMNS: i64 = 8;
const OWN_COLUMNS: i64 = 2;

impl Mma<'_, '_> {
    /// Walks the tiles of keys. Returns the maximum of each row of the thread, the sum of the
    /// weights that it has itself, and the tiles of the warp's totals.
    pub(super) fn walk(&self, frame: &mut GridFrame<'_>, here: &Here, fragments: &[Value]) -> Vec<Value> {
        let kb = &mut frame.kb;
        let (lowest, zero) = (kb.float(DType::F32, f64::NEG_INFINITY, 1), kb.zero(DType::F32, 1));
        let nothing = kb.zero(DType::F32, self.tile.c().lanes);
        let rows = here.place.rows.len();
        let tiles = (self.columns() / TILE_COLUMNS) as usize;
        let start = [vec![lowest; rows], vec![zero; rows], vec![nothing; tiles]].concat();
        let bounds = [kb.int(0), kb.dim(&self.parts().length), kb.int(self.own_keys())];
        let mut open = kb.open_for_carrying(bounds, &start);
        frame.elements.open_scope();
        // The keys have come, and the values of the tile before were read.
        self.meet(&mut frame.kb);
        let keys = self.keys_of(&mut frame.kb, here, open.index);
        let kb = &mut frame.kb;
        let next = expr!(kb, open.index + int(self.own_keys()));
        let needed = here.flags.map(|flags| self.is_needed(frame, here, flags, &keys));
        let inside = needed.map(|needed| frame.kb.open_if(needed));
        frame.elements.open_scope();
        self.bring_values(frame, here, open.index);
        let (found, weights) = self.weights(frame, here, &keys, fragments, &open.carried);
        self.meet(&mut frame.kb);
        self.bring_keys(frame, here, next);
        let totals = self.weigh(&mut frame.kb, here, &weights, &found[2 * rows..]);
        open.next = [&found[..2 * rows], &totals].concat();
        frame.elements.close_scope();
        if let Some(inside) = inside {
            let otherwise = frame.kb.else_giving(inside, &open.next);
            frame.elements.open_scope();
            self.bring_keys(frame, here, next);
            frame.elements.close_scope();
            open.next = frame.kb.close_else_giving(otherwise, &open.carried);
        }
        frame.elements.close_scope();
        frame.kb.close_for(open)
    }

    /// Returns the keys of the thread in a tile: pairs of neighbours, 8 apart.
    fn keys_of(&self, kb: &mut KernelBuilder, here: &Here, first: Value) -> Keys {
        let (count, one, start) = (kb.dim(&self.parts().length), kb.int(1), expr!(kb, first + here.own_key));
        let last = expr!(kb, count - one);
        let own = (0..self.own_keys() / TILE_COLUMNS * OWN_COLUMNS).map(|number| {
            let offset = kb.int(number / OWN_COLUMNS * TILE_COLUMNS + number % OWN_COLUMNS);
            let key = expr!(kb, start + offset);
            let exists = expr!(kb, key <= last);
            (kb.min(key, last), exists)
        });
        Keys { first, own: own.collect() }
    }

    fn is_needed(&self, frame: &mut GridFrame<'_>, here: &Here, flags: Value, keys: &Keys) -> Value {
        self.attention.is_needed(frame, &here.place, (flags, WARPS), keys, &mut |frame| self.is_not_finite(frame, here, keys))
    }

    /// Tests if a value of a tile that the thread brings is not finite: `value * 0` is not 0 then.
    fn is_not_finite(&self, frame: &mut GridFrame<'_>, here: &Here, keys: &Keys) -> Value {
        let parts = self.parts();
        let none = frame.kb.int(0);
        let from = [here.place.first_column, keys.first];
        let wanted = Wanted { first: from, sizes: [&parts.columns, &parts.length], to: none, exists: None };
        let position = self.position(here, &parts.values);
        let found = self.values.computed().bring(frame, &here.team, &wanted, &position);
        let kb = &mut frame.kb;
        let zero = kb.zero(DType::F32, 1);
        let mut any = kb.zero(DType::I1, 1);
        for later in found {
            let value = kb.convert(later.value, DType::F32);
            let zeros = kb.widen(zero, kb.lanes(value));
            let product = expr!(kb, value * zeros);
            let sum = kb.reduce_lanes(product, "add");
            any = expr!(kb, any | (sum != zero));
        }
        any
    }

    /// Computes the tiles of scores of the warp's queries and a tile of keys.
    fn scores(&self, kb: &mut KernelBuilder, here: &Here, fragments: &[Value]) -> Vec<Value> {
        let lines = self.keys.lines(here.team.memory);
        let (none, nothing) = (kb.int(0), kb.zero(DType::F32, self.tile.c().lanes));
        let share = Share { first: none, places: self.own_keys(), steps: self.steps() };
        let mut scores = vec![nothing; (self.own_keys() / TILE_COLUMNS) as usize];
        for (step, &queries) in (0..).zip(fragments) {
            let keys = lines.right(kb, &here.lane, none, &share, step);
            for (score, keys) in scores.iter_mut().zip(keys) {
                *score = kb.multiply_tiles(self.tile, [queries, keys, *score]);
            }
        }
        scores
    }

    /// Computes the weights of a tile of keys, as left fragments; with the maxima, the sums and the
    /// totals of the tiles before, scaled to the new maxima.
    fn weights(
        &self,
        frame: &mut GridFrame<'_>,
        here: &Here,
        keys: &Keys,
        fragments: &[Value],
        carried: &[Value],
    ) -> (Vec<Value>, Vec<Value>) {
        let scores = self.scores(&mut frame.kb, here, fragments);
        let GridFrame { kb, elements, .. } = frame;
        let (group, parts, rows) = (self.attention.group, self.parts(), &here.place.rows);
        let product = group.function.result(parts.scores);
        let dtype = compute_dtype(group.tensor(product).dtype);
        for (number, &(key, _)) in keys.own.iter().enumerate() {
            let (tile, column) = (number as i64 / OWN_COLUMNS, number as i64 % OWN_COLUMNS);
            for (line, &row) in (0..).zip(rows) {
                let score = kb.extract_lane(scores[tile as usize], (line * OWN_COLUMNS + column) as u32);
                let total = kb.convert(score, dtype);
                elements.conclude(kb, product, &here.place.at(&[row, key]), total);
            }
        }
        let (mut found, mut factors, mut powers) = (carried.to_vec(), Vec::new(), Vec::new());
        for (line, &row) in rows.iter().enumerate() {
            let logits = self.attention.logits(frame, self.softmax, row, (&here.place, keys));
            let kb = &mut frame.kb;
            let [top, factor] = self.attention.top(kb, carried[line], &logits, MEMBERS);
            let own = self.attention.powers(kb, top, &logits);
            let sum = own.iter().skip(1).fold(own[0], |sum, &power| expr!(kb, sum + power));
            found[line] = top;
            found[rows.len() + line] = kb.fma(carried[rows.len() + line], factor, sum);
            factors.push(factor);
            powers.push(own);
        }
        let kb = &mut frame.kb;
        let factor = kb.joined(factors[0], factors[1], self.tile.c().lanes);
        for total in &mut found[2 * rows.len()..] {
            *total = expr!(kb, *total * factor);
        }
        let weights = (0..self.own_keys() / STEP).map(|step| self.fragment(kb, &powers, step as usize)).collect();
        (found, weights)
    }

    /// Joins the weights of 16 keys to a left fragment: pairs of neighbours, of both rows, then of
    /// the second 8 keys.
    fn fragment(&self, kb: &mut KernelBuilder, powers: &[Vec<Value>], step: usize) -> Value {
        let each = OWN_COLUMNS as usize;
        let halves = [0, 1].map(|half| {
            let tile = (2 * step + half) * each;
            let pairs = [0, 1].map(|line| {
                let [first, second] = [0, 1].map(|column| powers[line][tile + column]);
                let pair = kb.joined(first, second, OWN_COLUMNS as u32);
                let pair = kb.convert(pair, self.dtype());
                kb.recast(pair, DType::I32)
            });
            let both = kb.joined(pairs[0], pairs[1], 2);
            kb.recast(both, DType::I64)
        });
        let all = kb.joined(halves[0], halves[1], 2);
        kb.recast(all, self.dtype())
    }

    /// Adds the products of weights and values to the totals.
    fn weigh(&self, kb: &mut KernelBuilder, here: &Here, weights: &[Value], totals: &[Value]) -> Vec<Value> {
        let lines = self.values.lines(here.team.memory);
        let none = kb.int(0);
        // Tiles after the last column stay zeros.
        let columns = self.attention.most(&self.parts().columns).min(self.columns());
        let places = (columns + PAIR_COLUMNS - 1) / PAIR_COLUMNS * PAIR_COLUMNS;
        let share = Share { first: none, places, steps: self.own_keys() / STEP };
        let mut next = totals.to_vec();
        for (step, &weights) in (0..).zip(weights) {
            let values = lines.right(kb, &here.lane, none, &share, step);
            for (total, values) in next.iter_mut().zip(values) {
                *total = kb.multiply_tiles(self.tile, [weights, values, *total]);
            }
        }
        next
    }
}
