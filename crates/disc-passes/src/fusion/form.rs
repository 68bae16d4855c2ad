//! Whether a set of ops is one kernel, and of which form: the one place that decides it.
//!
//! Three forms: a *loop* computes values of one space, element by element; a *row* group has reductions over the same axes of one space, and
//! computes whole values, and values with the axes that are kept. What is read on the way may have any shape: it is computed where it is
//! used, if that repeats no costly work. A *scan* group is a loop over the shape of the one scan in it.
//!
//! Invariant: the answer asks types and facts alone, and depends on the set, not on how it came about.
use super::{
    duplication::computations,
    hoisting::{HoistLevel, MOST_SHARED, costs_something, hoist_level, may_fail, rows_of},
    layout::Layout,
    legality::{Role, costly, leaves_neighbours, only_ones_differ, same_shape},
    line_buffers::{LineBuffer, LineBuffers, never_fails},
    space::{Follows, Map, axes_of, map_of, reads, refine, regroup, repeat_of},
};
use crate::analysis::query::{Query, picks_rows};
use disc_ir::{Dim, Function, Inst, OpKind, Solver, Value, ops::Trait};
use std::collections::{HashMap, HashSet};

/// More ops than this make kernels whose live values fit no register file, and compile slowly.
const MOST_OPS: usize = 160;
/// The same for ops that are computed at several places, each counted as often.
const MOST_COMPUTATIONS: usize = 256;
/// More tensors than this outrun the streams that a core prefetches.
const MOST_TENSORS: usize = 24;
/// The same for scans along the last axis, whose code has every op once for each line of a square, and for others. Costly ops count
/// [`COSTLY`] times.
const MOST_SCANNED: (usize, usize) = (24, 64);
const COSTLY: usize = 8;
/// Rows up to this length are faster side by side, though each lane then reads memory of its own.
pub const SHORT_ROW: i64 = 8;

/// Why a set of ops is no kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    /// These shapes are not counted alike.
    Shapes(Vec<Dim>, Vec<Dim>),
    /// The reductions are over different axes of one shape.
    Axes,
    /// A reduction would be read by elements of other rows.
    OtherRows,
    /// A scan would be read at other places than where it is.
    OtherPlaces,
    /// Besides a scan there is another one, or a reduction.
    Scans,
    /// This op would be computed again and again.
    Again(&'static str),
    /// What is repeated would be read element by element.
    Apart,
    /// Rows would read elements that lie apart.
    Turned,
    /// The position of each element would be divided.
    Divided,
    /// Rows would be written in pieces of so many elements.
    Pieces(Dim),
    /// What checks indices would not see all of them.
    Unchecked,
    /// Several products would all have to be there first.
    Waits,
    Large,
}

/// A set of ops, with what it needs to know about its surroundings.
pub(super) struct Candidate<'a> {
    pub(super) function: &'a Function,
    pub(super) solver: &'a Solver,
    /// In the order of the block.
    pub(super) members: &'a [Inst],
    /// The values that others need.
    pub(super) outputs: &'a [Value],
    pub(super) role: &'a dyn Fn(Inst) -> Option<Role>,
}

/// What a walk knows of costly ops.
#[derive(Default)]
struct Costs<'a> {
    /// How rows may have some in common.
    shares: &'a [HoistLevel],
    /// Where each is computed.
    maps: HashMap<Inst, Map>,
    /// Those that do not follow all axes that are kept, but for those that rows share by blocks.
    in_common: HashSet<Inst>,
    /// The axes of rows that those follow which are kept in tables: rows that differ along others have these in common.
    followed: HashSet<usize>,
}

/// What a walk has come by: a value, how its dimensions follow the space, and how much of it is computed there.
type Visit = (Value, Map, Demand);

/// How much is computed of a value where it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Demand {
    /// What is used.
    Used,
    /// Elements that data name, as they are.
    Picked,
    /// More than is used, or some of it several times.
    More,
    /// One element for each row: which, the data say.
    One,
}

