//! Schedules reductions along rows on a grid: the threads of a warp, of a part of it, or of a block
//! have a row together; a thread has a tiny one, or one whose neighbours in memory are other rows.
//!
//! Phases are those of the CPU's schedule: each computes the reductions that depend on earlier
//! ones. A row that fits is computed in registers: each thread computes the values of its elements
//! once, for all phases. A longer one is read again in each phase, from a cache.
//!
//! Invariants: a thread reads elements along the row at its own positions only, so a result may
//! take the memory of an input; all threads of a row meet at each reduction, whatever their number
//! of elements; sums are added in an order that depends on sizes alone.
use super::{
    align,
    candidates::Candidates,
    conditions::{at_least, at_most, can_hold, divides, narrow_positions, narrowed, suits_threads, vector_lanes, vector_memory},
    frame::GridFrame,
    split,
};
use crate::{
    kernel::{Index, KernelBuilder, compute_dtype, monoid::Monoid},
    schedule::{
        Condition, Group, Scheduled, Version, VersionKind, Versioned,
        common::iteration_space::{Merged, positions_of, read_places},
        cpu::{Along, Combine, Placed, Reduction, ReductionSchedule},
    },
    target::GpuModel,
};
use disc_ir::{DType, Dim, Grid, OpKind, TensorType, Value};

/// Elements of a row in the registers of a thread, or vectors of them.
const HELD: u32 = 8;
/// Rows that are known to be shorter are one thread's.
const FEW: i64 = 8;
/// The threads that have a short row together, and its most elements.
const SUBWARP: u32 = 8;
const SHORT: i64 = 32;

/// Schedules a group that has a plan; `None` if its rows are combined in an order of their own.
pub(super) fn versions(group: &Group<'_>, plan: &ReductionSchedule) -> Option<Versioned> {
    if !plan.in_any_order() {
        return None;
    }
    let (kept, reduced) = plan.runs(group);
    let mut candidates = Candidates::of(group);
    let by_threads = |group: &Group<'_>| Rows::new(group, plan, (1, 1)).looped();
    let are_beside = plan.along(&group.solver, &kept, &reduced) == Along::Kept;
    let length = plan.row_length();
    if are_beside || group.solver.range(&length).hi.is_some_and(|most| most < FEW) {
        return Some(candidates.in_narrow_positions((VersionKind::ThreadRows, "thread"), by_threads));
    }
    let lanes = vector_lanes(group).filter(|_| reduced.len() == 1);
    let divides_all = lanes.filter(|&lanes| divides(group, lanes, &length).is_none());
    if let Some(version) = held(&candidates.next, plan, VersionKind::SubwarpRows, (SUBWARP, divides_all.unwrap_or(1))) {
        candidates.add(version);
    }
    if let Some(version) = split::version(&candidates.next, plan) {
        candidates.add(version);
    }
    let warp = GpuModel::of(group.target).expect("a schedule of GPUs").warp;
    let vectors = [(VersionKind::WarpRowVectors, warp), (VersionKind::BlockRowVectors, GpuModel::THREADS)];
    let vectors = vectors.into_iter().filter_map(|(kind, threads)| Some((kind, (threads, lanes?))));
    for (kind, sizes) in vectors.chain([(VersionKind::WarpRows, (warp, 1))]) {
        if let Some(version) = held(&candidates.next, plan, kind, sizes) {
            candidates.add(version);
        }
    }
    let by_blocks = |group: &Group<'_>| Rows::new(group, plan, (GpuModel::THREADS, 1)).looped();
    Some(candidates.in_narrow_positions((VersionKind::BlockRows, "block"), by_blocks))
}

