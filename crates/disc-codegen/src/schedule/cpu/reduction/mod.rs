//! Schedules reductions over the same dimensions, and the ops that depend on them, in one kernel.
//!
//! A row is one position along the kept dimensions. Over the reduced ones runs one loop nest per
//! *phase*: phase `p` computes the reductions that depend on `p` earlier ones, the last phase
//! computes the outputs. Values that are expensive and needed in several phases are kept in task
//! memory. So softmax and layer norm are one kernel each. Vectors are along the dimension that is
//! contiguous in memory: if it is reduced, a unit of work is a row; if it is kept, a unit is a few
//! vectors of adjacent rows.
//!
//! The decision of the fusion pass, as a [`ReductionSchedule`], says which walk writes which
//! output.
mod borrowed_outputs;
mod cascade;
pub(in crate::schedule) mod phases;
mod plan;
pub(in crate::schedule) mod split;
mod tables;
mod unit;

use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder, compute_dtype, cost},
    schedule::{
        Condition::{self, Less},
        Group, Scheduled, Version, VersionKind, Versioned,
        common::{
            iteration_space::{CountedUnits, Merged, each_tile, each_unit},
            kernel_frame::KernelFrame,
            nontemporal::Nontemporal,
            row_blocking::RowBlocking,
        },
    },
    target::CpuModel,
};
use disc_ir::{Dim, OpKind, TensorType, Value};
use disc_kernel_macros::expr;
use disc_passes::fusion::space::regroup;
pub use plan::ReductionSchedule;
pub(in crate::schedule) use plan::{Along, Combine, Placed, Reduction};
use tables::{Tables, Walk};
use unit::Unit;

versions! {
    /// Very short rows, side by side.
    RowsInLanes {
        kernels: "`kN_reduction_lanes`",
        sizes: "rows of at most 8 elements, more than 64 of them, of which more than 16 are neighbours in memory",
        unit: "vectors of rows side by side",
    }

    /// Short rows, several per task.
    MultiRow {
        kernels: "`kN_reduction_multirow`",
        sizes: "rows of at most 80 elements; of at most 256, where there are fewer than 2^20 in all or nothing as long as \
            rows is written; of at most 1,024, where there are fewer than 2^19",
        unit: "a few rows at once",
    }
}

/// The quarter nanoseconds of a vector of the whole group, up to which phases are bound by loads
/// and the latency of sums.
const CHEAP: i64 = 24;

/// More rows than this fill vectors of adjacent rows.
const MANY_ROWS: i64 = 64;

/// Rows up to this length are computed several at once, with the limits below.
const SOME_LENGTH: i64 = 1024;

/// The limit on the elements that are near: memory further away is read faster in one stream.
const NEAR: i64 = 1 << 19;

/// Rows of up to this many elements have no such limit: they are adjacent and end before a stream
/// is under way.
const FEW_ELEMENTS: i64 = 256;

/// The same number if rows are written as well, in as many streams; rows between the two are
/// computed at once if fewer than twice as many elements are near.
const FEW_WRITTEN: i64 = 80;

/// Rows shorter than this leave so many lanes empty that long computations of single elements are
/// faster in loops of their own.
const PARTLY_FILLED: i64 = 128;

/// The number of rows in a unit of several rows.
const SOME_ROWS: i64 = 4;

/// The shape of a group's vectors: the dimension that they are along, their length, and how many of
/// them are computed at once.
struct Shape {
    kept: Vec<Merged>,
    reduced: Vec<Merged>,
    along: Along,
    copies: u32,
    lanes: u32,
    /// The rows that are computed at once, if vectors are along them.
    rows: u32,
}

impl Shape {
    fn of(group: &Group<'_>, plan: &ReductionSchedule) -> Self {
        let (kept, reduced) = plan.runs(group);
        let along = plan.along(&group.solver, &kept, &reduced);
        Self::with(group, plan, kept, reduced, along)
    }

