//! Rows of scores as powers: the maximum of a row, and the sum of its powers, over the columns seen so far.
//!
//! Invariant: what a row depends on besides its maximum and sum is asked from its group, by columns alone.
use super::flash::{Place, Unit};
use crate::{
    build::KernelBuilder,
    element::{Elements, RowBlock},
    expand,
    index::Index,
    math::MathFn,
    schedule::{rows, vectors::carrying},
};
use disc_ir::{Inst, OpKind, Value};

impl<'a> Unit<'a> {
    /// Makes powers of a block of scores; notes the maximum and the sum of each row, and what the totals so far are to be scaled by.
    pub(super) fn powers(
        &mut self,
        kb: &mut KernelBuilder,
        place: &Place,
        [first, height]: [Value; 2],
        low: Value,
        seen: [Value; 2],
    ) {
        let mut elements = self.row_elements(kb, first, low);
        let (one, stop) = (kb.int(1), kb.add(first, height));
        kb.for_([first, stop, one], &[], |kb, row, _| {
            elements.scoped(|elements| self.row(kb, elements, place, row, seen));
            Vec::new()
        });
        self.sites.extend(elements.sites);
    }

    /// Elements of the group of rows, of which the scores are in task memory.
    pub(super) fn row_elements(&self, kb: &mut KernelBuilder, first: Value, column: Value) -> Elements<'a> {
        let group = self.groups[1];
        let lanes = rows::lanes(group, &self.plan.rows);
        let mut elements = Elements::new(group.function, group.solver.clone(), lanes, group.target);
        elements.first_site = self.next_site();
        for (&parameter, read) in group.inputs().iter().zip(&self.plan.reads[1]) {
            elements.bind(parameter, self.memory[read]);
        }
        let stride = kb.dim(&self.plan.stride());
        elements.hold_rows(self.state.block, RowBlock { axis: self.plan.row_axis(), first, column, stride });
        elements
    }

    fn row(&self, kb: &mut KernelBuilder, elements: &mut Elements<'a>, place: &Place, row: Value, seen: [Value; 2]) {
        let (dtype, lanes, state) = (self.plan.scores.compute, elements.lanes, &self.state);
        let (group, softmax) = (self.groups[1], self.softmax);
        let at = self.position(place, row);
        let own = kb.sub(row, place.rows[0]);
        let (old_top, old_sum) = (kb.load(state.tops, own, 1, None), kb.load(state.sums, own, 1, None));
        let lowest = kb.float(dtype, f64::NEG_INFINITY, 1);
        let logits = group.tensor(softmax.logits).clone();
        let keep = !group.inputs().contains(&softmax.logits);
        let start = kb.widen(lowest, lanes);
        let top = over_columns(kb, elements, seen, start, &mut |kb, elements, column, top| {
            let at = self.place(kb, elements, softmax.logits, &with_column(&at, column));
            let logit = elements.element(kb, softmax.logits, &at);
            let logit = kb.widen(logit, lanes);
            if keep {
                elements.store(kb, state.block, &logits, &at, logit);
            }
            let logit = elements.mask.map_or(logit, |mask| kb.select(mask, logit, start));
            // A NaN is left out here: it makes the sum NaN.
            let above = kb.compare("GT", logit, top);
            kb.select(above, logit, top)
        });
        let top = kb.reduce_lanes(top, "maximum");
        let top = kb.map(OpKind::Maximum, &[top, old_top]);
        kb.store(state.tops, own, top, None);
        let shift = self.shift(kb, elements, &at, top);
        let (nothing, wide_shift) = (kb.zero(dtype, lanes), kb.widen(shift, lanes));
        let sum = over_columns(kb, elements, seen, nothing, &mut |kb, elements, column, sum| {
            let at = self.place(kb, elements, softmax.logits, &with_column(&at, column));
            let logit = elements.load(kb, state.block, &logits, &at);
            let difference = kb.sub(logit, wide_shift);
            let power = self.exponential(kb, difference);
            elements.store(kb, state.block, &logits, &at, power);
            let power = elements.mask.map_or(power, |mask| kb.select(mask, power, nothing));
            kb.map(OpKind::Add, &[sum, power])
        });
        let sum = kb.reduce_lanes(sum, "add");
        let factor = self.factor(kb, elements, &at, [old_top, shift]);
        kb.store(state.factors, own, factor, None);
        let scaled = kb.map(OpKind::Multiply, &[old_sum, factor]);
        let sum = kb.map(OpKind::Add, &[scaled, sum]);
        kb.store(state.sums, own, sum, None);
    }

    /// The position of a row in the space of the group of rows, at its first column.
    pub(super) fn position(&self, place: &Place, row: Value) -> Vec<Index> {
        let mut at = place.at.clone();
        at[self.plan.row_axis()] = Index::uniform(row);
        at
    }

    /// What is subtracted from the logits of a row whose maximum this is: 0, if no logit is finite yet.
    pub(super) fn shift(&self, kb: &mut KernelBuilder, elements: &mut Elements<'a>, at: &[Index], top: Value) -> Value {
        let dtype = self.plan.scores.compute;
        let shift = elements.scoped(|elements| {
            self.know(kb, elements, at, &[(self.softmax.top, top)]);
            let place = self.place(kb, elements, self.softmax.shift, at);
            elements.element(kb, self.softmax.shift, &place)
        });
        let (lowest, zero) = (kb.float(dtype, f64::NEG_INFINITY, 1), kb.float(dtype, 0.0, 1));
        let none = kb.compare("EQ", top, lowest);
        kb.select(none, zero, shift)
    }

    /// By what the sum and the totals of a row change their scale when its maximum grows; 0, if there are none yet.
    pub(super) fn factor(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'a>,
        at: &[Index],
        [old_top, shift]: [Value; 2],
    ) -> Value {
        let dtype = self.plan.scores.compute;
        let (lowest, zero) = (kb.float(dtype, f64::NEG_INFINITY, 1), kb.float(dtype, 0.0, 1));
        let some = kb.compare("NE", old_top, lowest);
        let open = kb.open_if(some);
        let before = self.shift(kb, elements, at, old_top);
        let grown = kb.sub(before, shift);
        let factor = self.exponential(kb, grown);
        kb.close_if_giving(open, &[factor], &[zero])[0]
    }

    fn exponential(&self, kb: &mut KernelBuilder, x: Value) -> Value {
        // Denormal powers add nothing to a sum of which one is 1.
        let function = if self.softmax.from_top { MathFn::SoftmaxExp } else { MathFn::Exp };
        expand::function(kb, function, &[x], self.groups[1].target.has_fma()).expect("rows of a softmax are floats")
    }

    /// Says what reductions of a row give.
    fn know(&self, kb: &mut KernelBuilder, elements: &mut Elements<'a>, at: &[Index], known: &[(Inst, Value)]) {
        for &(inst, value) in known {
            let result = self.groups[1].function.result(inst);
            let place = self.place(kb, elements, result, at);
            elements.seed(result, &place, value);
        }
    }

    /// Where a value of the group of rows has its element for a position.
    fn place(&self, kb: &mut KernelBuilder, elements: &mut Elements<'a>, value: Value, at: &[Index]) -> Vec<Index> {
        rows::place(kb, elements, self.groups[1], &self.plan.rows, value, at)
    }

    /// What the totals of a row with this maximum and sum are multiplied by: 1 over its divisor. Without any columns the totals are sums of
    /// nothing.
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
        let (one, zero, columns) = (kb.float(dtype, 1.0, 1), kb.int(0), kb.dim(&self.plan.scores.n.size));
        let scale = kb.map(OpKind::Divide, &[one, divisor]);
        let none = kb.compare("EQ", columns, zero);
        kb.select(none, one, scale)
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