impl Candidate<'_> {
    /// The layout of the set as one kernel.
    pub(super) fn form(&self) -> Result<Layout, Rejection> {
        if self.members.len() > MOST_OPS {
            return Err(Rejection::Large);
        }
        if self.waits_for_products() {
            return Err(Rejection::Waits);
        }
        let layout = self.layout()?;
        let roots = self.roots(&layout)?;
        let members: HashSet<Inst> = self.members.iter().copied().collect();
        let lines = self.lines(&layout, &members, &roots)?;
        let mut tensors: HashSet<Value> = self.outputs.iter().copied().collect();
        let shares: &[HoistLevel] = match self.scan()? {
            Some(_) => &[],
            // Rows with lines are walked in their order.
            None if !lines.is_empty() => &[HoistLevel::PerRow, HoistLevel::PerTask],
            None => &[HoistLevel::PerRow, HoistLevel::PerTask, HoistLevel::PerBlock],
        };
        self.walk(&layout, (&lines, shares), roots, &mut tensors)?;
        for line in &lines {
            self.walk_line(line.value, &mut tensors)?;
        }
        let is_line = |value: Value| lines.iter().any(|line| line.value == value);
        match computations(self.function, self.outputs, &|inst| self.is_inside(&members, inst), &is_line) {
            count if count > MOST_COMPUTATIONS => Err(Rejection::Large),
            _ => Ok(layout),
        }
    }

    pub(super) fn reductions(&self) -> Vec<Inst> {
        self.members.iter().copied().filter(|&i| self.function.kind_of(i) == OpKind::Reduce).collect()
    }

    /// The scan among the members, if there is one.
    fn scan(&self) -> Result<Option<Inst>, Rejection> {
        let mut scans = self.members.iter().copied().filter(|&i| self.function.kind_of(i) == OpKind::Cumulative);
        let Some(scan) = scans.next() else { return Ok(None) };
        if scans.next().is_some() || !self.reductions().is_empty() {
            return Err(Rejection::Scans);
        }
        let one = Dim::constant(1);
        let behind = &self.function.shape(self.function.result(scan))[self.function.int(scan, "dim") as usize + 1..];
        let most = if behind.iter().all(|d| self.solver.equal(d, &one)) { MOST_SCANNED.0 } else { MOST_SCANNED.1 };
        let weight = |&i: &Inst| if costly(self.function.kind_of(i)) { COSTLY } else { 1 };
        match self.members.iter().map(weight).sum::<usize>() > most {
            true => Err(Rejection::Large),
            false => Ok(Some(scan)),
        }
    }

    fn layout(&self) -> Result<Layout, Rejection> {
        if let Some(scan) = self.scan()? {
            let space = self.function.shape(self.function.operands(scan)[0]).to_vec();
            let kept = (0..space.len()).collect();
            return Ok(Layout { space, reduced: Vec::new(), kept, reduces: false, reordered: Vec::new() });
        }
        let reductions = self.reductions();
        let space = self.space(&reductions)?;
        let reduced = self.reduced(&space, &reductions)?;
        let kept = (0..space.len()).filter(|a| !reduced.contains(a)).collect();
        let mut layout = Layout { space, reduced, kept, reduces: !reductions.is_empty(), reordered: Vec::new() };
        layout.reordered = self.reordered(&layout)?;
        Ok(layout)
    }

    /// What loops compute: the outputs, and what is reduced.
    fn roots(&self, layout: &Layout) -> Result<Vec<Visit>, Rejection> {
        let all: Vec<usize> = (0..layout.space.len()).collect();
        let map = |value: Value, axes: &[usize]| map_of(self.solver, &layout.space, axes, self.function.shape(value));
        let mut roots: Vec<Visit> = Vec::new();
        let scan = self.scan()?;
        for &output in self.outputs {
            let shape = self.function.shape(output);
            if scan.is_some() && !same_shape(self.solver, shape, &layout.space) {
                return Err(Rejection::Shapes(layout.space.clone(), shape.to_vec()));
            }
            let kept = || layout.reduces.then(|| map(output, &layout.kept)).flatten();
            let found = layout.reordered(output).cloned().or_else(|| map(output, &all)).or_else(kept);
            let found = found.ok_or_else(|| Rejection::Shapes(layout.space.clone(), self.function.shape(output).to_vec()))?;
            roots.push((output, found, Demand::Used));
        }
        for inst in self.reductions().into_iter().chain(scan) {
            let operands = self.function.operands(inst);
            for &input in &operands[..operands.len() / 2] {
                roots.push((input, map(input, &all).ok_or(Rejection::Axes)?, Demand::Used));
            }
        }
        Ok(roots)
    }

    /// The space of what is reduced, or of the outputs; fine enough for every value of the set that has as many elements.
    fn space(&self, reductions: &[Inst]) -> Result<Vec<Dim>, Rejection> {
        let inputs: Vec<Value> = reductions.iter().map(|&i| self.function.operands(i)[0]).collect();
        let roots = if inputs.is_empty() { self.outputs } else { &inputs };
        let Some((&first, others)) = roots.split_first() else { return Ok(Vec::new()) };
        let first = self.function.shape(first);
        let mut space = refine(self.solver, first, first).unwrap_or_default();
        for &root in others {
            let shape = self.function.shape(root);
            let Some(finer) = refine(self.solver, &space, shape) else {
                return Err(Rejection::Shapes(space, shape.to_vec()));
            };
            space = finer;
        }
        let copied = self.copied_views();
        let inside = self.members.iter().chain(&copied);
        // Positions along what is repeated are divided: in short steps, vectors would hold little.
        let repeats = inside.clone().filter(|&&i| self.repeats(i));
        let repeated: HashSet<Value> = repeats.map(|&i| self.function.operands(i)[0]).collect();
        let reshaped = inside.flat_map(|&i| self.function.results_of(i).iter().chain(self.function.operands(i)));
        let reshaped = reshaped.filter(|value| !repeated.contains(value));
        let mut tried: HashSet<&[Dim]> = HashSet::new();
        for shape in reshaped.map(|&v| self.function.shape(v)).filter(|shape| shape.len() > 1) {
            if tried.insert(shape)
                && let Some(finer) = refine(self.solver, &space, shape)
            {
                space = finer;
            }
        }
        Ok(space)
    }

    /// Whether an op repeats elements one by one.
    fn repeats(&self, inst: Inst) -> bool {
        self.function.kind_of(inst) == OpKind::Reshape && repeat_of(self.function, self.solver, inst).is_some()
    }

    /// The reshapes among the free ops that members need.
    fn copied_views(&self) -> Vec<Inst> {
        let (mut found, mut seen, mut stack) = (Vec::new(), HashSet::new(), self.members.to_vec());
        while let Some(inst) = stack.pop() {
            let sources = self.function.operands(inst).iter().filter_map(|&v| self.function.defining(v));
            let free: Vec<Inst> = sources.filter(|&i| (self.role)(i) == Some(Role::Free) && seen.insert(i)).collect();
            found.extend(free.iter().copied().filter(|&i| self.function.kind_of(i) == OpKind::Reshape));
            stack.extend(free);
        }
        found
    }

    /// The axes of the space that every reduction reduces.
    fn reduced(&self, space: &[Dim], reductions: &[Inst]) -> Result<Vec<usize>, Rejection> {
        let all: Vec<usize> = (0..space.len()).collect();
        let mut found: Option<Vec<usize>> = None;
        for &inst in reductions {
            let shape = self.function.shape(self.function.operands(inst)[0]);
            let groups =
                regroup(self.solver, space, &all, shape).ok_or_else(|| Rejection::Shapes(space.to_vec(), shape.to_vec()))?;
            let mut axes: Vec<usize> = self.function.axes(inst, "dims").into_iter().flat_map(|d| groups[d].clone()).collect();
            axes.sort_unstable();
            match &found {
                Some(others) if *others != axes => return Err(Rejection::Axes),
                _ => found = Some(axes),
            }
        }
        Ok(found.unwrap_or_default())
    }

    /// What a loop computes a line at a time.
    fn lines(&self, layout: &Layout, members: &HashSet<Inst>, roots: &[Visit]) -> Result<Vec<LineBuffer>, Rejection> {
        if layout.reduces || self.scan()?.is_some() || !self.members.iter().any(|&inst| never_fails(self.function, inst)) {
            return Ok(Vec::new());
        }
        let roots: Vec<(Value, Map)> = roots.iter().map(|(value, map, _)| (*value, map.clone())).collect();
        let inside = |inst: Inst| self.is_inside(members, inst);
        let lines = LineBuffers { function: self.function, solver: self.solver, space: &layout.space, inside: &inside };
        Ok(lines.of(&roots))
    }

    /// Whether a line could be computed by a loop of its own.
    fn walk_line(&self, line: Value, tensors: &mut HashSet<Value>) -> Result<(), Rejection> {
        let shape = self.function.shape(line);
        let space = refine(self.solver, shape, shape).unwrap_or_default();
        let kept: Vec<usize> = (0..space.len()).collect();
        let map = map_of(self.solver, &space, &kept, shape).ok_or(Rejection::Axes)?;
        let layout = Layout { space, reduced: Vec::new(), kept, reduces: false, reordered: Vec::new() };
        self.walk(&layout, (&[], &[HoistLevel::PerRow]), vec![(line, map, Demand::Used)], tensors)
    }

    /// Checks all that is computed for some values, up to the lines among it, and adds what is read from memory; `shares`: how rows may have costly
    /// values in common.
    fn walk(
        &self,
        layout: &Layout,
        (lines, shares): (&[LineBuffer], &[HoistLevel]),
        mut stack: Vec<Visit>,
        tensors: &mut HashSet<Value>,
    ) -> Result<(), Rejection> {
        let space = &layout.space[..];
        let members: HashSet<Inst> = self.members.iter().copied().collect();
        let mut seen: HashSet<Visit> = HashSet::new();
        let mut costs = Costs { shares, ..Costs::default() };
        let scan = self.scan()?;
        while let Some((value, map, share)) = stack.pop() {
            if !seen.insert((value, map.clone(), share)) || lines.iter().any(|line| line.value == value) {
                continue;
            }
            let inst = self.function.defining(value).filter(|&inst| self.is_inside(&members, inst));
            let Some(inst) = inst else {
                if self.lies_apart(layout, &map) {
                    return Err(Rejection::Turned);
                }
                tensors.insert(value);
                if tensors.len() > MOST_TENSORS {
                    return Err(Rejection::Large);
                }
                continue;
            };
            if matches!(self.function.kind_of(inst), OpKind::Reduce | OpKind::Cumulative) {
                if map_of(self.solver, space, &layout.kept, self.function.shape(value)).as_ref() != Some(&map) {
                    return Err(if scan.is_some() { Rejection::OtherPlaces } else { Rejection::OtherRows });
                }
                let operands = self.function.operands(inst);
                stack.extend(operands[operands.len() / 2..].iter().map(|&init| (init, Map::new(), Demand::Used)));
                continue;
            }
            if scan.is_some() && self.is_reordered(inst) {
                return Err(Rejection::Shapes(
                    layout.space.clone(),
                    self.function.shape(self.function.operands(inst)[0]).to_vec(),
                ));
            }
            self.check_cost(layout, inst, &map, share, &mut costs)?;
            self.check_repeat(layout, inst, &map)?;
            if self.picks_turned_rows(layout, inst, &map) {
                return Err(Rejection::Turned);
            }
            let found = reads(self.function, self.solver, space, inst, &map);
            // Of a gather whose elements are picked as they are, every place is looked at.
            let is_picked = self.function.kind_of(inst) == OpKind::Gather && matches!(share, Demand::Picked | Demand::One);
            let checked = if is_picked { &found.operands[1].1 } else { &map };
            if self.function.def(inst).has(Trait::MayFail) && checked.contains(&Follows::Other) && !self.is_place_of_gathers(inst)
            {
                return Err(Rejection::Unchecked);
            }
            self.check_division(&members, inst, &map, &found.operands)?;
            let below = self.share(layout, inst, &map, share);
            for (position, (operand, map)) in found.operands.into_iter().enumerate() {
                stack.push((operand, map, if position < self.tensors(inst) { below } else { share }));
            }
        }
        Ok(())
    }

    /// Whether an op is a gather that cannot fail and that others like it read: each element of these is one of what the first one reads.
    fn is_place_of_gathers(&self, inst: Inst) -> bool {
        let value = self.function.result(inst);
        let mut users = self.members.iter().filter(|&&user| self.function.operands(user).contains(&value));
        never_fails(self.function, inst)
            && users.all(|&user| never_fails(self.function, user) && self.function.operands(user)[1] != value)
    }

    /// Whether a gather and others pick rows that a transpose of the group makes, or that vectors would not lie along.
    fn picks_turned_rows(&self, layout: &Layout, inst: Inst, map: &Map) -> bool {
        let picks = |inst: Inst| picks_rows(self.function, self.solver, inst);
        let operand = |inst: Inst| self.function.operands(inst)[0];
        let alone =
            |inst: Inst| !self.members.iter().any(|&other| other != inst && picks(other) && operand(other) == operand(inst));
        if !picks(inst) || alone(inst) {
            return false;
        }
        let row = self.function.axes(inst, "offset_dims").last().map(|&dim| &map[dim]);
        let is_along = matches!(row, Some(Follows::Axes(axes)) if axes.last().is_some_and(|axis| axis + 1 == layout.space.len()));
        let is_made = self.function.made_by(operand(inst), OpKind::Transpose).is_some_and(|made| self.members.contains(&made));
        is_made || !is_along
    }

    /// Whether neighbours in an op's result are not neighbours in its operand: vectors of a scan lie along memory.
    fn is_reordered(&self, inst: Inst) -> bool {
        match self.function.kind_of(inst) {
            OpKind::Reshape => !only_ones_differ(self.function, self.solver, inst),
            OpKind::Transpose => {
                let from = self.function.axes(inst, "dims");
                from.last().is_some_and(|&last| last + 1 != from.len())
            }
            _ => false,
        }
    }

    /// Whether an op is computed inside: a member, what is free, or another view of what a member computes.
    pub(super) fn is_inside(&self, members: &HashSet<Inst>, inst: Inst) -> bool {
        match (self.role)(inst) {
            _ if members.contains(&inst) => true,
            Some(Role::Free) => true,
            Some(Role::View) => views_member(self.function, members, self.role, inst),
            _ => false,
        }
    }

    /// Costly ops are computed once for each element that they have, or once a row; those that rows share, once for a block of them, or a few once for
    /// each row or task.
    fn check_cost(&self, layout: &Layout, inst: Inst, map: &Map, share: Demand, costs: &mut Costs<'_>) -> Result<(), Rejection> {
        if !costs_something(self.function, inst) {
            return Ok(());
        }
        let again = Err(Rejection::Again(self.function.kind_of(inst).name()));
        let is_picked = map.contains(&Follows::Other);
        if share == Demand::One && is_picked {
            costs.in_common.insert(inst);
            return if costs.in_common.len() <= MOST_SHARED { Ok(()) } else { again };
        }
        if matches!(share, Demand::More | Demand::Picked) && is_picked
            || costs.maps.insert(inst, map.clone()).is_some_and(|before| before != *map)
        {
            return again;
        }
        let one = Dim::constant(1);
        match axes_of(map) {
            Some(axes) if layout.kept.iter().any(|a| !axes.contains(a) && !self.solver.equal(&layout.space[*a], &one)) => {
                let how = hoist_level(self.solver, layout, &axes).filter(|sharing| costs.shares.contains(sharing));
                let Some(how) = how.filter(|_| self.walks_rows(layout)) else { return again };
                let rows = rows_of(self.solver, layout);
                if how != HoistLevel::PerRow {
                    costs.followed.extend(rows.iter().filter(|axis| axes.contains(axis)));
                }
                if how != HoistLevel::PerBlock {
                    costs.in_common.insert(inst);
                } else if self.may_fail(inst) {
                    return again;
                }
                let are_in_common = costs.followed.is_empty() || rows.iter().any(|axis| !costs.followed.contains(axis));
                if are_in_common && costs.in_common.len() <= MOST_SHARED { Ok(()) } else { again }
            }
            _ => Ok(()),
        }
    }

    /// Whether computing an op may fail, down to what is read from memory.
    fn may_fail(&self, inst: Inst) -> bool {
        let members: HashSet<Inst> = self.members.iter().copied().collect();
        may_fail(self.function, inst, &|inst| self.is_inside(&members, inst))
    }

    /// A reshape between dimensions that are not known to be parts of one another would divide the position of each element of what is turned. In
    /// memory it is another view of that instead. (Positions of what lies there as it is are the same in both.)
    fn check_division(&self, members: &HashSet<Inst>, inst: Inst, map: &Map, operands: &[(Value, Map)]) -> Result<(), Rejection> {
        let divides = self.function.kind_of(inst) == OpKind::Reshape
            && !self.repeats(inst)
            && !map.contains(&Follows::Other)
            && operands.iter().any(|(operand, _)| {
                let [from, to] = [*operand, self.function.result(inst)].map(|value| self.function.shape(value));
                self.is_turned(members, *operand) && refine(self.solver, to, from).is_none()
            });
        if divides { Err(Rejection::Divided) } else { Ok(()) }
    }

    /// Whether a value is computed element by element from a transpose that moves neighbours apart.
    fn is_turned(&self, members: &HashSet<Inst>, value: Value) -> bool {
        let (mut stack, mut seen) = (vec![value], HashSet::new());
        while let Some(value) = stack.pop() {
            let inst = self.function.defining(value).filter(|&inst| self.is_inside(members, inst));
            let Some(inst) = inst.filter(|&inst| seen.insert(inst)) else { continue };
            if self.function.kind_of(inst) == OpKind::Transpose && !leaves_neighbours(self.function, inst) {
                return true;
            }
            if self.function.def(inst).has(Trait::Elementwise) {
                stack.extend(self.function.operands(inst));
            }
        }
        false
    }

    /// Whether vectors lie along the last axis: where an operand lies along another one, a loop walks squares of both.
    fn walks_rows(&self, layout: &Layout) -> bool {
        let is_turned = |inst: Inst| self.function.kind_of(inst) == OpKind::Transpose && !leaves_neighbours(self.function, inst);
        layout.reduces || !self.members.iter().any(|&inst| is_turned(inst))
    }

    /// Elements that are repeated one by one are read by vectors along them.
    fn check_repeat(&self, layout: &Layout, inst: Inst, map: &Map) -> Result<(), Rejection> {
        if !self.repeats(inst) {
            return Ok(());
        }
        let are_neighbours = match map.last() {
            Some(Follows::Axes(axes)) => axes.last().is_none_or(|&axis| axis + 1 == layout.space.len()),
            _ => self.members.iter().all(|&member| leaves_neighbours(self.function, member)),
        };
        if are_neighbours { Ok(()) } else { Err(Rejection::Apart) }
    }

    /// Whether rows would read a whole tensor of memory that lies along another dimension than their vectors: a cache line for each element. Written
    /// in their order first, by squares that are turned in registers, it is read in vectors.
    fn lies_apart(&self, layout: &Layout, map: &Map) -> bool {
        let Some(last) = layout.space.len().checked_sub(1).filter(|_| layout.reduces) else { return false };
        let axes = axes_of(map).unwrap_or_default();
        let apart = axes.len() == layout.space.len() && axes.last() != Some(&last);
        let length = Dim::product(layout.reduced.iter().map(|&axis| layout.space[axis].clone()));
        apart && self.solver.range(&length).hi.is_none_or(|most| most > SHORT_ROW)
    }

    /// How much is computed of the operands of an op, so much of which is computed itself: more than it uses are lanes on both sides of a joint,
    /// elements that data name, and those that are repeated one by one; of what a row reads once, one element.
    fn share(&self, layout: &Layout, inst: Inst, map: &Map, share: Demand) -> Demand {
        let of_row = || axes_of(map).is_some_and(|axes| layout.reduces && axes.iter().all(|axis| layout.kept.contains(axis)));
        let is_more = match self.function.kind_of(inst) {
            OpKind::Gather if share == Demand::Used && of_row() => return Demand::One,
            OpKind::Gather if share == Demand::Used => return Demand::Picked,
            OpKind::Reshape => self.repeats(inst),
            OpKind::Concatenate => match &map[self.function.int(inst, "dim") as usize] {
                Follows::Axes(axes) => axes.last().is_some_and(|&axis| axis + 1 == layout.space.len()),
                Follows::Other => true,
            },
            _ => false,
        };
        let is_combined = share == Demand::Picked && self.function.def(inst).has(Trait::Elementwise);
        if is_more && share == Demand::Used || is_combined { Demand::More } else { share }
    }

    /// How many operands of an op hold what it moves.
    fn tensors(&self, inst: Inst) -> usize {
        if self.function.kind_of(inst) == OpKind::Gather { 1 } else { usize::MAX }
    }
}

