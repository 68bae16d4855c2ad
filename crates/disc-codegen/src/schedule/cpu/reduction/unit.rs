//! Emits one unit of the reduction schedule: several rows, or vectors of adjacent rows (its
//! *columns*), phase by phase.
//!
//! Sums are never one long chain: a row has several accumulators, which are added to a total block
//! by block ([`super::cascade`]).
use super::{
    cascade::{Body, Cascade},
    plan::{Along, Combine, Placed, Reduction, ReductionSchedule},
    tables::Tables,
};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder, compute_dtype, monoid::Monoid},
    schedule::{
        Group,
        common::{
            hoisting::is_kept,
            iteration_space::{Merged, OuterGather, read_places},
            vector_loop::{carrying, vector_loop},
        },
    },
};
use disc_ir::{Dim, TensorType, Value};
use disc_kernel_macros::expr;

/// A position of the space for each column.
pub(super) type Columns = Vec<Vec<Index>>;

/// An output at its position in the space, a flag that is true if it has an element for each
/// position, and its memory.
type Target = (Placed, bool, Value);

pub(super) struct Unit<'g> {
    pub(super) group: &'g Group<'g>,
    pub(super) plan: &'g ReductionSchedule,
    pub(super) reduced: Vec<Merged>,
    pub(super) along: Along,
    /// The independent accumulators of a row, or columns of a unit of adjacent rows.
    pub(super) copies: u32,
    /// The outputs that the kernel may write, with their memory.
    pub(super) targets: Vec<(Value, Value)>,
    /// Values that are kept, with the task memory of their rows.
    pub(super) caches: Vec<(Placed, Value)>,
    /// Gathers that take one slice for each row.
    pub(super) gathers: Vec<OuterGather>,
    /// The values that are constant along a row and read along it.
    pub(super) row_values: Vec<Placed>,
    /// The ends of the operands of a concatenation along the last reduced run, except the last one:
    /// each is written by a loop of its own.
    pub(super) joints: Vec<Dim>,
    /// The values that rows share.
    pub(super) tables: Tables,
    pub(super) part: Option<Part>,
}

/// A part of all rows: the results of its reductions go to memory, one after the other, for another
/// kernel to add up.
#[derive(Clone)]
pub(super) struct Part {
    /// The positions of the first reduced run.
    pub(super) range: [Value; 2],
    /// The phase whose reductions are computed; `None` if the outputs are written.
    pub(super) phase: Option<usize>,
    /// The start of the part in the buffers.
    pub(super) offset: Value,
    /// The memory for each reduction.
    pub(super) buffers: Vec<(Value, TensorType)>,
    /// The elements that later kernels need, with the memory that they go to.
    pub(super) kept: Vec<(Placed, Value)>,
}

