//! Reduces rows: each thread its elements, then the threads of a row together.
use super::{Rows, place::Here};
use crate::{
    kernel::{Index, KernelBuilder, compute_dtype, monoid::Monoid},
    schedule::{
        cpu::{Combine, Reduction},
        gpu::frame::{GridFrame, publish},
    },
};
use disc_ir::{DType, Dim, TensorType, Value};
use disc_kernel_macros::expr;

/// Visits the elements of a thread: carries values through a step at each position.
pub(super) type Walk<'w> = dyn FnMut(&Rows<'_>, &mut GridFrame<'_>, &Here, &[Value], &mut Step<'_>) -> Vec<Value> + 'w;

/// Adds the elements at a position, if it exists, to the values so far.
pub(super) type Step<'s> = dyn FnMut(&Rows<'_>, &mut GridFrame<'_>, &[Index], Option<Value>, &[Value]) -> Vec<Value> + 's;

impl Rows<'_> {
    /// Walks the elements of a thread along a row, or along its block's part of it.
    pub(super) fn along(&self, frame: &mut GridFrame<'_>, here: &Here, start: &[Value], step: &mut Step<'_>) -> Vec<Value> {
        let bounds = self.bounds(&mut frame.kb, here);
        let mut open = frame.kb.open_for_carrying(bounds, start);
        frame.elements.open_scope();
        let at = self.at(&mut frame.kb, here, open.index);
        open.next = step(self, frame, &at, None, &open.carried);
        frame.elements.close_scope();
        frame.kb.close_for(open)
    }

    /// Computes the reductions, phase by phase: `walk` visits the elements of a thread.
    pub(super) fn each_phase(&self, frame: &mut GridFrame<'_>, here: &Here, walk: &mut Walk<'_>) {
        let row_values = self.plan.row_values(self.group);
        for phase in 0..=self.plan.last() {
            for placed in row_values.iter().filter(|placed| self.plan.first_phase(placed.value) == phase) {
                let GridFrame { kb, elements, .. } = frame;
                let place = elements.position(kb, &self.plan.layout.space, &placed.shape, &here.row);
                elements.element(kb, placed.value, &place);
            }
            let due: Vec<Reduction> = self.plan.reductions.iter().copied().filter(|r| r.phase == phase).collect();
            if due.is_empty() {
                continue;
            }
            let start: Vec<Value> = due.iter().map(|reduction| self.identity(&mut frame.kb, reduction)).collect();
            let totals = walk(self, frame, here, &start, &mut |rows, frame, at, exists, carried| {
                rows.accumulate(frame, &due, at, exists, (&start, carried))
            });
            for (reduction, carried) in due.iter().zip(totals) {
                let total = self.total(&mut frame.kb, here, reduction, carried);
                self.make_known(frame, here, reduction, total);
            }
        }
    }

    /// Computes the reductions of the first phase over the part of a block.
    pub(super) fn totals(&self, frame: &mut GridFrame<'_>, here: &Here) -> Vec<Value> {
        let due = &self.plan.reductions;
        let start: Vec<Value> = due.iter().map(|reduction| self.identity(&mut frame.kb, reduction)).collect();
        let carried = self.along(frame, here, &start, &mut |rows, frame, at, exists, carried| {
            rows.accumulate(frame, due, at, exists, (&start, carried))
        });
        due.iter().zip(carried).map(|(reduction, carried)| self.total(&mut frame.kb, here, reduction, carried)).collect()
    }

    fn identity(&self, kb: &mut KernelBuilder, reduction: &Reduction) -> Value {
        let input = self.group.function.operands(reduction.inst)[0];
        monoid(reduction).identity(kb, compute_dtype(self.group.tensor(input).dtype), self.lanes)
    }

    /// Adds the elements at a position to the reductions that are due.
    fn accumulate(
        &self,
        frame: &mut GridFrame<'_>,
        due: &[Reduction],
        at: &[Index],
        exists: Option<Value>,
        (neutral, carried): (&[Value], &[Value]),
    ) -> Vec<Value> {
        let GridFrame { kb, elements, .. } = frame;
        let mut next = Vec::with_capacity(due.len());
        for ((reduction, &neutral), &before) in due.iter().zip(neutral).zip(carried) {
            let input = self.group.function.operands(reduction.inst)[0];
            let shape = self.plan.whole(&self.group.solver, self.group.tensor(input)).expect("loops compute whole values");
            let place = elements.position(kb, &self.plan.layout.space, &shape, at);
            let element = elements.element(kb, input, &place);
            let mut value = kb.widen(element, self.lanes);
            if let Some(exists) = exists {
                let wide = kb.widen(exists, self.lanes);
                value = kb.select(wide, value, neutral);
            }
            next.push(monoid(reduction).apply(kb, before, value));
        }
        next
    }

    /// Combines the values of all threads of a row.
    fn total(&self, kb: &mut KernelBuilder, here: &Here, reduction: &Reduction, carried: Value) -> Value {
        let word = monoid(reduction).lane_reducer();
        let own = kb.reduce_lanes(carried, word);
        let width = self.threads.min(self.grid.warp);
        let mut total = if width > 1 { kb.reduce_group(own, word, width) } else { own };
        if let Some(warp) = here.warp {
            let dtype = kb.dtype(total);
            let memory = here.meeting.iter().find(|(known, _)| *known == dtype).expect("a type that is reduced").1;
            total = meet(kb, (memory, warp, here.lane), total, (word, self.grid.threads / self.grid.warp));
        }
        total
    }

    /// Makes the result of a reduction known.
    pub(super) fn make_known(&self, frame: &mut GridFrame<'_>, here: &Here, reduction: &Reduction, total: Value) {
        let function = self.group.function;
        let GridFrame { kb, elements, .. } = frame;
        let init = elements.element(kb, function.operands(reduction.inst)[1], &[]);
        let total = monoid(reduction).apply(kb, init, total);
        let result = function.results_of(reduction.inst)[0];
        let shape = self.plan.kept(&self.group.solver, self.group.tensor(result)).expect("an element for each row");
        let place = elements.position(kb, &self.plan.layout.space, &shape, &here.row);
        elements.conclude(kb, result, &place, total);
    }

    /// Allocates memory for a value of each warp, for each type that is reduced.
    pub(super) fn meeting(&self, kb: &mut KernelBuilder) -> Vec<(DType, Value)> {
        let warps = Dim::constant((self.grid.threads / self.grid.warp).into());
        let mut found: Vec<(DType, Value)> = Vec::new();
        for reduction in &self.plan.reductions {
            let dtype = compute_dtype(self.group.tensor(self.group.function.operands(reduction.inst)[0]).dtype);
            if found.iter().all(|(known, _)| *known != dtype) {
                found.push((dtype, kb.shared(TensorType::new([warps.clone()], dtype))));
            }
        }
        found
    }
}

pub(super) fn monoid(reduction: &Reduction) -> Monoid {
    match reduction.combine {
        Combine::Plain(monoid) => monoid,
        Combine::Body(_) => unreachable!("rows of a grid are combined in any order"),
    }
}

/// Combines the values of the warps of a block through shared memory.
fn meet(
    kb: &mut KernelBuilder,
    (memory, warp, lane): (Value, Value, Value),
    value: Value,
    (word, warps): (&'static str, u32),
) -> Value {
    let is_first = expr!(kb, lane == 0);
    publish(kb, is_first, |kb| kb.store(memory, warp, value, None));
    let of_lane = expr!(kb, lane % int(warps.into()));
    let found = kb.load(memory, of_lane, 1, None);
    kb.reduce_group(found, word, warps)
}