    /// The shape for rows that are computed one at a time.
    fn one_by_one(group: &Group<'_>, plan: &ReductionSchedule) -> Self {
        let (kept, reduced) = plan.runs(group);
        Self::with(group, plan, kept, reduced, Along::Reduced)
    }

    /// The shape for rows each of which is a lane.
    fn side_by_side(group: &Group<'_>, plan: &ReductionSchedule) -> Self {
        let (kept, reduced) = plan.runs(group);
        Self::with(group, plan, kept, reduced, Along::Kept)
    }

    fn with(group: &Group<'_>, plan: &ReductionSchedule, kept: Vec<Merged>, reduced: Vec<Merged>, along: Along) -> Self {
        let work: i64 = group.function.insts(group.function.body).iter().map(|&inst| own_weight(group, inst)).sum();
        let in_order = !plan.in_any_order();
        let copies = match () {
            () if in_order || cost::is_long(group.function) => 1,
            () if work <= CHEAP => 4,
            () => 2,
        };
        let vector = match along {
            Along::Reduced => reduced.last().filter(|_| !in_order),
            Along::Kept => kept.last(),
        };
        let lanes = vector.map_or(1, |run| cost::lanes(group.function, group.target, &group.solver, &run.size));
        Self { kept, reduced, along, copies, lanes, rows: 1 }
    }

    /// The shape for several rows at a time: while one waits for its total, others work.
    fn several(&self, group: &Group<'_>) -> Self {
        let last = &self.reduced.last().expect("vectors lie along a reduced dimension").size;
        let lanes = cost::lanes_of_register(group.function, group.target, &group.solver, last);
        // Of long computations, as many are interleaved as registers hold.
        let rows = if cost::is_long(group.function) && group.target.vector_bytes() < 64 { 2 } else { 4 };
        Self { kept: self.kept.clone(), reduced: self.reduced.clone(), along: self.along, copies: 1, lanes, rows }
    }

    /// The elements of the last kept dimension in a unit.
    fn width(&self) -> i64 {
        match self.along {
            Along::Kept => i64::from(self.copies) * i64::from(self.lanes),
            Along::Reduced => i64::from(self.rows),
        }
    }

    /// The runs that units are counted along: rows, or tiles of them.
    fn counted(&self) -> Vec<Merged> {
        let mut runs = self.kept.clone();
        if let Some(last) = runs.last_mut() {
            last.size = last.size.ceil_div(&Dim::constant(self.width()));
        }
        runs
    }

    /// The number of units.
    fn units(&self) -> Dim {
        Dim::product(self.counted().into_iter().map(|run| run.size))
    }

    /// Computes the unit at these positions along the runs that units are counted along.
    fn run(&self, unit: &mut Unit<'_>, kb: &mut KernelBuilder, elements: &mut Elements<'_>, positions: &[Value]) {
        let zero = kb.int(0);
        let mut at = vec![Index::uniform(zero); unit.plan.layout.space.len()];
        self.kept.iter().zip(positions).for_each(|(run, &position)| at[run.axis] = Index::uniform(position));
        match self.kept.last() {
            Some(last) if self.width() > 1 => {
                let tile = at[last.axis].as_uniform().expect("a unit has one position along each kept dimension");
                let size = kb.dim(&last.size);
                let base = expr!(kb, tile * int(self.width()));
                let is_full = unit.group.solver.divisible(&last.size, self.width());
                self.beside(unit, kb, elements, (last.axis, [base, size], is_full), at);
            }
            _ => unit.run(kb, elements, vec![at]),
        }
    }

