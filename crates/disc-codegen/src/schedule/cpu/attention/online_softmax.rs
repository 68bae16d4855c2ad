//! Computes the online softmax of rows of scores: the maximum of a row, and the sum of its
//! exponentials, over the columns seen so far.
//!
//! Invariant: a row depends on its maximum, its sum, and values that its group computes; these vary
//! only along columns.
use super::unit::{Place, Unit};
use crate::{
    element::{Elements, RowBlock},
    kernel::{
        Index, KernelBuilder,
        expand_math::{self, Arithmetic},
    },
    math::MathFn,
    schedule::{common::vector_loop::carrying, cpu::reduction},
};
use disc_ir::{Inst, Value};
use disc_kernel_macros::expr;

/// Rows whose lanes are reduced together.
struct RowGroup<'p> {
    place: &'p Place,
    first: Value,
    count: Value,
    /// The number of the first among the rows of the unit.
    own: Value,
    /// The lanes that are rows, if each lane is one.
    inside: Value,
}

impl<'a> Unit<'a> {
    /// Computes the exponentials of a block of scores; stores the maximum and the sum of each row,
    /// and the factor of its totals so far.
    pub(super) fn exponentials(
        &mut self,
        kb: &mut KernelBuilder,
        place: &Place,
        [first, height]: [Value; 2],
        low: Value,
        seen: [Value; 2],
    ) {
        let mut elements = self.row_elements(kb, first, low);
        let (step, stop) = (kb.int(i64::from(self.rows_at_once())), expr!(kb, first + height));
        kb.for_each([first, stop, step], |kb, start| {
            let count = expr!(kb, min(stop - start, step));
            let (own, inside) = (expr!(kb, start - place.rows[0]), kb.lane_mask(count, self.rows_at_once()));
            self.exponentials_of_rows(kb, &mut elements, &RowGroup { place, first: start, count, own, inside }, seen);
        });
        self.sites.extend(elements.sites);
    }

