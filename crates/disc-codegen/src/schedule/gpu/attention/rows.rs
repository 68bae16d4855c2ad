//! Walks the keys of a tile of rows: computes scores, and weights from them.
use super::{
    Attention,
    memory::{Memory, Side},
    parts::{RowFunction, RowReduction},
    tile::{Place, Tile},
};
use crate::{
    element::matmul::multiply_add,
    kernel::{
        KernelBuilder, compute_dtype,
        expand_math::{self, Arithmetic},
    },
    math::MathFn,
    schedule::{cpu::Softmax, gpu::frame::GridFrame},
};
use disc_ir::Value;
use disc_kernel_macros::expr;

/// The keys of a thread in a tile.
pub(super) struct Keys {
    /// The first of the tile.
    pub(super) first: Value,
    /// The position of each, and a test that it exists; those after the last key are at the last.
    pub(super) own: Vec<(Value, Value)>,
}

/// Carries values over a tile of keys, whose scores are known to the elements.
type Step<'s> = dyn FnMut(&Attention<'_>, &mut GridFrame<'_>, &Keys, &[Value]) -> Vec<Value> + 's;

impl Attention<'_> {
    /// Computes the second matmul for the rows of each thread: vectors of columns, row by row.
    pub(super) fn totals(&self, frame: &mut GridFrame<'_>, place: &Place, memory: &Memory) -> Vec<Value> {
        match &self.parts.function {
            RowFunction::Softmax(softmax) => self.softmax(frame, place, memory, softmax),
            RowFunction::Phases(phases) => {
                phases.iter().for_each(|phase| self.reduce(frame, place, memory, phase));
                let start = self.no_totals(&mut frame.kb);
                self.walk(frame, place, memory, &start, &mut |cx, frame, keys, totals| {
                    let weights = cx.weights(frame, place, keys);
                    cx.weigh(frame, place, memory, keys, &weights, totals)
                })
            }
        }
    }

    fn no_totals(&self, kb: &mut KernelBuilder) -> Vec<Value> {
        let zero = kb.zero(self.sum(), self.tile.lanes as u32);
        vec![zero; (self.tile.rows * self.tile.vectors()) as usize]
    }

    /// Walks the tiles of keys, carrying values.
    fn walk(
        &self,
        frame: &mut GridFrame<'_>,
        place: &Place,
        memory: &Memory,
        start: &[Value],
        step: &mut Step<'_>,
    ) -> Vec<Value> {
        let kb = &mut frame.kb;
        let bounds = [kb.int(0), kb.dim(&self.parts.length), kb.int(Tile::KEYS)];
        let mut open = kb.open_for_carrying(bounds, start);
        frame.elements.open_scope();
        let keys = self.keys(&mut frame.kb, place, open.index);
        let needed = memory.flags.map(|flags| {
            let flags = (flags, self.warps());
            self.is_needed(frame, place, flags, &keys, &mut |frame| self.is_not_finite(frame, place, &keys))
        });
        let inside = needed.map(|needed| frame.kb.open_if(needed));
        frame.elements.open_scope();
        let sums = self.scores(frame, place, memory, open.index);
        let GridFrame { kb, elements, .. } = frame;
        let product = self.group.function.result(self.parts.scores);
        let dtype = compute_dtype(self.group.tensor(product).dtype);
        let places = place.rows.iter().flat_map(|&row| keys.own.iter().map(move |&(key, _)| place.at(&[row, key])));
        for (at, sum) in places.zip(sums) {
            let total = kb.convert(sum, dtype);
            elements.conclude(kb, product, &at, total);
        }
        open.next = step(self, frame, &keys, &open.carried);
        frame.elements.close_scope();
        if let Some(inside) = inside {
            open.next = frame.kb.close_if_giving(inside, &open.next, &open.carried);
        }
        frame.elements.close_scope();
        frame.kb.close_for(open)
    }

    fn keys(&self, kb: &mut KernelBuilder, place: &Place, first: Value) -> Keys {
        let (last, start) = (expr!(kb, dim(&self.parts.length) - 1), expr!(kb, first + place.along));
        let own = (0..Tile::OWN_KEYS).map(|number| {
            let key = expr!(kb, start + int(number * Tile::SIDE));
            let exists = expr!(kb, key <= last);
            (kb.min(key, last), exists)
        });
        Keys { first, own: own.collect() }
    }

    /// Computes the sums of scores of a tile: of each row of the thread with each of its keys.
    fn scores(&self, frame: &mut GridFrame<'_>, place: &Place, memory: &Memory, first: Value) -> Vec<Value> {
        let kb = &mut frame.kb;
        let bounds = [kb.int(0), kb.dim(&self.parts.terms), kb.int(Tile::STEP)];
        let start = vec![kb.zero(self.sum(), 1); (self.tile.rows * Tile::OWN_KEYS) as usize];
        let mut open = kb.open_for_carrying(bounds, &start);
        frame.elements.open_scope();
        // The threads have read what was there before.
        frame.kb.barrier();
        if !self.tile.keeps_queries {
            self.bring_queries(frame, place, memory, open.index, Tile::STEP);
        }
        let lines = Side { first, count: Tile::KEYS, size: &self.parts.length, is_summed: false };
        let terms = Side { first: open.index, count: Tile::STEP, size: &self.parts.terms, is_summed: true };
        self.bring(frame, place, (&self.parts.keys, memory.keys), &[lines, terms]);
        frame.kb.barrier();
        open.next = self.multiply(&mut frame.kb, place, memory, open.index, &open.carried);
        frame.elements.close_scope();
        frame.kb.close_for(open)
    }

    /// Adds the products of the terms in shared memory to the sums of scores.
    fn multiply(&self, kb: &mut KernelBuilder, place: &Place, memory: &Memory, first: Value, sums: &[Value]) -> Vec<Value> {
        let lanes = self.tile.lanes as u32;
        let bounds = [0, Tile::STEP, self.tile.lanes].map(|bound| kb.int(bound));
        kb.for_(bounds, sums, |kb, term, sums| {
            let of_query = if self.tile.keeps_queries { expr!(kb, first + term) } else { term };
            let queries: Vec<Value> = (0..self.tile.rows)
                .map(|number| {
                    let line = expr!(kb, place.down + int(number));
                    let index = memory.queries.index(kb, line, of_query);
                    kb.load(memory.queries.buffer, index, lanes, None)
                })
                .collect();
            let keys: Vec<Value> = (0..Tile::OWN_KEYS)
                .map(|number| {
                    let line = expr!(kb, place.along + int(number * Tile::SIDE));
                    let index = memory.keys.index(kb, line, term);
                    kb.load(memory.keys.buffer, index, lanes, None)
                })
                .collect();
            let mut next = sums.to_vec();
            for lane in 0..lanes {
                let [queries, keys] = [&queries, &keys]
                    .map(|vectors| vectors.iter().map(|&vector| kb.extract_lane(vector, lane)).collect::<Vec<Value>>());
                let pairs = queries.iter().flat_map(|&x| keys.iter().map(move |&y| (x, y)));
                for (sum, (x, y)) in next.iter_mut().zip(pairs) {
                    *sum = multiply_add(kb, self.sum(), x, y, *sum);
                }
            }
            next
        })
    }

    /// Makes the reductions of a phase known, for the rows of the thread.
    fn reduce(&self, frame: &mut GridFrame<'_>, place: &Place, memory: &Memory, phase: &[RowReduction]) {
        let function = self.group.function;
        let kb = &mut frame.kb;
        let neutral: Vec<Value> = phase
            .iter()
            .map(|reduction| {
                let input = function.operands(reduction.inst)[0];
                reduction.monoid.identity(kb, compute_dtype(self.group.tensor(input).dtype), 1)
            })
            .collect();
        let start: Vec<Value> = place.rows.iter().flat_map(|_| neutral.iter().copied()).collect();
        let found = self.walk(frame, place, memory, &start, &mut |_, frame, keys, carried| {
            let GridFrame { kb, elements, .. } = frame;
            let mut next = carried.to_vec();
            let pairs = place.rows.iter().flat_map(|&row| phase.iter().zip(&neutral).map(move |of| (row, of)));
            for (total, (row, (reduction, &neutral))) in next.iter_mut().zip(pairs) {
                for &(key, exists) in &keys.own {
                    let value = elements.element(kb, function.operands(reduction.inst)[0], &place.at(&[row, key]));
                    let value = kb.select(exists, value, neutral);
                    *total = reduction.monoid.apply(kb, *total, value);
                }
            }
            next
        });
        let GridFrame { kb, elements, .. } = frame;
        let pairs = place.rows.iter().flat_map(|&row| phase.iter().map(move |reduction| (row, reduction)));
        for (own, (row, reduction)) in found.into_iter().zip(pairs) {
            let total = kb.reduce_group(own, reduction.monoid.lane_reducer(), Tile::SIDE as u32);
            let init = elements.element(kb, function.operands(reduction.inst)[1], &[]);
            let total = reduction.monoid.apply(kb, init, total);
            elements.conclude(kb, function.result(reduction.inst), &place.at(&[row]), total);
        }
    }

    /// Computes the weights of a tile; zeros after the last key.
    fn weights(&self, frame: &mut GridFrame<'_>, place: &Place, keys: &Keys) -> Vec<Value> {
        let GridFrame { kb, elements, .. } = frame;
        let mut weights = Vec::new();
        for &row in &place.rows {
            for &(key, exists) in &keys.own {
                let value = elements.element(kb, self.parts.weights, &place.at(&[row, key]));
                let zero = kb.zero(kb.dtype(value), 1);
                weights.push(kb.select(exists, value, zero));
            }
        }
        weights
    }

    /// Computes rows that are a softmax, in one walk.
    fn softmax(&self, frame: &mut GridFrame<'_>, place: &Place, memory: &Memory, softmax: &Softmax) -> Vec<Value> {
        let (rows, dtype) = (place.rows.len(), self.group.tensor(softmax.logits).dtype);
        let (lowest, zero) = (frame.kb.float(dtype, f64::NEG_INFINITY, 1), frame.kb.zero(dtype, 1));
        let start = [vec![lowest; rows], vec![zero; rows], self.no_totals(&mut frame.kb)].concat();
        let found = self.walk(frame, place, memory, &start, &mut |cx, frame, keys, carried| {
            let (mut next, mut weights) = (carried.to_vec(), Vec::new());
            let each = cx.tile.vectors() as usize;
            for row in 0..rows {
                let logits = cx.logits(frame, softmax, place.rows[row], (place, keys));
                let [top, factor] = cx.top(&mut frame.kb, carried[row], &logits, Tile::SIDE as u32);
                let powers = cx.powers(&mut frame.kb, top, &logits);
                let kb = &mut frame.kb;
                let own = powers.iter().skip(1).fold(powers[0], |sum, &power| expr!(kb, sum + power));
                (next[row], next[rows + row]) = (top, kb.fma(carried[rows + row], factor, own));
                let factor = kb.convert(factor, cx.sum());
                let factor = kb.widen(factor, cx.tile.lanes as u32);
                for total in &mut next[2 * rows + row * each..][..each] {
                    *total = expr!(kb, *total * factor);
                }
                weights.extend(powers);
            }
            let totals = cx.weigh(frame, place, memory, keys, &weights, &next[2 * rows..]);
            next.splice(2 * rows.., totals);
            next
        });
        self.divide(frame, place, softmax, &found)
    }

    /// Computes the logits of a row; minus infinity after the last key.
    pub(super) fn logits(
        &self,
        frame: &mut GridFrame<'_>,
        softmax: &Softmax,
        row: Value,
        (place, keys): (&Place, &Keys),
    ) -> Vec<Value> {
        let GridFrame { kb, elements, .. } = frame;
        let mut logits = Vec::new();
        for &(key, exists) in &keys.own {
            let logit = elements.element(kb, softmax.logits, &place.at(&[row, key]));
            let lowest = kb.float(kb.dtype(logit), f64::NEG_INFINITY, 1);
            logits.push(kb.select(exists, logit, lowest));
        }
        logits
    }

    /// Returns the largest logit of a row so far, which so many threads have together, and the
    /// factor of what was summed before. NaN is left out: it makes the sum NaN.
    pub(super) fn top(&self, kb: &mut KernelBuilder, before: Value, logits: &[Value], threads: u32) -> [Value; 2] {
        let lowest = kb.float(kb.dtype(before), f64::NEG_INFINITY, 1);
        let own = logits.iter().fold(lowest, |top, &logit| greater(kb, logit, top));
        let top = kb.reduce_group(own, "maximum", threads);
        let top = greater(kb, top, before);
        // The exponential of minus infinity, of a row that has seen nothing, is 0.
        let [factor] = self.powers(kb, top, &[before])[..] else { panic!("one factor") };
        [top, factor]
    }

    /// Returns the exponentials of logits of a row with this maximum.
    pub(super) fn powers(&self, kb: &mut KernelBuilder, top: Value, logits: &[Value]) -> Vec<Value> {
        let (lowest, zero) = (kb.float(kb.dtype(top), f64::NEG_INFINITY, 1), kb.zero(kb.dtype(top), 1));
        let shift = expr!(kb, select(top == lowest, zero, top));
        let arithmetic = Arithmetic::of(self.group.target);
        let power = |&logit: &Value| {
            let difference = expr!(kb, logit - shift);
            expand_math::function(kb, MathFn::SoftmaxExp, &[difference], arithmetic).expect("logits are floats")
        };
        logits.iter().map(power).collect()
    }

    /// Divides the totals of each row.
    fn divide(&self, frame: &mut GridFrame<'_>, place: &Place, softmax: &Softmax, found: &[Value]) -> Vec<Value> {
        let rows = place.rows.len();
        let (tops, rest) = found.split_at(rows);
        let (sums, totals) = rest.split_at(rows);
        let mut divided = Vec::new();
        frame.elements.open_scope();
        let each = self.tile.vectors() as usize;
        for (row, totals) in totals.chunks(each).enumerate() {
            let sum = frame.kb.reduce_group(sums[row], "add", Tile::SIDE as u32);
            let scale = self.scale(frame, place, softmax, (place.rows[row], [tops[row], sum]));
            let kb = &mut frame.kb;
            let scale = kb.widen(scale, self.tile.lanes as u32);
            divided.extend(totals.iter().map(|&total| expr!(kb, total * scale)));
        }
        frame.elements.close_scope();
        divided
    }

    /// Returns the factor of the totals of a row, by its maximum and its sum: 1 without keys, where
    /// they are empty sums.
    pub(super) fn scale(
        &self,
        frame: &mut GridFrame<'_>,
        place: &Place,
        softmax: &Softmax,
        (row, [top, sum]): (Value, [Value; 2]),
    ) -> Value {
        let GridFrame { kb, elements, .. } = frame;
        let zero = kb.int(0);
        let is_empty = expr!(kb, dim(&self.parts.length) == zero);
        for (inst, value) in [(softmax.top, top), (softmax.total, sum)] {
            elements.seed(self.group.function.result(inst), &place.at(&[row]), value);
        }
        let divisor = elements.element(kb, softmax.divisor, &place.at(&[row, zero]));
        let one = kb.float(kb.dtype(divisor), 1.0, 1);
        expr!(kb, convert(select(is_empty, one, one / divisor), self.sum()))
    }
}

/// Returns the larger of two numbers; the second if the first is NaN.
fn greater(kb: &mut KernelBuilder, a: Value, b: Value) -> Value {
    expr!(kb, select(a > b, a, b))
}