/// Returns the version whose rows are held in the registers of `threads`, if it can run.
fn held(group: &Group<'_>, plan: &ReductionSchedule, kind: VersionKind, (threads, lanes): (u32, u32)) -> Option<Version> {
    let (length, each) = (plan.row_length(), i64::from(threads * lanes));
    let mut guard = narrow_positions(group);
    guard.extend(divides(group, lanes, &length));
    let [least, most] = match kind {
        VersionKind::SubwarpRows => [1, SHORT],
        _ => [each, each * i64::from(HELD)],
    };
    guard.extend(at_least(group, least, &length));
    guard.extend(at_most(group, most, &length));
    if !can_hold(group, &guard) {
        return None;
    }
    let suffix = match kind {
        VersionKind::SubwarpRows => "subwarp",
        VersionKind::WarpRowVectors => "warp_v",
        VersionKind::BlockRowVectors => "block_v",
        _ => "warp",
    };
    let inside = narrowed(group, suffix, &guard);
    let mut code = Rows::new(&inside, plan, (threads, lanes)).held();
    let aligned = vector_memory(&code.kernels[0], &code.launches[0].arguments);
    if !suits_threads(&code.kernels[0]) || lanes > 1 && aligned.is_empty() {
        return None;
    }
    if !aligned.is_empty() {
        align::mark(&mut code.kernels[0], &inside.solver);
        guard.push(Condition::Aligned(aligned, GpuModel::ACCESS_BYTES.into()));
    }
    Some(Version { kind, guard, code, workspaces: Vec::new() })
}

/// A kernel that computes rows.
pub(super) struct Rows<'g> {
    group: &'g Group<'g>,
    plan: &'g ReductionSchedule,
    kept: Vec<Merged>,
    reduced: Vec<Merged>,
    /// The threads that have a row together: one, a part of a warp, a warp, or a block.
    threads: u32,
    lanes: u32,
    grid: Grid,
}

/// The place of this thread.
pub(super) struct Here {
    /// The number of its block, and that of its row.
    pub(super) block: Value,
    pub(super) number: Value,
    /// The position of its row in the space.
    row: Vec<Index>,
    /// True if there is a row; absent if there always is. The threads of a warp compute the last
    /// row together with those that have none.
    exists: Option<Value>,
    /// The positions along the row from the first to below the last, if its block has a part.
    part: Option<[Value; 2]>,
    /// Its number among the threads of the row.
    pub(super) member: Value,
    /// The number of its warp, if a block has a row.
    warp: Option<Value>,
    /// Its number in the warp.
    pub(super) lane: Value,
    /// The memory in which the warps of a block meet, by type.
    meeting: Vec<(DType, Value)>,
}

impl<'g> Rows<'g> {
    pub(super) fn new(group: &'g Group<'g>, plan: &'g ReductionSchedule, (threads, lanes): (u32, u32)) -> Self {
        let (kept, reduced) = plan.runs(group);
        let warp = GpuModel::of(group.target).expect("a schedule of GPUs").warp;
        Self { group, plan, kept, reduced, threads, lanes, grid: Grid { threads: GpuModel::THREADS, warp } }
    }

    /// The rows of a block.
    fn rows(&self) -> u32 {
        self.grid.threads / self.threads
    }

    /// Writes the kernel whose rows are in registers.
    fn held(&self) -> Scheduled {
        self.scheduled(&|rows, frame, here| {
            let columns = rows.columns(&mut frame.kb, here);
            rows.each_phase(frame, here, &mut |rows, frame, _, start, step| {
                let mut carried = start.to_vec();
                for (at, exists) in &columns {
                    carried = step(rows, frame, at, *exists, &carried);
                }
                carried
            });
            rows.write_held(frame, here, &columns);
        })
    }

    /// Writes the kernel that walks a row in each phase.
    fn looped(&self) -> Scheduled {
        self.scheduled(&|rows, frame, here| {
            rows.each_phase(frame, here, &mut |rows, frame, here, start, step| rows.along(frame, here, start, step));
            if rows.outputs(frame, true).is_empty() {
                return;
            }
            let bounds = rows.bounds(&mut frame.kb, here);
            let open = frame.kb.open_for(bounds);
            frame.elements.open_scope();
            let at = rows.at(&mut frame.kb, here, open.index);
            rows.write_held(frame, here, &[(at, None)]);
            frame.elements.close_scope();
            frame.kb.close_for(open);
        })
    }