    /// Computes a unit of adjacent rows along an axis, from `base` on: all its columns at once if
    /// they are full, which may be known, otherwise one after the other, with a mask if each is a
    /// vector.
    fn beside(
        &self,
        unit: &mut Unit<'_>,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        (axis, [base, size], is_full): (usize, [Value; 2], bool),
        at: Vec<Index>,
    ) {
        // Lanes are rows, or each column is one.
        let lanes = if self.along == Along::Kept { i64::from(self.lanes) } else { 1 };
        let (wide, count) = (self.width(), self.width() / lanes);
        let step = kb.int(wide);
        let stride = i64::from(lanes > 1);
        let columns = |kb: &mut KernelBuilder, count: i64, from: Value| -> Vec<Vec<Index>> {
            let column = |n: i64| {
                let offset = kb.int(n * lanes);
                let mut at = at.clone();
                at[axis] = Index::Affine { base: expr!(kb, from + offset), stride };
                at
            };
            (0..count).map(column).collect()
        };
        if is_full {
            let all = columns(kb, count, base);
            return unit.run(kb, elements, all);
        }
        let full = expr!(kb, base + step <= size);
        let shared = std::cell::RefCell::new((unit, elements));
        let at_once = |kb: &mut KernelBuilder| {
            let (unit, elements) = &mut *shared.borrow_mut();
            let all = columns(kb, count, base);
            elements.scoped(|elements| unit.run(kb, elements, all));
            Vec::new()
        };
        let one_by_one = |kb: &mut KernelBuilder| {
            let (unit, elements) = &mut *shared.borrow_mut();
            let one_column = kb.int(lanes);
            kb.for_each([base, size, one_column], |kb, from| {
                let only = columns(kb, 1, from);
                let left = expr!(kb, size - from);
                let mask = (lanes > 1).then(|| kb.lane_mask(left, lanes as u32));
                elements.masked(mask, |elements| unit.run(kb, elements, only));
            });
            Vec::new()
        };
        kb.if_(full, at_once, one_by_one);
    }

    fn unit<'g>(
        &self,
        kb: &mut KernelBuilder,
        group: &'g Group<'g>,
        plan: &'g ReductionSchedule,
        targets: Vec<(Value, Value)>,
    ) -> Unit<'g> {
        self.unit_keeping(kb, group, plan, targets, plan.keep(group))
    }

    /// Makes a unit that keeps these values in task memory.
    fn unit_keeping<'g>(
        &self,
        kb: &mut KernelBuilder,
        group: &'g Group<'g>,
        plan: &'g ReductionSchedule,
        targets: Vec<(Value, Value)>,
        kept: Vec<Placed>,
    ) -> Unit<'g> {
        let cached = |placed: Placed| {
            let dtype = compute_dtype(group.tensor(placed.value).dtype);
            let buffer = kb.scratch(TensorType::new([plan.row_length() * self.width()], dtype));
            (placed, buffer)
        };
        let caches = kept.into_iter().map(cached).collect();
        let gathers = if self.along == Along::Reduced { plan.row_gathers(group) } else { Vec::new() };
        let (reduced, along, copies) = (self.reduced.clone(), self.along, self.copies);
        let row_values = plan.row_values(group);
        let joints = if along == Along::Reduced { plan.joints(group, &reduced) } else { Vec::new() };
        let tables = Tables::default();
        Unit { group, plan, reduced, along, copies, targets, caches, gathers, row_values, joints, tables, part: None }
    }
}

/// The lanes for rows that another schedule computes.
pub(super) fn lanes(group: &Group<'_>, plan: &ReductionSchedule) -> u32 {
    Shape::one_by_one(group, plan).lanes
}

/// Computes rows for another schedule, one at a time.
pub(super) struct Rows<'g> {
    unit: Unit<'g>,
}

impl<'g> Rows<'g> {
    /// Makes the rows of a group whose outputs go to `targets`; allocates task memory for the
    /// values that are kept of a row.
    pub(super) fn new(kb: &mut KernelBuilder, group: &'g Group<'g>, plan: &'g ReductionSchedule, targets: Vec<Value>) -> Self {
        let targets = group.outputs().into_iter().zip(targets).collect();
        Self { unit: Shape::one_by_one(group, plan).unit(kb, group, plan, targets) }
    }

    /// Computes one row; `at` has its position in the plan's domain, with the columns at 0.
    pub(super) fn run(&mut self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index]) {
        let here = in_space(kb, self.unit.group, self.unit.plan, at);
        self.unit.run(kb, elements, vec![here]);
    }
}