/// Whether a view is of memory that a member would write: then the group computes through it.
pub(super) fn views_member(
    function: &Function,
    members: &HashSet<Inst>,
    role: &dyn Fn(Inst) -> Option<Role>,
    view: Inst,
) -> bool {
    function.operands(view).iter().filter_map(|&v| function.defining(v)).any(|inst| match role(inst) {
        _ if members.contains(&inst) => true,
        Some(Role::Free | Role::View) => views_member(function, members, role, inst),
        _ => false,
    })
}

/// The layout of a finished group, a function of its own that computes these outputs.
///
/// # Errors
/// Why no schedule of loops or rows computes it.
pub fn layout_of(group: &Function, solver: &Solver, outputs: &[Value]) -> Result<Layout, String> {
    let members = group.insts(group.body);
    let candidate = Candidate { function: group, solver, members, outputs, role: &|_| None };
    let layout = candidate.layout().and_then(|layout| candidate.roots(&layout).map(|_| layout));
    layout.map_err(|why| why.to_string())
}

impl std::fmt::Display for Rejection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Rejection::Shapes(a, b) => write!(f, "{} and {} are not counted alike", shown(a), shown(b)),
            Rejection::Axes => f.write_str("reductions are over different axes"),
            Rejection::OtherRows => f.write_str("a reduction would be read by elements of other rows"),
            Rejection::OtherPlaces => f.write_str("a scan would be read at other places than where it is"),
            Rejection::Scans => f.write_str("a kernel computes one scan, and no reduction besides"),
            Rejection::Again(op) => write!(f, "`{op}` would be computed again for each use"),
            Rejection::Apart => {
                f.write_str("what is repeated one by one would be read element by element: written first, it is read in vectors")
            }
            Rejection::Turned => f.write_str("rows would read elements that lie apart: turned first, they are read in vectors"),
            Rejection::Divided => {
                f.write_str("the position of each element would be divided: in memory, a reshape is another view")
            }
            Rejection::Pieces(size) => write!(f, "rows would be written in pieces of {size} elements that lie apart"),
            Rejection::Unchecked => f.write_str("every index has to be checked, and only some elements are used"),
            Rejection::Waits => f.write_str("products would wait for one another: each is used as soon as it is there"),
            Rejection::Large => f.write_str("the kernel would have too many ops or tensors, or compute ops at too many places"),
        }
    }
}

/// `[B]x768`
pub(super) fn shown(dims: &[Dim]) -> String {
    let size = |dim: &Dim| dim.as_const().map_or_else(|| format!("[{dim}]"), |size| size.to_string());
    if dims.is_empty() { "a scalar".into() } else { dims.iter().map(size).collect::<Vec<_>>().join("x") }
}
