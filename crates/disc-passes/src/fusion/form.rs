//! Decides if a set of ops is one kernel, and of which form; the only place that does.
//!
//! There are three forms. A *pointwise* group computes values of one space, element by
//! element. A *reduction* group has reductions over the same axes of one space; its outputs
//! have all axes of the space or those that are kept. Operands may have any shape: they are
//! computed where they are read, if that repeats no costly work. A *scan* group is a pointwise
//! group over the shape of its one scan.
//!
//! Invariant: the decision depends only on types, facts and the set, not on the order of merging.
use super::{
    duplication::computations,
    hoisting::{HoistLevel, MOST_SHARED, costs_something, hoist_level, may_fail, rows_of},
    layout::Layout,
    legality::{Role, costly, leaves_neighbours, only_ones_differ, role, same_shape},
    line_buffers::{LineBuffer, LineBuffers, never_fails},
    space::{Follows, Map, axes_of, map_of, reads, refine, regroup, repeat_of},
};
use crate::analysis::{
    cost_model::CostModel,
    query::{Query, picks_rows},
};
use disc_ir::{Dim, Function, Inst, OpKind, Solver, Value, ops::Trait};
use std::collections::{HashMap, HashSet};

/// With more ops, live values exceed the register file and kernels compile slowly.
const MOST_OPS: usize = 160;
/// The same bound for ops that are computed at several positions, each counted as often.
const MOST_COMPUTATIONS: usize = 256;
/// The same bound for scans along the last axis, whose code has every op once for each line of a
/// square, and for other scans. Costly ops count [`COSTLY`] times.
const MOST_SCANNED: (usize, usize) = (24, 64);
const COSTLY: usize = 8;

/// The reason that a set of ops is not one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    /// These two shapes have no common iteration space.
    Shapes(Vec<Dim>, Vec<Dim>),
    /// The reductions reduce different axes of one shape.
    Axes,
    /// A reduction would be read by elements of other rows.
    OtherRows,
    /// A scan would be read at another position than its own.
    OtherPlaces,
    /// The set has a second scan, or a reduction beside the scan.
    Scans,
    /// This op would be computed several times.
    Recomputed(&'static str),
    /// Repeated elements would be read one by one instead of in vectors.
    Repeats,
    /// Rows would read strided elements of a transposed tensor.
    Strided,
    /// The position of each element would need a division.
    Division,
    /// Rows would be written in pieces of this many elements.
    ShortPieces(Dim),
    /// Not all indices would be checked.
    Unchecked,
    /// Several matmuls would be live at once.
    LiveProducts,
    /// All of an input would be written, and not the part that is replaced.
    StoredUpdate,
    Large,
}

/// A set of ops and its surroundings.
pub(super) struct Candidate<'a> {
    pub(super) function: &'a Function,
    pub(super) solver: &'a Solver,
    /// The ops in the order of the block.
    pub(super) members: &'a [Inst],
    /// The values that other ops need.
    pub(super) outputs: &'a [Value],
    pub(super) role: &'a dyn Fn(Inst) -> Option<Role>,
}

/// The state of a walk about costly ops.
#[derive(Default)]
struct Costs<'a> {
    /// The levels to which values may be hoisted.
    shares: &'a [HoistLevel],
    /// The position at which each one is computed.
    maps: HashMap<Inst, Map>,
    /// Those that do not depend on all kept axes, except values hoisted per block.
    in_common: HashSet<Inst>,
    /// The row axes that values in tables depend on: rows that differ along other axes share them.
    followed: HashSet<usize>,
}

/// A visited value, its map to the space, and its demand.
type Visit = (Value, Map, Demand);

/// The share of a value that is computed where it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Demand {
    /// The elements that are used.
    Used,
    /// Elements chosen by data, unchanged.
    Picked,
    /// More than is used, or some elements several times.
    More,
    /// One element per row, chosen by data.
    One,
}