/// Maps a position of the plan's domain to its space.
fn in_space(kb: &mut KernelBuilder, group: &Group<'_>, plan: &ReductionSchedule, at: &[Index]) -> Vec<Index> {
    let all: Vec<usize> = (0..plan.layout.space.len()).collect();
    let shape = regroup(&group.solver, &plan.layout.space, &all, &plan.domain).expect("the domain is of the space");
    let mut here = vec![Index::uniform(kb.int(0)); all.len()];
    for (axes, index) in shape.iter().zip(at) {
        if let [axis] = axes[..] {
            here[axis] = *index;
        }
    }
    here
}

/// The position of a value of the group at a position of the plan's domain: it has one element for
/// each position, or one for each row.
pub(super) fn place(
    kb: &mut KernelBuilder,
    elements: &mut Elements<'_>,
    group: &Group<'_>,
    plan: &ReductionSchedule,
    value: Value,
    at: &[Index],
) -> Vec<Index> {
    let (solver, tensor) = (&group.solver, group.tensor(value));
    let shape = plan.whole(solver, tensor).or_else(|| plan.kept(solver, tensor)).expect("a value of the domain or of its rows");
    let here = in_space(kb, group, plan, at);
    elements.position(kb, &plan.layout.space, &shape, &here)
}

/// Schedules a group that has a plan: row by row; few rows of many elements in parts that are added
/// up; many rows of few elements as lanes.
pub(in crate::schedule) fn schedule(group: &Group<'_>, plan: &ReductionSchedule) -> Versioned {
    let shape = Shape::of(group, plan);
    let split = split::version(group, plan, &shape).or_else(|| phases::version(group, plan, &shape));
    let mut versions: Vec<Version> = split.into_iter().collect();
    let sites = |versions: &[Version]| -> i64 { versions.iter().map(|version| version.code.sites.len() as i64).sum() };
    // Lanes of adjacent rows have no tables of blocks.
    let in_blocks = walk_of(group, plan, &shape).is_some();
    if let Some(guard) = short_rows(group, plan, &shape).filter(|_| !in_blocks) {
        // Of the guard, their code can use only the length of rows.
        let mut side_by_side = group.guarded(format!("{}_lanes", group.name), &guard[..1]);
        side_by_side.first_site += sites(&versions);
        // Each element is stored by itself there.
        let code = |group: &Group<'_>, plan: &ReductionSchedule| whole(group, plan, &Shape::side_by_side(group, plan));
        versions.extend(apart_versions(&side_by_side, plan, VersionKind::RowsInLanes, &guard, &code));
    }
    let at_once = some_at_once(group, plan, &shape);
    let partly_filled = [Less(plan.row_length(), Dim::constant(PARTLY_FILLED))];
    let are_longer = group.solver.range(&plan.row_length()).lo.is_some_and(|least| least >= PARTLY_FILLED);
    if !matches!(at_once, AtOnce::Never) && !are_longer && is_long_apart(group, plan) {
        let mut partly = group.guarded(format!("{}_partly", group.name), &partly_filled);
        partly.first_site += sites(&versions);
        let code = |group: &Group<'_>, plan: &ReductionSchedule| whole(group, plan, &shape.several(group));
        versions.extend(apart_versions(&partly, plan, VersionKind::MultiRow, &partly_filled, &code));
    }
    let mut rest = group.clone();
    rest.first_site += sites(&versions);
    let mut add = |version: Version, rest: &mut Group<'_>| {
        rest.first_site += version.code.sites.len() as i64;
        versions.push(version);
    };
    let shape = if matches!(at_once, AtOnce::Always) { shape.several(group) } else { shape };
    let mut nontemporal = nontemporal(group, plan, &shape);
    if let AtOnce::Where(guard) = at_once {
        let (length, most) = (plan.row_length(), Dim::constant(FEW_WRITTEN));
        if let Some(large) = nontemporal.take() {
            let (few, long) = ([Less(length.clone(), &most + 1)], [Less(most, length)]);
            let large_few = large.clone().where_(&few);
            let inside = large_few.inside(&rest, format!("{}_multirow_nontemporal", group.name));
            add(large_few.version(whole(&inside, plan, &shape.several(&inside))), &mut rest);
            nontemporal = Some(large.where_(&long));
        }
        let some = rest.guarded(format!("{}_multirow", group.name), &guard[..1]);
        let code = whole(&some, plan, &shape.several(&some));
        add(Version { kind: VersionKind::MultiRow, guard, code, workspaces: Vec::new() }, &mut rest);
    }
    if let Some(nontemporal) = nontemporal {
        let inside = nontemporal.inside(&rest, format!("{}_nontemporal", group.name));
        add(nontemporal.version(whole(&inside, plan, &shape)), &mut rest);
    }
    let otherwise = whole(&rest, plan, &shape);
    Versioned { versions, otherwise, ..Versioned::default() }
}