    /// Gives the elements of the group of rows, of which the scores are in task memory.
    pub(super) fn row_elements(&self, kb: &mut KernelBuilder, first: Value, column: Value) -> Elements<'a> {
        let group = self.groups[1];
        let lanes = reduction::lanes(group, &self.plan.rows);
        let mut elements = Elements::new(group.function, group.solver.clone(), lanes, group.target);
        elements.first_site = self.next_site();
        for (&parameter, read) in group.inputs().iter().zip(&self.plan.reads[1]) {
            elements.bind(parameter, self.memory[read]);
        }
        for (buffer, stride) in [(self.state.block, self.plan.stride()), (self.state.powers, self.plan.stride_of_powers())] {
            let stride = kb.dim(&stride);
            elements.hold_rows(buffer, RowBlock { axis: self.plan.row_axis(), first, column, stride });
        }
        elements
    }

    /// Does the same for at most as many rows as are reduced together.
    fn exponentials_of_rows(&self, kb: &mut KernelBuilder, elements: &mut Elements<'a>, rows: &RowGroup<'_>, seen: [Value; 2]) {
        let (lanes, state, own, inside) = (self.rows_at_once(), &self.state, rows.own, Some(rows.inside));
        let [old_tops, old_sums] = [state.tops, state.sums].map(|buffer| kb.load(buffer, own, lanes, inside));
        self.of_each_row(kb, elements, rows, |kb, elements, at, _| self.top(kb, elements, at, seen));
        let tops = self.of_rows(kb, elements.lanes, greater);
        let tops = greater(kb, tops, old_tops);
        kb.store(state.tops, own, tops, inside);
        let factors = self.shifts(kb, elements, rows, [old_tops, tops]);
        self.of_each_row(kb, elements, rows, |kb, elements, at, number| {
            let shift = kb.load(state.shifts, number, 1, None);
            self.sum(kb, elements, at, seen, shift)
        });
        let sums = self.of_rows(kb, elements.lanes, KernelBuilder::add);
        let sums = kb.fma(old_sums, factors, sums);
        kb.store(state.sums, own, sums, inside);
    }

    /// Stores the vector that `body` computes of each of some rows, from its position and its
    /// number among them.
    fn of_each_row(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'a>,
        rows: &RowGroup<'_>,
        mut body: impl FnMut(&mut KernelBuilder, &mut Elements<'a>, &[Index], Value) -> Value,
    ) {
        let (zero, one, width) = (kb.int(0), kb.int(1), kb.int(i64::from(elements.lanes)));
        kb.for_each([zero, rows.count, one], |kb, number| {
            let row = expr!(kb, rows.first + number);
            let at = self.position(rows.place, row);
            let lanes = elements.scoped(|elements| body(kb, elements, &at, number));
            let there = expr!(kb, number * width);
            kb.store(self.state.lanes, there, lanes, None);
        });
    }

    /// Combines all the `width` lanes stored of each row into the lane of the row's number: halves
    /// of neighbours are combined until one vector is left. Lanes after the last row have no
    /// meaning.
    fn of_rows(&self, kb: &mut KernelBuilder, width: u32, combine: impl Fn(&mut KernelBuilder, Value, Value) -> Value) -> Value {
        let lanes = self.rows_at_once();
        let mut rows = Vec::new();
        for row in 0..lanes {
            let part = |kb: &mut KernelBuilder, start: u32| {
                let there = kb.int(i64::from(row * width + start));
                kb.load(self.state.lanes, there, lanes, None)
            };
            let mut all = part(kb, 0);
            for start in (lanes..width).step_by(lanes as usize) {
                let more = part(kb, start);
                all = combine(kb, all, more);
            }
            rows.push(all);
        }
        while rows.len() > 1 {
            let pairs = rows.chunks(2).map(|pair| {
                let [even, odd] = kb.unzip_lanes(pair[0], pair[1]);
                combine(kb, even, odd)
            });
            rows = pairs.collect();
        }
        rows[0]
    }

    /// Gives the largest logit of a row in each lane, NaN left out: it makes the sum NaN. Stores
    /// the logits, unless the scores are these.
    fn top(&self, kb: &mut KernelBuilder, elements: &mut Elements<'a>, at: &[Index], seen: [Value; 2]) -> Value {
        let (group, softmax, lanes) = (self.groups[1], self.softmax, elements.lanes);
        let logits = group.tensor(softmax.logits).clone();
        let keep = !group.inputs().contains(&softmax.logits);
        let lowest = kb.float(self.plan.scores.compute, f64::NEG_INFINITY, lanes);
        over_columns(kb, elements, seen, lowest, &mut |kb, elements, column, top| {
            let at = self.place(kb, elements, softmax.logits, &with_column(at, column));
            let logit = elements.element(kb, softmax.logits, &at);
            let logit = kb.widen(logit, lanes);
            if keep {
                elements.store(kb, self.state.block, &logits, &at, logit);
            }
            let logit = elements.mask.map_or(logit, |mask| kb.select(mask, logit, lowest));
            greater(kb, logit, top)
        })
    }

    /// Stores the exponentials of the logits of a row, in the type that they are multiplied in;
    /// gives their sum, in lanes.
    fn sum(&self, kb: &mut KernelBuilder, elements: &mut Elements<'a>, at: &[Index], seen: [Value; 2], shift: Value) -> Value {
        let (dtype, lanes, softmax) = (self.plan.scores.compute, elements.lanes, self.softmax);
        let logits = self.groups[1].tensor(softmax.logits).clone();
        let (nothing, shift) = (kb.zero(dtype, lanes), kb.widen(shift, lanes));
        over_columns(kb, elements, seen, nothing, &mut |kb, elements, column, sum| {
            let at = self.place(kb, elements, softmax.logits, &with_column(at, column));
            let logit = elements.load(kb, self.state.block, &logits, &at);
            let difference = expr!(kb, logit - shift);
            let power = self.exponential(kb, difference);
            elements.store(kb, self.state.powers, &logits, &at, power);
            let power = elements.mask.map_or(power, |mask| kb.select(mask, power, nothing));
            expr!(kb, sum + power)
        })
    }

    /// Stores the shift of the logits of some rows, and the factor of their totals so far; gives
    /// the latter.
    fn shifts(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'a>,
        rows: &RowGroup<'_>,
        [old_tops, tops]: [Value; 2],
    ) -> Value {
        let (dtype, lanes, state) = (self.plan.scores.compute, self.rows_at_once(), &self.state);
        let (zero, one, own, inside) = (kb.int(0), kb.int(1), rows.own, Some(rows.inside));
        if self.softmax.from_top {
            let (lowest, nothing) = (kb.float(dtype, f64::NEG_INFINITY, lanes), kb.zero(dtype, lanes));
            let shifts = expr!(kb, select(tops == lowest, nothing, tops));
            kb.store(state.shifts, zero, shifts, None);
            // The exponential of minus infinity, of a row that has seen nothing, is 0.
            let grown = expr!(kb, old_tops - shifts);
            let factors = self.exponential(kb, grown);
            kb.store(state.factors, own, factors, inside);
            return factors;
        }
        // The old maximum is stored where the shift will be: a lane is read before it is written.
        kb.store(state.shifts, zero, old_tops, None);
        kb.for_each([zero, rows.count, one], |kb, number| {
            let row = expr!(kb, rows.first + number);
            let there = expr!(kb, own + number);
            let at = self.position(rows.place, row);
            let [old_top, top] = [(state.shifts, number), (state.tops, there)].map(|(buffer, i)| kb.load(buffer, i, 1, None));
            let shift = self.shift(kb, elements, &at, top);
            let factor = elements.scoped(|elements| self.factor(kb, elements, &at, [old_top, shift]));
            kb.store(state.shifts, number, shift, None);
            kb.store(state.factors, there, factor, None);
        });
        kb.load(state.factors, own, lanes, inside)
    }

    /// Gives the position of a row in the space of the group of rows, at its first column.
    pub(super) fn position(&self, place: &Place, row: Value) -> Vec<Index> {
        let mut at = place.at.clone();
        at[self.plan.row_axis()] = Index::uniform(row);
        at
    }

    /// Gives the shift that is subtracted from the logits of a row with this maximum: 0 if no logit
    /// is finite yet.
    pub(super) fn shift(&self, kb: &mut KernelBuilder, elements: &mut Elements<'a>, at: &[Index], top: Value) -> Value {
        let dtype = self.plan.scores.compute;
        let shift = elements.scoped(|elements| {
            self.know(kb, elements, at, &[(self.softmax.top, top)]);
            let place = self.place(kb, elements, self.softmax.shift, at);
            elements.element(kb, self.softmax.shift, &place)
        });
        let (lowest, zero) = (kb.float(dtype, f64::NEG_INFINITY, 1), kb.float(dtype, 0.0, 1));
        expr!(kb, select(top == lowest, zero, shift))
    }

    /// Gives the factor of the sum and the totals of a row when its maximum grows; 0 if there are
    /// none yet.
    pub(super) fn factor(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'a>,
        at: &[Index],
        [old_top, shift]: [Value; 2],
    ) -> Value {
        let dtype = self.plan.scores.compute;
        let (lowest, zero) = (kb.float(dtype, f64::NEG_INFINITY, 1), kb.float(dtype, 0.0, 1));
        let some = expr!(kb, old_top != lowest);
        let open = kb.open_if(some);
        let before = self.shift(kb, elements, at, old_top);
        let grown = expr!(kb, before - shift);
        let factor = self.exponential(kb, grown);
        kb.close_if_giving(open, &[factor], &[zero])[0]
    }

    fn exponential(&self, kb: &mut KernelBuilder, x: Value) -> Value {
        // Denormal exponentials add nothing to a sum that has a term of 1.
        let function = if self.softmax.from_top { MathFn::SoftmaxExp } else { MathFn::Exp };
        expand_math::function(kb, function, &[x], Arithmetic::of(self.groups[1].target)).expect("rows of a softmax are floats")
    }

    /// Seeds the results of reductions of a row.
    fn know(&self, kb: &mut KernelBuilder, elements: &mut Elements<'a>, at: &[Index], known: &[(Inst, Value)]) {
        for &(inst, value) in known {
            let result = self.groups[1].function.result(inst);
            let place = self.place(kb, elements, result, at);
            elements.seed(result, &place, value);
        }
    }

    /// Gives the place of a value's element for a position of the group of rows.
    fn place(&self, kb: &mut KernelBuilder, elements: &mut Elements<'a>, value: Value, at: &[Index]) -> Vec<Index> {
        reduction::place(kb, elements, self.groups[1], &self.plan.rows, value, at)
    }

    /// Gives the final factor of the totals of a row with this maximum and sum: 1 over its divisor.
    /// Without any columns the totals are empty sums.
    pub(super) fn scale(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'a>,
        at: &[Index],
        [top, sum]: [Value; 2],
    ) -> Value {
        let dtype = self.plan.scores.compute;
        let known = [(self.softmax.top, top), (self.softmax.total, sum)];
        self.know(kb, elements, at, &known);
        let place = self.place(kb, elements, self.softmax.divisor, at);
        let divisor = elements.element(kb, self.softmax.divisor, &place);
        let (one, zero, columns) = (kb.float(dtype, 1.0, 1), kb.int(0), kb.dim(&self.plan.scores.shape.n.size));
        let scale = expr!(kb, one / divisor);
        expr!(kb, select(columns == zero, one, scale))
    }
}

pub(super) fn with_column(at: &[Index], column: Index) -> Vec<Index> {
    let mut at = at.to_vec();
    *at.last_mut().expect("a row has columns") = column;
    at
}

/// Runs `body` for vectors of columns, carrying one value along.
pub(super) fn over_columns<'e>(
    kb: &mut KernelBuilder,
    elements: &mut Elements<'e>,
    range: [Value; 2],
    init: Value,
    body: &mut dyn FnMut(&mut KernelBuilder, &mut Elements<'e>, Index, Value) -> Value,
) -> Value {
    carrying(kb, elements, range, false, &[init], |kb, elements, column, carried| vec![body(kb, elements, column, carried[0])])[0]
}

/// Gives the larger of two numbers in each lane; the second if the first is NaN.
fn greater(kb: &mut KernelBuilder, a: Value, b: Value) -> Value {
    expr!(kb, select(a > b, a, b))
}