impl Candidate<'_> {
    /// Returns the layout of the set as one kernel of the target of a model.
    pub(super) fn form(&self, model: &dyn CostModel) -> Result<Layout, Rejection> {
        if self.members.len() > MOST_OPS {
            return Err(Rejection::Large);
        }
        if self.hides_a_stored_update() {
            return Err(Rejection::StoredUpdate);
        }
        if self.keeps_products_live() {
            return Err(Rejection::LiveProducts);
        }
        let layout = self.layout()?;
        let roots = self.roots(&layout)?;
        let members: HashSet<Inst> = self.members.iter().copied().collect();
        let lines = self.lines(&layout, &members, &roots)?;
        let mut tensors: HashSet<Value> = self.outputs.iter().copied().collect();
        let shares: &[HoistLevel] = match self.scan()? {
            Some(_) => &[],
            // Rows with line buffers are walked in order.
            None if !lines.is_empty() => &[HoistLevel::PerRow, HoistLevel::PerTask],
            None => &[HoistLevel::PerRow, HoistLevel::PerTask, HoistLevel::PerBlock],
        };
        self.walk(&layout, (&lines, shares), roots, &mut tensors, model)?;
        for line in &lines {
            self.walk_line(line.value, &mut tensors, model)?;
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

    /// The scan among the members.
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

    /// The values that the kernel computes at each position: outputs and reduction operands.
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

    /// The space of the reduction operands, or of the outputs, refined until it divides every value
    /// of the set with as many elements.
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
        // In a finished group, reshapes of its values are among the members: they come last here
        // too, so that both give one space.
        let is_view = |&inst: &Inst| matches!(role(self.function, self.solver, inst), Role::Free | Role::View);
        let copied = self.copied_views();
        let (mut views, computed): (Vec<Inst>, Vec<Inst>) = self.members.iter().chain(&copied).copied().partition(is_view);
        views.sort_by_cached_key(|&view| shown(self.function.shape(self.function.result(view))));
        let inside = computed.iter().chain(&views);
        // Positions along repeated elements are divided: finer axes would make short vectors.
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

    /// Returns true if an op repeats single elements.
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

    /// The values that a pointwise group computes a line at a time.
    fn lines(&self, layout: &Layout, members: &HashSet<Inst>, roots: &[Visit]) -> Result<Vec<LineBuffer>, Rejection> {
        if layout.reduces || self.scan()?.is_some() || !self.members.iter().any(|&inst| never_fails(self.function, inst)) {
            return Ok(Vec::new());
        }
        let roots: Vec<(Value, Map)> = roots.iter().map(|(value, map, _)| (*value, map.clone())).collect();
        let inside = |inst: Inst| self.is_inside(members, inst);
        let lines = LineBuffers { function: self.function, solver: self.solver, space: &layout.space, inside: &inside };
        Ok(lines.of(&roots))
    }

    /// Checks that a line could be computed by a loop of its own.
    fn walk_line(&self, line: Value, tensors: &mut HashSet<Value>, model: &dyn CostModel) -> Result<(), Rejection> {
        let shape = self.function.shape(line);
        let space = refine(self.solver, shape, shape).unwrap_or_default();
        let kept: Vec<usize> = (0..space.len()).collect();
        let map = map_of(self.solver, &space, &kept, shape).ok_or(Rejection::Axes)?;
        let layout = Layout { space, reduced: Vec::new(), kept, reduces: false, reordered: Vec::new() };
        self.walk(&layout, (&[], &[HoistLevel::PerRow]), vec![(line, map, Demand::Used)], tensors, model)
    }

    /// Checks the computation of these values, up to line buffers, and collects the tensors that it
    /// reads. `shares` has the levels to which costly values may be hoisted.
    fn walk(
        &self,
        layout: &Layout,
        (lines, shares): (&[LineBuffer], &[HoistLevel]),
        mut stack: Vec<Visit>,
        tensors: &mut HashSet<Value>,
        model: &dyn CostModel,
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
                if self.is_strided(layout, &map, model) {
                    return Err(Rejection::Strided);
                }
                tensors.insert(value);
                if tensors.len() > model.most_tensors() {
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
            if self.picks_transposed_rows(layout, inst, &map) {
                return Err(Rejection::Strided);
            }
            let found = reads(self.function, self.solver, space, inst, &map);
            // A gather that returns its elements unchanged reads every index.
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

    /// Returns true if an op is a gather that cannot fail and that other such gathers read: each of
    /// their elements is one element of its operand.
    fn is_place_of_gathers(&self, inst: Inst) -> bool {
        let value = self.function.result(inst);
        let mut users = self.members.iter().filter(|&&user| self.function.operands(user).contains(&value));
        never_fails(self.function, inst)
            && users.all(|&user| never_fails(self.function, user) && self.function.operands(user)[1] != value)
    }

    /// Returns true if a gather and others pick rows of a transpose in the group, or rows that
    /// vectors would not be loaded from.
    fn picks_transposed_rows(&self, layout: &Layout, inst: Inst, map: &Map) -> bool {
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

    /// Returns true if neighbours in an op's result are not neighbours in its operand: a scan loads
    /// vectors from memory.
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

    /// Returns true if an op is computed inside: a member, a free op, or a view of a member's
    /// result.
    pub(super) fn is_inside(&self, members: &HashSet<Inst>, inst: Inst) -> bool {
        match (self.role)(inst) {
            _ if members.contains(&inst) => true,
            Some(Role::Free) => true,
            Some(Role::View) => views_member(self.function, members, self.role, inst),
            _ => false,
        }
    }

    /// Checks that costly ops are computed once for each of their elements or once per row; values
    /// that rows share once per block of rows, and a few once per row or task.
    fn check_cost(&self, layout: &Layout, inst: Inst, map: &Map, share: Demand, costs: &mut Costs<'_>) -> Result<(), Rejection> {
        if !costs_something(self.function, inst) {
            return Ok(());
        }
        let again = Err(Rejection::Recomputed(self.function.kind_of(inst).name()));
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

    /// Returns true if computing an op, down to loads from memory, may fail.
    fn may_fail(&self, inst: Inst) -> bool {
        let members: HashSet<Inst> = self.members.iter().copied().collect();
        may_fail(self.function, inst, &|inst| self.is_inside(&members, inst))
    }

    /// Rejects reshapes of transposed values between dimensions that are not known to divide one
    /// another: the position of each element would need a division, while in memory the reshape is
    /// a view. (Values in their original order have the same positions in both shapes.)
    fn check_division(&self, members: &HashSet<Inst>, inst: Inst, map: &Map, operands: &[(Value, Map)]) -> Result<(), Rejection> {
        let divides = self.function.kind_of(inst) == OpKind::Reshape
            && !self.repeats(inst)
            && !map.contains(&Follows::Other)
            && operands.iter().any(|(operand, _)| {
                let [from, to] = [*operand, self.function.result(inst)].map(|value| self.function.shape(value));
                self.is_transposed(members, *operand) && refine(self.solver, to, from).is_none()
            });
        if divides { Err(Rejection::Division) } else { Ok(()) }
    }

    /// Returns true if a value is elementwise computed from a transpose that separates neighbours.
    fn is_transposed(&self, members: &HashSet<Inst>, value: Value) -> bool {
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

    /// Returns true if vectors run along the last axis; a pointwise kernel transposes tiles of
    /// operands stored along another one.
    fn walks_rows(&self, layout: &Layout) -> bool {
        let is_transposed =
            |inst: Inst| self.function.kind_of(inst) == OpKind::Transpose && !leaves_neighbours(self.function, inst);
        layout.reduces || !self.members.iter().any(|&inst| is_transposed(inst))
    }

    /// Checks that repeated elements are read by vectors along them.
    fn check_repeat(&self, layout: &Layout, inst: Inst, map: &Map) -> Result<(), Rejection> {
        if !self.repeats(inst) {
            return Ok(());
        }
        let are_neighbours = match map.last() {
            Some(Follows::Axes(axes)) => axes.last().is_none_or(|&axis| axis + 1 == layout.space.len()),
            _ => self.members.iter().all(|&member| leaves_neighbours(self.function, member)),
        };
        if are_neighbours { Ok(()) } else { Err(Rejection::Repeats) }
    }

    /// Returns true if rows would read a whole tensor in memory that is contiguous along another
    /// dimension than their vectors, a cache line for each element. A kernel that transposes it in
    /// registers first lets rows read vectors.
    fn is_strided(&self, layout: &Layout, map: &Map, model: &dyn CostModel) -> bool {
        let Some(last) = layout.space.len().checked_sub(1).filter(|_| layout.reduces) else { return false };
        let axes = axes_of(map).unwrap_or_default();
        let apart = axes.len() == layout.space.len() && axes.last() != Some(&last);
        let length = Dim::product(layout.reduced.iter().map(|&axis| layout.space[axis].clone()));
        apart && self.solver.range(&length).hi.is_none_or(|most| most > model.short_row())
    }

    /// The demand for the operands of an op with this demand. Concatenations along vectors, gathers
    /// and repeated elements need more than is used; a value read once per row needs one element.
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

    /// The number of operands that hold the moved data of an op.
    fn tensors(&self, inst: Inst) -> usize {
        if self.function.kind_of(inst) == OpKind::Gather { 1 } else { usize::MAX }
    }
}

/// Returns true if a view is of memory that a member would write: the group then computes through
/// it.
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

/// Returns the layout of a finished group that computes these outputs, given as a function of its
/// own.
///
/// # Errors
/// The reason that no schedule of pointwise ops or reductions computes it.
pub(super) fn layout_of(group: &Function, solver: &Solver, outputs: &[Value]) -> Result<Layout, String> {
    let members = group.insts(group.body);
    let candidate = Candidate { function: group, solver, members, outputs, role: &|_| None };
    let layout = candidate.layout().and_then(|layout| candidate.roots(&layout).map(|_| layout));
    layout.map_err(|why| why.to_string())
}

impl std::fmt::Display for Rejection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Rejection::Shapes(a, b) => write!(f, "{} and {} have no common iteration space", shown(a), shown(b)),
            Rejection::Axes => f.write_str("reductions are over different axes"),
            Rejection::OtherRows => f.write_str("a reduction would be read by elements of other rows"),
            Rejection::OtherPlaces => f.write_str("a scan would be read at other positions than its own"),
            Rejection::Scans => f.write_str("a kernel computes one scan and no reduction beside it"),
            Rejection::Recomputed(op) => write!(f, "`{op}` would be recomputed for each use"),
            Rejection::Repeats => {
                f.write_str("repeated elements would be read one by one: stored first, they are loaded as vectors")
            }
            Rejection::Strided => f.write_str("rows would read strided elements: transposed in memory first, they load vectors"),
            Rejection::Division => {
                f.write_str("the position of each element would need a division: in memory, the reshape is a view")
            }
            Rejection::ShortPieces(size) => write!(f, "rows would be written in strided pieces of {size} elements"),
            Rejection::Unchecked => f.write_str("every index has to be checked, and only some elements are used"),
            Rejection::StoredUpdate => {
                f.write_str("a part of an input is replaced: by itself, no more than that part is written")
            }
            Rejection::LiveProducts => f.write_str("several matmuls would be live at once: apart, each is consumed right away"),
            Rejection::Large => {
                f.write_str("the kernel would have too many ops or tensors, or compute ops at too many positions")
            }
        }
    }
}

/// `[B]x768`
pub(super) fn shown(dims: &[Dim]) -> String {
    let size = |dim: &Dim| dim.as_const().map_or_else(|| format!("[{dim}]"), |size| size.to_string());
    if dims.is_empty() { "a scalar".into() } else { dims.iter().map(size).collect::<Vec<_>>().join("x") }
}