/// The conditions for non-temporal stores of results as long as rows: rows have to be walked along
/// memory.
fn nontemporal(group: &Group<'_>, plan: &ReductionSchedule, shape: &Shape) -> Option<Nontemporal> {
    let all: Vec<usize> = (0..plan.layout.space.len()).collect();
    let inner = shape.reduced.last().filter(|run| shape.along == Along::Reduced && Some(&run.axis) == all.last())?;
    let whole =
        |output: Value| plan.whole_output(&group.solver, output, group.tensor(output)).map(|axes| (output, axes.concat()));
    let results: Vec<(Value, Vec<usize>)> = group.outputs().into_iter().filter_map(whole).collect();
    // Only these are stored as vectors; the others have an element for each row.
    let results: Vec<Value> =
        results.iter().all(|(_, axes)| *axes == all).then(|| results.iter().map(|found| found.0).collect())?;
    // Rows are walked part by part, so that each part has to start at a line as well.
    let mut starts = plan.joints(group, &shape.reduced);
    starts.push(inner.size.clone());
    Nontemporal::of(group, &results, shape.lanes, &starts)
}

/// The code for the rows of a group that has this plan.
type RowCode<'a> = dyn Fn(&Group<'_>, &ReductionSchedule) -> Scheduled + 'a;

/// Versions in which separate loops write, before the rows, the outputs that these can write, if
/// there are any: outputs of rows may take over the memory of inputs. There is one for each version
/// of the loops.
fn apart_versions(
    group: &Group<'_>,
    plan: &ReductionSchedule,
    kind: VersionKind,
    guard: &[Condition],
    code: &RowCode<'_>,
) -> Vec<Version> {
    let version = |guard, code| Version { kind, guard, code, workspaces: Vec::new() };
    let (apart, others): (Vec<usize>, Vec<usize>) = group.wanted.iter().partition(|&&wanted| plan.is_apart(group.output(wanted)));
    let mut rows = Group { wanted: others, ..group.clone() };
    let plan_of_rows = ReductionSchedule::of(group.function, &group.solver, &rows.outputs()).ok().filter(|_| !apart.is_empty());
    let loops = Group { wanted: apart, name: format!("{}_apart", group.name).into(), ..group.clone() };
    // The space of the rows may relate shapes that are not known to be of one space by themselves.
    let are_loops = crate::schedule::space_of(&loops, &loops.outputs()).is_some();
    let Some(plan_of_rows) = plan_of_rows.filter(|_| are_loops) else {
        return vec![version(guard.to_vec(), code(group, plan))];
    };
    let Versioned { versions, otherwise, .. } = super::pointwise_versions(&loops);
    let found = versions.into_iter().map(|found| (found.guard, found.code));
    let codes: Vec<_> = found.chain([(Vec::new(), otherwise)]).collect();
    rows.first_site += codes.iter().map(|(_, code)| code.sites.len() as i64).sum::<i64>();
    let rows = code(&rows, &plan_of_rows);
    let with_rows = |(conditions, mut code): (Vec<Condition>, Scheduled)| {
        code.launches.extend(rows.launches.iter().cloned());
        version([guard, &conditions].concat(), code)
    };
    let mut made: Vec<Version> = codes.into_iter().map(with_rows).collect();
    // All of them launch the same kernel.
    if let Some(last) = made.last_mut() {
        last.code.kernels.extend(rows.kernels);
        last.code.sites.extend(rows.sites);
    }
    made
}