    /// Walks the elements of a thread along a row, or along its block's part of it.
    fn along(&self, frame: &mut GridFrame<'_>, here: &Here, start: &[Value], step: &mut Step<'_>) -> Vec<Value> {
        let bounds = self.bounds(&mut frame.kb, here);
        let mut open = frame.kb.open_for_carrying(bounds, start);
        frame.elements.open_scope();
        let at = self.at(&mut frame.kb, here, open.index);
        open.next = step(self, frame, &at, None, &open.carried);
        frame.elements.close_scope();
        frame.kb.close_for(open)
    }

    /// Begins a kernel.
    pub(super) fn frame(&self) -> GridFrame<'g> {
        GridFrame::new(self.group, self.lanes, self.grid)
    }

    /// Writes a kernel in which `compute` computes the rows, but for the results of one element for
    /// each row.
    fn scheduled(&self, compute: &dyn Fn(&Self, &mut GridFrame<'_>, &Here)) -> Scheduled {
        self.scheduled_in(self.frame(), 1, &|rows, frame, here| {
            compute(rows, frame, here);
            rows.write_rows(frame, here);
        })
    }

    /// Writes a kernel in which `compute` computes the rows, each in so many parts, which blocks
    /// have.
    pub(super) fn scheduled_in(
        &self,
        mut frame: GridFrame<'g>,
        parts: i64,
        compute: &dyn Fn(&Self, &mut GridFrame<'_>, &Here),
    ) -> Scheduled {
        let rows = Dim::product(self.kept.iter().map(|run| run.size.clone()));
        let kb = &mut frame.kb;
        let [block, warp, lane] = ["block", "warp", "lane"].map(|of| kb.place(of));
        let in_block = kb.int(self.rows().into());
        let (row, member, of_block) = match self.threads {
            threads if threads == self.grid.threads => {
                let count = kb.int(parts);
                (kb.div(block, count), kb.place("thread"), Some(warp))
            }
            threads if threads == self.grid.warp => {
                let before = kb.mul(block, in_block);
                (kb.add(before, warp), lane, None)
            }
            threads => {
                let (before, thread, members) = (kb.mul(block, in_block), kb.place("thread"), kb.int(threads.into()));
                let number = kb.div(thread, members);
                (kb.add(before, number), kb.rem(thread, members), None)
            }
        };
        let count = kb.dim(&rows);
        let exists = (self.rows() > 1).then(|| kb.compare("LT", row, count));
        let meeting = if of_block.is_some() { self.meeting(kb) } else { Vec::new() };
        // Threads of a warp meet, whatever rows they have: a warp without a row is left out, others
        // compute the last row again.
        let is_joint = 1 < self.threads && self.threads < self.grid.warp;
        let open = exists.map(|exists| {
            let kb = &mut frame.kb;
            let any = is_joint.then(|| {
                let (of_warp, before) = (kb.int((self.grid.warp / self.threads).into()), kb.mul(block, in_block));
                let first = kb.mul(warp, of_warp);
                let first = kb.add(before, first);
                kb.compare("LT", first, count)
            });
            kb.open_if(any.unwrap_or(exists))
        });
        let exists = exists.filter(|_| is_joint);
        let row = match exists {
            Some(exists) => {
                let one = frame.kb.int(1);
                let last = frame.kb.sub(count, one);
                frame.kb.select(exists, row, last)
            }
            None => row,
        };
        let mut at = vec![Index::uniform(frame.kb.int(0)); self.plan.layout.space.len()];
        let positions = positions_of(&mut frame.kb, row, &self.kept);
        self.kept.iter().zip(positions).for_each(|(run, position)| at[run.axis] = Index::uniform(position));
        let part = (parts > 1).then(|| self.part(&mut frame.kb, block, parts));
        let here = Here { block, number: row, row: at, exists, part, member, warp: of_block, lane, meeting };
        frame.elements.open_scope();
        read_places(&mut frame.kb, &mut frame.elements, &self.plan.layout.space, &self.plan.row_gathers(self.group), &here.row);
        compute(self, &mut frame, &here);
        frame.elements.close_scope();
        if let Some(open) = open {
            frame.kb.close_if(open);
        }
        frame.finish(rows.ceil_div(&Dim::constant(self.rows().into())) * parts)
    }

    /// Returns the positions along a row of a block's part: it begins at a multiple of a block's
    /// width.
    fn part(&self, kb: &mut KernelBuilder, block: Value, parts: i64) -> [Value; 2] {
        let (length, width) = (self.plan.row_length(), i64::from(self.threads * self.lanes));
        let (each, length) = (kb.dim(&(length.ceil_div(&Dim::constant(parts * width)) * width)), kb.dim(&length));
        let count = kb.int(parts);
        let number = kb.rem(block, count);
        let start = kb.mul(number, each);
        let end = kb.add(start, each);
        [start, kb.map(OpKind::Minimum, &[end, length])]
    }

    /// Allocates memory for a value of each warp, for each type that is reduced.
    fn meeting(&self, kb: &mut KernelBuilder) -> Vec<(DType, Value)> {
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

    /// The positions of this thread along the row: first, end, step.
    fn bounds(&self, kb: &mut KernelBuilder, here: &Here) -> [Value; 3] {
        let lanes = kb.int(self.lanes.into());
        let (first, step) = (kb.mul(here.member, lanes), kb.int((self.threads * self.lanes).into()));
        match here.part {
            Some([start, end]) => [kb.add(start, first), end, step],
            None => [first, kb.dim(&self.plan.row_length()), step],
        }
    }

    /// Returns a position of the space: `along` elements along the row.
    fn at(&self, kb: &mut KernelBuilder, here: &Here, along: Value) -> Vec<Index> {
        let mut at = here.row.clone();
        let positions = positions_of(kb, along, &self.reduced);
        let stride = i64::from(self.lanes > 1);
        for (number, (run, base)) in self.reduced.iter().zip(positions).enumerate() {
            let is_last = number + 1 == self.reduced.len();
            at[run.axis] = Index::Affine { base, stride: if is_last { stride } else { 0 } };
        }
        at
    }

    /// Returns the positions that a thread holds, each with a flag that is true if it is in the
    /// row; the others are positions of the row again.
    fn columns(&self, kb: &mut KernelBuilder, here: &Here) -> Vec<(Vec<Index>, Option<Value>)> {
        let [first, end, _] = self.bounds(kb, here);
        let range = self.group.solver.range(&self.plan.row_length());
        let (least, each) = (range.lo.unwrap_or(0), i64::from(self.threads * self.lanes));
        let held = range.hi.map_or(i64::from(HELD), |most| i64::from(HELD).min((most + each - 1) / each)).max(1);
        let mut columns = Vec::new();
        // A position that every thread has.
        let mut known = if least >= each { first } else { kb.int(0) };
        for number in 0..held {
            let offset = kb.int(number * each);
            let along = if number == 0 { first } else { kb.add(first, offset) };
            if least >= (number + 1) * each {
                columns.push((self.at(kb, here, along), None));
                continue;
            }
            let exists = kb.compare("LT", along, end);
            let along = kb.select(exists, along, known);
            if number == 0 {
                known = along;
            }
            columns.push((self.at(kb, here, along), Some(exists)));
        }
        columns
    }

    /// Computes the reductions, phase by phase: `walk` visits the elements of a thread.
    fn each_phase(&self, frame: &mut GridFrame<'_>, here: &Here, walk: &mut Walk<'_>) {
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

    /// The outputs, each with its memory; those with an element for each position of a row, or the
    /// others.
    fn outputs(&self, frame: &GridFrame<'_>, are_whole: bool) -> Vec<(Placed, Value)> {
        let solver = &self.group.solver;
        let placed = |output: Value| {
            let tensor = self.group.tensor(output);
            let shape = match are_whole {
                true => self.plan.whole_output(solver, output, tensor)?,
                false if self.plan.whole_output(solver, output, tensor).is_some() => return None,
                false => self.plan.kept(solver, tensor).expect("an output is whole or has an element for each row"),
            };
            Some((Placed { value: output, shape }, frame.target(output)))
        };
        self.group.outputs().into_iter().filter_map(placed).collect()
    }

    /// Writes the outputs with an element for each position of a row: all are computed before any
    /// is stored.
    fn write_held(&self, frame: &mut GridFrame<'_>, here: &Here, columns: &[(Vec<Index>, Option<Value>)]) {
        let whole = self.outputs(frame, true);
        let GridFrame { kb, elements, .. } = frame;
        let mut computed = Vec::new();
        for (at, exists) in columns {
            let exists = both(kb, *exists, here.exists);
            for (placed, target) in &whole {
                let place = elements.position(kb, &self.plan.layout.space, &placed.shape, at);
                let value = elements.element(kb, placed.value, &place);
                computed.push((exists, placed.value, *target, place, value));
            }
        }
        // Threads without an element have read another one's.
        if here.exists.is_some() && !computed.is_empty() {
            kb.warp_barrier();
        }
        for (exists, output, target, place, value) in computed {
            let open = exists.map(|exists| kb.open_if(exists));
            elements.scoped(|elements| elements.store(kb, target, self.group.tensor(output), &place, value));
            if let Some(open) = open {
                kb.close_if(open);
            }
        }
    }

    /// Writes the outputs with an element for each row.
    pub(super) fn write_rows(&self, frame: &mut GridFrame<'_>, here: &Here) {
        let single = self.outputs(frame, false);
        if single.is_empty() {
            return;
        }
        let GridFrame { kb, elements, .. } = frame;
        let zero = kb.int(0);
        let is_first = (self.threads > 1).then(|| kb.compare("EQ", here.member, zero));
        let writes = both(kb, is_first, here.exists);
        // Where threads compute another one's row, all of them have to be done before one writes.
        let is_joint = here.exists.is_some();
        let mut open = writes.filter(|_| !is_joint).map(|writes| kb.open_if(writes));
        elements.open_scope();
        let mut computed = Vec::new();
        for (placed, target) in &single {
            let place = elements.position(kb, &self.plan.layout.space, &placed.shape, &here.row);
            let value = elements.element(kb, placed.value, &place);
            computed.push((placed.value, *target, place, value));
        }
        if is_joint {
            kb.warp_barrier();
            open = writes.map(|writes| kb.open_if(writes));
        }
        for (output, target, place, value) in computed {
            elements.store(kb, target, self.group.tensor(output), &place, value);
        }
        elements.close_scope();
        if let Some(open) = open {
            kb.close_if(open);
        }
    }
}

/// Visits the elements of a thread: carries values through a step at each position.
type Walk<'w> = dyn FnMut(&Rows<'_>, &mut GridFrame<'_>, &Here, &[Value], &mut Step<'_>) -> Vec<Value> + 'w;

/// Adds the elements at a position, if it exists, to the values so far.
type Step<'s> = dyn FnMut(&Rows<'_>, &mut GridFrame<'_>, &[Index], Option<Value>, &[Value]) -> Vec<Value> + 's;

pub(super) fn monoid(reduction: &Reduction) -> Monoid {
    match reduction.combine {
        Combine::Plain(monoid) => monoid,
        Combine::Body(_) => unreachable!("rows of a grid are combined in any order"),
    }
}

/// Returns a flag that is true if both are; an absent one is true.
fn both(kb: &mut KernelBuilder, left: Option<Value>, right: Option<Value>) -> Option<Value> {
    match (left, right) {
        (Some(left), Some(right)) => Some(kb.map(OpKind::And, &[left, right])),
        (one, other) => one.or(other),
    }
}

/// Combines the values of the warps of a block through shared memory.
fn meet(
    kb: &mut KernelBuilder,
    (memory, warp, lane): (Value, Value, Value),
    value: Value,
    (word, warps): (&'static str, u32),
) -> Value {
    let zero = kb.int(0);
    let is_first = kb.compare("EQ", lane, zero);
    // The threads have read what they met in before.
    kb.barrier();
    let open = kb.open_if(is_first);
    kb.store(memory, warp, value, None);
    kb.close_if(open);
    kb.barrier();
    let count = kb.int(warps.into());
    let of_lane = kb.rem(lane, count);
    let found = kb.load(memory, of_lane, 1, None);
    kb.reduce_group(found, word, warps)
}