impl Unit<'_> {
    /// Computes a unit; the columns have their kept positions, and 0 along reduced dimensions.
    pub(super) fn run(&mut self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, columns: Columns) {
        for at in columns.iter().filter(|_| !self.gathers.is_empty()) {
            read_places(kb, elements, &self.plan.layout.space, &self.gathers, at);
        }
        // A part is of one phase: the results of other kernels are in memory.
        let only = self.part.as_ref().map(|part| part.phase.unwrap_or(self.plan.last()));
        for phase in only.map_or(0..=self.plan.last(), |phase| phase..=phase) {
            let is_due =
                |value| if only.is_some() { self.plan.is_needed(value, phase) } else { self.plan.first_phase(value) == phase };
            self.know_row_values(kb, elements, &columns, &is_due);
            let due: Vec<Reduction> = self.plan.reductions.iter().copied().filter(|r| r.phase == phase).collect();
            if !due.is_empty() {
                self.reduce(kb, elements, &columns, phase, &due);
            }
        }
        if self.part.as_ref().is_none_or(|part| part.phase.is_none()) {
            self.write(kb, elements, &columns);
        }
    }

    /// Computes the values that are constant along a row and due in a phase, before its loops,
    /// which read them.
    fn know_row_values(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        columns: &Columns,
        is_due: &dyn Fn(Value) -> bool,
    ) {
        for placed in self.row_values.iter().filter(|placed| is_due(placed.value)) {
            for at in columns {
                let place = elements.position(kb, &self.plan.layout.space, &placed.shape, at);
                elements.element(kb, placed.value, &place);
            }
        }
    }

    /// Computes costly values that are the same in all rows, before the rows.
    pub(super) fn know_everywhere(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index]) {
        let is_kept = |value| self.group.function.defining(value).is_some_and(|inst| is_kept(self.group.function, inst));
        for placed in self.row_values.iter().filter(|placed| placed.shape.iter().all(Vec::is_empty) && is_kept(placed.value)) {
            let place = elements.position(kb, &self.plan.layout.space, &placed.shape, at);
            elements.element(kb, placed.value, &place);
        }
    }

    fn reduce(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, columns: &Columns, phase: usize, due: &[Reduction]) {
        let identities = self.identities(kb, elements, due);
        let copies = if self.along == Along::Kept { columns.len() } else { columns.len() * self.copies as usize };
        let start: Vec<Value> = identities.iter().flat_map(|&identity| std::iter::repeat_n(identity, copies)).collect();
        let mut body = |kb: &mut KernelBuilder, elements: &mut Elements<'_>, columns: &Columns, carried: &[Value]| {
            self.accumulate(kb, elements, columns, phase, due, &identities, carried)
        };
        let rows = columns.len();
        let (totals, copies) = match Cascade::of(self, due, &start, copies, rows) {
            Some(cascade) => (cascade.run(kb, elements, columns, &mut body), rows),
            None => {
                let range: Vec<[Value; 2]> = self.part.iter().map(|part| part.range).collect();
                (self.walk(kb, elements, columns, &self.reduced, &range, &start, &mut body), copies)
            }
        };
        self.conclude(kb, elements, columns, due, totals, copies);
    }

    /// The start values of accumulators: neutral values.
    fn identities(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, due: &[Reduction]) -> Vec<Value> {
        let lanes = elements.lanes;
        let mut found = Vec::new();
        for reduction in due {
            let operands = self.group.function.operands(reduction.inst);
            match reduction.combine {
                Combine::Plain(monoid) => {
                    found.push(monoid.identity(kb, compute_dtype(self.group.tensor(operands[0]).dtype), lanes));
                }
                Combine::Body(_) => {
                    for &init in &operands[operands.len() / 2..] {
                        let value = elements.element(kb, init, &[]);
                        found.push(kb.widen(value, lanes));
                    }
                }
            }
        }
        found
    }

    /// Emits one step of the reductions that are due: `carried` has the copies of the first result,
    /// then those of the next.
    #[expect(clippy::too_many_arguments, reason = "a step of a loop nest has its surroundings")]
    fn accumulate(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        columns: &Columns,
        phase: usize,
        due: &[Reduction],
        identities: &[Value],
        carried: &[Value],
    ) -> Vec<Value> {
        let lanes = elements.lanes;
        let copies = carried.len() / identities.len();
        let mut next = carried.to_vec();
        let early: Vec<_> =
            self.placed_targets().into_iter().filter(|(placed, ..)| self.plan.early(placed.value) == Some(phase)).collect();
        // After the whole steps of a row, only its first accumulator continues.
        let each = copies / columns.len();
        for (column, at) in columns.iter().enumerate() {
            let copy = column * each;
            let number = if self.along == Along::Kept { copy } else { copy / self.copies as usize };
            self.recall(kb, elements, at, number, phase);
            let mut first = 0;
            for reduction in due {
                let operands = self.group.function.operands(reduction.inst);
                let inputs = &operands[..operands.len() / 2];
                let mut values = Vec::with_capacity(inputs.len());
                for &input in inputs {
                    let place = self.place(kb, elements, input, at);
                    let element = elements.element(kb, input, &place);
                    values.push(kb.widen(element, lanes));
                }
                let slot = |i: usize| (first + i) * copies + copy;
                match reduction.combine {
                    Combine::Plain(monoid) => {
                        // Lanes of other rows need no mask.
                        if let Some(mask) = elements.mask.filter(|_| self.along == Along::Reduced) {
                            values[0] = kb.select(mask, values[0], identities[first]);
                        }
                        next[slot(0)] = monoid.apply(kb, next[slot(0)], values[0]);
                    }
                    Combine::Body(body) => {
                        let before = (0..inputs.len()).map(|i| next[slot(i)]);
                        let arguments: Vec<Value> = before.chain(values).collect();
                        let results = elements.inline(kb, body, &arguments);
                        for (i, result) in results.into_iter().enumerate() {
                            next[slot(i)] = kb.widen(result, lanes);
                        }
                    }
                }
                first += inputs.len();
            }
            self.store(kb, elements, &early, at);
        }
        next
    }

    /// Combines copies and lanes with the inits, and makes the results known to their readers.
    fn conclude(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        columns: &Columns,
        due: &[Reduction],
        totals: Vec<Value>,
        copies: usize,
    ) {
        let mut totals = totals.into_iter();
        for (number, reduction) in due.iter().enumerate() {
            let function = self.group.function;
            let operands = function.operands(reduction.inst);
            let count = operands.len() / 2;
            for (position, &result) in function.results_of(reduction.inst).iter().enumerate() {
                let mut found: Vec<Value> = totals.by_ref().take(copies).collect();
                if let Combine::Plain(monoid) = reduction.combine {
                    if self.along == Along::Reduced {
                        let rows = found.chunks(copies / columns.len());
                        found = rows.map(|row| total(kb, monoid, row)).collect();
                    }
                    if let Some(part) = &self.part {
                        self.store_part(kb, elements, columns, part, number, &found);
                        continue;
                    }
                    let init = elements.element(kb, operands[count + position], &[]);
                    found = found.into_iter().map(|total| monoid.apply(kb, init, total)).collect();
                }
                let tensor = self.group.tensor(result);
                let shape = self.plan.kept(&self.group.solver, tensor).expect("a reduction has an element for each row");
                for (at, &total) in columns.iter().zip(&found) {
                    let place = elements.position(kb, &self.plan.layout.space, &shape, at);
                    elements.conclude(kb, result, &place, total);
                }
            }
        }
    }

    /// Stores the result of a part for one reduction.
    fn store_part(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        columns: &Columns,
        part: &Part,
        number: usize,
        totals: &[Value],
    ) {
        let layout = &self.plan.layout;
        let (buffer, tensor) = &part.buffers[number];
        for (at, &total) in columns.iter().zip(totals) {
            let parts: Vec<(Index, Dim)> = layout.kept.iter().map(|&axis| (at[axis], layout.space[axis].clone())).collect();
            let index = elements.join(kb, &parts).add_scalar(kb, part.offset);
            elements.store(kb, *buffer, tensor, &[index], total);
        }
    }

    /// The position of a whole value.
    fn place(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, value: Value, at: &[Index]) -> Vec<Index> {
        let shape = self.plan.whole(&self.group.solver, self.group.tensor(value)).expect("loops compute whole values");
        elements.position(kb, &self.plan.layout.space, &shape, at)
    }

    /// Makes kept values known at a position, and keeps those whose first phase it is.
    fn recall(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index], copy: usize, phase: usize) {
        self.tables.recall(kb, elements, self.plan, at, phase);
        // All are computed before any is stored: the memory of one may alias an input which another
        // reads.
        let mut computed = Vec::new();
        for (placed, buffer) in self.part.iter().flat_map(|part| &part.kept) {
            let place = elements.position(kb, &self.plan.layout.space, &placed.shape, at);
            computed.push((placed.value, *buffer, elements.element(kb, placed.value, &place), place));
        }
        for (value, buffer, element, place) in computed {
            elements.store(kb, buffer, self.group.tensor(value), &place, element);
        }
        for (placed, cache) in &self.caches {
            let first = self.plan.first_phase(placed.value);
            if first > phase {
                continue;
            }
            let lanes = elements.lanes;
            let index = self.cache_index(kb, elements, at, copy);
            let place = elements.position(kb, &self.plan.layout.space, &placed.shape, at);
            if first == phase {
                let computed = elements.element(kb, placed.value, &place);
                let wide = kb.widen(computed, lanes);
                kb.store(*cache, index, wide, elements.mask);
            } else {
                let loaded = kb.load(*cache, index, lanes, elements.mask);
                elements.seed(placed.value, &place, loaded);
            }
        }
    }

    /// The position of a vector in the memory of a kept value; `copy` is the number of its row, or
    /// of its column.
    fn cache_index(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index], copy: usize) -> Value {
        let layout = &self.plan.layout;
        let parts: Vec<(Index, Dim)> = layout.reduced.iter().map(|&axis| (at[axis], layout.space[axis].clone())).collect();
        let joined = elements.join(kb, &parts);
        let Index::Affine { base, .. } = joined else { panic!("reduced dimensions are walked in order") };
        if self.along == Along::Reduced {
            let row = kb.int(copy as i64);
            let start = expr!(kb, dim(&self.plan.row_length()) * row);
            return expr!(kb, start + base);
        }
        let (width, offset) = (i64::from(self.copies) * i64::from(elements.lanes), copy as i64 * i64::from(elements.lanes));
        let (width, offset) = (kb.int(width), kb.int(offset));
        expr!(kb, base * width + offset)
    }

    /// Emits loops over the positions of reduced runs, of the first ones in `ranges`. `body` gets
    /// as many columns as there are carried copies: along a row, these are vectors next to one
    /// another.
    #[expect(clippy::too_many_arguments, reason = "a loop nest has its surroundings")]
    pub(super) fn walk<'e>(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'e>,
        columns: &Columns,
        runs: &[Merged],
        ranges: &[[Value; 2]],
        carried: &[Value],
        body: &mut Body<'_, 'e>,
    ) -> Vec<Value> {
        let (range, ranges) = ranges.split_first().map_or((None, ranges), |(&range, others)| (Some(range), others));
        let Some((first, others)) = runs.split_first() else {
            return elements.scoped(|elements| body(kb, elements, columns, carried));
        };
        if self.along == Along::Reduced && others.is_empty() {
            return self.along_row(kb, elements, columns, first, range, carried, body);
        }
        let [low, high] = range.unwrap_or_else(|| [kb.int(0), kb.dim(&first.size)]);
        let one = kb.int(1);
        kb.for_([low, high, one], carried, |kb, index, carried| {
            elements.scoped(|elements| {
                let mut columns = columns.clone();
                columns.iter_mut().for_each(|at| at[first.axis] = Index::uniform(index));
                self.walk(kb, elements, &columns, others, ranges, carried, body)
            })
        })
    }

    /// Emits loops over the vectors of rows: of each as many at once as there are copies, then one
    /// after the other, the last one with a mask.
    #[expect(clippy::too_many_arguments, reason = "a loop nest has its surroundings")]
    fn along_row<'e>(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'e>,
        columns: &Columns,
        run: &Merged,
        range: Option<[Value; 2]>,
        carried: &[Value],
        body: &mut Body<'_, 'e>,
    ) -> Vec<Value> {
        let (lanes, copies) = (i64::from(elements.lanes), i64::from(self.copies));
        let stride = i64::from(lanes > 1);
        let [low, high] = range.unwrap_or_else(|| [kb.int(0), kb.dim(&run.size)]);
        let at = |kb: &mut KernelBuilder, row: &[Index], from: Value, n: i64| {
            let offset = kb.int(n * lanes);
            let mut at = row.to_vec();
            at[run.axis] = Index::Affine { base: expr!(kb, from + offset), stride };
            at
        };
        if copies == 1 {
            let exact = self.group.solver.divisible(&run.size, lanes);
            return carrying(kb, elements, [low, high], exact, carried, |kb, elements, index, carried| {
                let mut columns = columns.clone();
                columns.iter_mut().for_each(|row| row[run.axis] = index);
                body(kb, elements, &columns, carried)
            });
        }
        let (step, vector) = (kb.int(lanes * copies), kb.int(lanes));
        let full = expr!(kb, low + (high - low) / step * step);
        let carried = kb.for_([low, full, step], carried, |kb, from, carried| {
            elements.scoped(|elements| {
                let places = columns.iter().flat_map(|row| (0..copies).map(move |n| (row, n)));
                let several: Columns = places.map(|(row, n)| at(kb, row, from, n)).collect();
                body(kb, elements, &several, carried)
            })
        });
        if self.group.solver.divisible(&run.size, lanes * copies) {
            return carried;
        }
        let exact = lanes == 1 || self.group.solver.divisible(&run.size, lanes);
        kb.for_([full, high, vector], &carried, |kb, from, carried| {
            let mask = (!exact).then(|| {
                let left = expr!(kb, high - from);
                kb.lane_mask(left, lanes as u32)
            });
            elements.masked(mask, |elements| {
                let only: Columns = columns.iter().map(|row| at(kb, row, from, 0)).collect();
                body(kb, elements, &only, carried)
            })
        })
    }

    /// The outputs that the kernel may write.
    fn placed_targets(&self) -> Vec<Target> {
        let shaped = |&(output, target): &(Value, Value)| {
            let (solver, tensor) = (&self.group.solver, self.group.tensor(output));
            let whole = self.plan.whole_output(solver, output, tensor);
            let is_whole = whole.is_some();
            let shape =
                whole.or_else(|| self.plan.kept(solver, tensor)).expect("an output is whole or has an element for each row");
            (Placed { value: output, shape }, is_whole, target)
        };
        self.targets.iter().map(shaped).collect()
    }

    /// Stores an element of some outputs: all are computed before any is stored, since the memory
    /// of one may alias an input which another one reads.
    fn store(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, outputs: &[Target], at: &[Index]) {
        let mut computed = Vec::with_capacity(outputs.len());
        for (placed, ..) in outputs {
            let place = elements.position(kb, &self.plan.layout.space, &placed.shape, at);
            let value = elements.element(kb, placed.value, &place);
            computed.push((place, value));
        }
        for ((placed, _, target), (place, value)) in outputs.iter().zip(computed) {
            elements.store(kb, *target, self.group.tensor(placed.value), &place, value);
        }
    }

    /// Stores the outputs that no walk before has written: whole ones in a last loop over the
    /// reduced positions, then those of one element for each row.
    fn write(&mut self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, columns: &Columns) {
        let late = self.placed_targets().into_iter().filter(|(placed, ..)| self.plan.early(placed.value).is_none());
        let (whole, single): (Vec<Target>, Vec<Target>) = late.partition(|&(_, is_whole, _)| is_whole);
        if !whole.is_empty() {
            let range = self.part.as_ref().map(|part| part.range);
            self.each(kb, elements, columns, &self.reduced, range, &mut |kb, elements, columns| {
                for (copy, at) in columns.iter().enumerate() {
                    self.recall(kb, elements, at, copy, self.plan.last());
                    self.store(kb, elements, &whole, at);
                }
            });
        }
        if single.is_empty() {
            return;
        }
        let mut store_single = |kb: &mut KernelBuilder| columns.iter().for_each(|at| self.store(kb, elements, &single, at));
        let Some(part) = &self.part else { return store_single(kb) };
        // One part of each row stores them.
        let is_first = expr!(kb, part.range[0] == 0);
        let first = |kb: &mut KernelBuilder| {
            store_single(kb);
            Vec::new()
        };
        kb.if_(is_first, first, |_| Vec::new());
    }

    /// Emits loops over the reduced positions, one vector of each column at a time; over a range of
    /// the first run, if there is one.
    fn each<'e>(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'e>,
        columns: &Columns,
        runs: &[Merged],
        range: Option<[Value; 2]>,
        body: &mut dyn FnMut(&mut KernelBuilder, &mut Elements<'e>, &Columns),
    ) {
        let Some((first, others)) = runs.split_first() else {
            return elements.scoped(|elements| body(kb, elements, columns));
        };
        let [low, high] = range.unwrap_or_else(|| [kb.int(0), kb.dim(&first.size)]);
        let one = kb.int(1);
        let mut columns = columns.clone();
        if self.along == Along::Reduced && others.is_empty() {
            let mut along = |kb: &mut KernelBuilder, elements: &mut Elements<'e>, range, size: &Dim, part: Option<usize>| {
                let exact = self.group.solver.divisible(size, i64::from(elements.lanes));
                vector_loop(kb, elements, range, exact, &mut |kb, elements, index| {
                    let bound = |(joint, place): (usize, &Dim)| (place.clone(), part.is_some_and(|part| part <= joint));
                    let known = self.joints.iter().enumerate().filter(|_| part.is_some()).map(bound);
                    known.for_each(|(place, below)| elements.bound(index, place, below));
                    columns.iter_mut().for_each(|row| row[first.axis] = index);
                    body(kb, elements, &columns);
                    // The same index may be another position in the next part.
                    elements.unbound(index);
                });
            };
            if range.is_some() || self.joints.is_empty() {
                return along(kb, elements, [low, high], &first.size, None);
            }
            let mut start = Dim::constant(0);
            for (part, end) in self.joints.iter().chain([&first.size]).enumerate() {
                let range = [kb.dim(&start), kb.dim(end)];
                along(kb, elements, range, &(end - &start), Some(part));
                start = end.clone();
            }
            return;
        }
        kb.for_each([low, high, one], |kb, index| {
            elements.scoped(|elements| {
                columns.iter_mut().for_each(|at| at[first.axis] = Index::uniform(index));
                self.each(kb, elements, &columns, others, None, body);
            });
        });
    }
}

/// The total of a row from its accumulators.
fn total(kb: &mut KernelBuilder, monoid: Monoid, accumulators: &[Value]) -> Value {
    let found = in_pairs(kb, monoid, accumulators);
    kb.reduce_lanes(found, monoid.lane_reducer())
}

/// Combines accumulators in pairs.
pub(super) fn in_pairs(kb: &mut KernelBuilder, monoid: Monoid, accumulators: &[Value]) -> Value {
    let mut found = accumulators.to_vec();
    while found.len() > 1 {
        let pair = |kb: &mut KernelBuilder, pair: &[Value]| match pair {
            &[a, b] => monoid.apply(kb, a, b),
            _ => pair[0],
        };
        found = found.chunks(2).map(|values| pair(kb, values)).collect();
    }
    found[0]
}