/// Returns true if separate loops can write an output that takes long to compute.
fn is_long_apart(group: &Group<'_>, plan: &ReductionSchedule) -> bool {
    let mut stack: Vec<Value> = group.outputs().into_iter().filter(|&output| plan.is_apart(output)).collect();
    while let Some(value) = stack.pop() {
        let Some(inst) = group.function.defining(value) else { continue };
        if cost::is_long_op(group.function, inst) {
            return true;
        }
        stack.extend(group.function.operands(inst));
    }
    false
}

/// The cases in which several rows are computed at once.
enum AtOnce {
    Never,
    Always,
    Where(Vec<Condition>),
}

/// Rows that are so short that their latencies matter are computed several at once, if there are
/// several.
fn some_at_once(group: &Group<'_>, plan: &ReductionSchedule, shape: &Shape) -> AtOnce {
    let Some(last) = shape.kept.last().filter(|_| shape.along == Along::Reduced && plan.in_any_order()) else {
        return AtOnce::Never;
    };
    let (length, count) = (plan.row_length(), Dim::product(plan.layout.space.iter().cloned()));
    let range = |dim: &Dim| group.solver.range(dim);
    let few = range(&last.size).hi.is_some_and(|hi| hi < SOME_ROWS);
    let is_whole = |output: Value| plan.whole_output(&group.solver, output, group.tensor(output)).is_some();
    let is_written = group.outputs().into_iter().any(is_whole);
    let least = if is_written { FEW_WRITTEN } else { FEW_ELEMENTS };
    // The sum is twice the number of elements that have to be near: each counts once for rows of
    // more than `least` elements, and once more for those of more than [`FEW_ELEMENTS`].
    let is_more = |few: i64| Dim::min(&(&length - 1).floor_div(&Dim::constant(few)), &Dim::constant(1));
    let far = match range(&length) {
        known if known.hi.is_some_and(|hi| hi <= least) => Dim::constant(0),
        known if known.lo.is_some_and(|lo| lo > FEW_ELEMENTS) => count * 2,
        _ => count * (is_more(least) + is_more(FEW_ELEMENTS)),
    };
    let much = range(&length).lo.is_some_and(|lo| lo > SOME_LENGTH) || range(&far).lo.is_some_and(|lo| lo >= 2 * NEAR);
    if few || much || shape.reduced.is_empty() {
        return AtOnce::Never;
    }
    if range(&length).hi.is_some_and(|hi| hi <= SOME_LENGTH) && range(&far).hi.is_some_and(|hi| hi < 2 * NEAR) {
        return AtOnce::Always;
    }
    AtOnce::Where(vec![Less(length, Dim::constant(SOME_LENGTH + 1)), Less(far, Dim::constant(2 * NEAR))])
}

/// The guard under which rows that may be longer, or of which few may be adjacent, are computed as
/// lanes.
fn short_rows(group: &Group<'_>, plan: &ReductionSchedule, shape: &Shape) -> Option<Vec<Condition>> {
    let last = &shape.kept.last().filter(|_| shape.along == Along::Reduced && plan.in_any_order())?.size;
    let length = plan.row_length();
    let range = |dim: &Dim| group.solver.range(dim);
    let possible = range(&length).lo.is_none_or(|least| least <= CpuModel::SHORT_ROW)
        && range(last).hi.is_none_or(|most| most > plan::NARROW);
    let rows = Dim::product(shape.kept.iter().map(|run| run.size.clone()));
    let mut guard = vec![Less(length, Dim::constant(CpuModel::SHORT_ROW + 1)), Less(Dim::constant(MANY_ROWS), rows)];
    if shape.kept.len() > 1 {
        guard.push(Less(Dim::constant(plan::NARROW), last.clone()));
    }
    possible.then_some(guard)
}

/// The kernel that computes whole rows.
fn whole(group: &Group<'_>, plan: &ReductionSchedule, shape: &Shape) -> Scheduled {
    let mut frame = KernelFrame::new(group, &group.name, shape.lanes);
    let targets = frame.memory.targets.clone();
    let KernelFrame { kb, elements, range, .. } = &mut frame;
    let mut unit = shape.unit(kb, group, plan, targets);
    let walk = walk_of(group, plan, shape);
    let tables = Tables::of(kb, elements, group, plan, &shape.reduced, walk.as_ref());
    let (space, counted) = (&plan.layout.space, shape.counted());
    let mut at = vec![Index::uniform(kb.int(0)); space.len()];
    tables.fill(kb, elements, space, &at);
    unit.know_everywhere(kb, elements, &at);
    unit.tables = tables.clone();
    if let Some(Walk { blocks, .. }) = walk.filter(|_| tables.are_outer()) {
        let mut enter = |kb: &mut KernelBuilder, positions: &[Value]| {
            let mut at = at.clone();
            let rows = blocks.enter(kb, positions, &mut at);
            tables.fill_outer(kb, elements, space, &at, Some(rows));
        };
        let counted = blocks.counted();
        let units = CountedUnits::open_entering(kb, *range, &counted, &mut enter);
        let [first, stop] = blocks.place(kb, &units.positions, &mut at);
        unit.tables.first = Some(first);
        let last = blocks.last().axis;
        blocks.each_row(kb, [first, stop], shape.width(), &at, &mut |kb, at, stop| {
            let base = at[last].as_uniform().expect("rows are counted one by one");
            elements.scoped(|elements| match shape.width() {
                1 => unit.run(kb, elements, vec![at.to_vec()]),
                _ => shape.beside(&mut unit, kb, elements, (last, [base, stop], false), at.to_vec()),
            });
        });
        units.close(kb, &counted);
        return frame.finish(blocks.units(), cost(group, plan, shape));
    }
    if tables.are_outer() {
        let mut enter = |kb: &mut KernelBuilder, positions: &[Value]| {
            shape.kept.iter().zip(positions).for_each(|(run, &position)| at[run.axis] = Index::uniform(position));
            tables.fill_outer(kb, elements, space, &at, None);
        };
        let units = CountedUnits::open_entering(kb, *range, &counted, &mut enter);
        elements.scoped(|elements| shape.run(&mut unit, kb, elements, &units.positions));
        units.close(kb, &counted);
        return frame.finish(shape.units(), cost(group, plan, shape));
    }
    let row = |kb: &mut KernelBuilder, positions: &[Value]| {
        elements.scoped(|elements| shape.run(&mut unit, kb, elements, positions));
    };
    match shape.rows {
        1 => each_unit(kb, *range, &counted, row),
        _ => each_tile(kb, *range, &counted, row),
    }
    frame.finish(shape.units(), cost(group, plan, shape))
}

/// The walk of rows in blocks, if vectors are along them and some have costly values in common with
/// others than their neighbours.
fn walk_of(group: &Group<'_>, plan: &ReductionSchedule, shape: &Shape) -> Option<Walk> {
    let followed = plan.followed(group).filter(|_| shape.along == Along::Reduced)?;
    let blocks = RowBlocking::of(&shape.kept, &followed, &plan.row_length())?;
    Some(Walk { blocks, followed })
}

/// The nanoseconds on one thread.
fn cost(group: &Group<'_>, plan: &ReductionSchedule, shape: &Shape) -> Dim {
    let work: i64 = group.function.insts(group.function.body).iter().map(|&inst| own_weight(group, inst)).sum();
    let count = Dim::product(plan.layout.space.iter().cloned());
    (count * (work + 4)).ceil_div(&Dim::constant(4 * i64::from(shape.lanes))) + shape.units() * 20
}

/// A reduction itself costs as much as its op.
fn own_weight(group: &Group<'_>, inst: disc_ir::Inst) -> i64 {
    match group.function.kind_of(inst) {
        OpKind::Reduce => 1,
        _ => cost::weight(group.function, inst),
    }
}
