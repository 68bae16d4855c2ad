//! Builds the index space that a kernel walks, and merges neighbouring dimensions that can be
//! walked as one.
//!
//! Two neighbouring dimensions can be merged when every access of the group touches them as one
//! contiguous dimension: then fewer, longer loops suffice, down to a single one for purely
//! element-wise groups. The decision depends on the structure of the group, so it holds for all
//! sizes.
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder, OpenFor, OpenWhile},
    schedule::Group,
};
use disc_ir::{Dim, Function, Inst, OpKind, Solver, TensorType, Value};
use disc_kernel_macros::expr;
use disc_passes::analysis::query::Query;
use disc_passes::fusion::{
    line_buffers::LineBuffer,
    space::{Follows, Map, map_along, map_of, reads, refine, regroup, repeat_of},
};
use std::collections::HashSet;

/// Finds the pairs (`i`, `i + 1`) of the dimensions of `roots`, values of one shape, that can be
/// merged.
pub(in crate::schedule) fn mergeable(group: &Function, solver: &Solver, roots: &[Value]) -> Vec<bool> {
    let Some(tensor) = roots.first().and_then(|&r| group.ty(r).shaped()) else { return Vec::new() };
    let identity: Map = (0..tensor.rank()).map(|d| Follows::Axes(vec![d])).collect();
    let roots: Vec<(Value, Map)> = roots.iter().map(|&root| (root, identity.clone())).collect();
    mergeable_in(group, solver, &tensor.dims, &roots, &|_, _| false)
}

/// Finds the pairs of the dimensions of a space that can be merged, the roots following it by these
/// maps. Values that are known at their use are not visited.
pub(in crate::schedule) fn mergeable_in(
    group: &Function,
    solver: &Solver,
    space: &[Dim],
    roots: &[(Value, Map)],
    is_known: &dyn Fn(Value, &Map) -> bool,
) -> Vec<bool> {
    let pairs = vec![true; space.len().saturating_sub(1)];
    let mut walk = Walk { group, solver, space, pairs, seen: HashSet::new(), is_known };
    for (root, map) in roots {
        walk.visit(*root, map);
    }
    walk.pairs
}

/// Returns true if a value is a reduction or a running combination: those are known at their use.
pub(in crate::schedule) fn is_combined(group: &Function, value: Value) -> bool {
    group.defining(value).is_some_and(|inst| matches!(group.kind_of(inst), OpKind::Reduce | OpKind::Cumulative))
}

struct Walk<'g> {
    group: &'g Function,
    solver: &'g Solver,
    space: &'g [Dim],
    pairs: Vec<bool>,
    seen: HashSet<(Value, Map)>,
    is_known: &'g dyn Fn(Value, &Map) -> bool,
}

impl Walk<'_> {
    fn visit(&mut self, value: Value, map: &Map) {
        if !self.seen.insert((value, map.clone())) {
            return;
        }
        self.separate(map);
        let Some(inst) = self.group.defining(value) else { return };
        if (self.is_known)(value, map) {
            return;
        }
        if self.group.kind_of(inst) == OpKind::Im2col {
            return self.part_windows(inst, map);
        }
        let found = reads(self.group, self.solver, self.space, inst, map);
        let mut apart = Vec::new();
        for dim in found.looked_at {
            if let Follows::Axes(axes) = &map[dim] {
                self.forbid(axes);
                // A reshape takes a joined position apart again, and ops after it may walk the
                // parts in any order.
                if self.group.kind_of(inst) == OpKind::Reshape {
                    axes.iter().filter(|&&axis| axis < self.pairs.len()).for_each(|&axis| apart.push(axis));
                }
            }
        }
        for axis in apart {
            self.pairs[axis] = false;
        }
        for (operand, map) in &found.operands {
            self.visit(*operand, map);
        }
    }

    /// Keeps a pair mergeable only if this value has both, adjacent and in order, or neither.
    fn separate(&mut self, map: &Map) {
        let mut sequence: Vec<Option<usize>> = Vec::new();
        for follows in map {
            match follows {
                Follows::Axes(axes) => sequence.extend(axes.iter().map(|&axis| Some(axis))),
                Follows::Other => sequence.push(None),
            }
        }
        for pair in 0..self.pairs.len() {
            let position = |d| sequence.iter().position(|&axis| axis == Some(d));
            self.pairs[pair] &= match (position(pair), position(pair + 1)) {
                (Some(i), Some(j)) => i + 1 == j,
                (None, None) => true,
                _ => false,
            };
        }
    }

    /// Separates the dimensions of patches that are not computed as one: the rule for elements
    /// carries the excess along the dimensions of a window, or along those that count windows, to
    /// the dimension before.
    fn part_windows(&mut self, inst: Inst, map: &Map) {
        let rank = |value: Value| self.group.ty(value).shaped().map_or(0, TensorType::rank);
        let operand = rank(self.group.operands(inst)[0]);
        let windows = map.len() - operand;
        let others = operand - windows;
        let apart = |i: usize| i < others || i == others + windows;
        // This is the last dimension that follows the space: those of size 1 after it follow none.
        let mut before: Option<(usize, usize)> = None;
        for (i, follows) in map.iter().enumerate() {
            let Follows::Axes(axes) = follows else { continue };
            let (Some(&first), Some(&last)) = (axes.first(), axes.last()) else { continue };
            if let Some((place, outer)) = before
                && outer + 1 == first
                && (place + 1..=i).any(apart)
            {
                self.pairs[outer] = false;
            }
            before = Some((i, last));
        }
    }

    /// Keeps the dimensions around these separate from them.
    fn forbid(&mut self, axes: &[usize]) {
        let (Some(&first), Some(&last)) = (axes.first(), axes.last()) else { return };
        if first > 0 {
            self.pairs[first - 1] = false;
        }
        if last < self.pairs.len() {
            self.pairs[last] = false;
        }
    }
}

/// A run of merged dimensions: its size, and the dimension that carries the position. The others of
/// the run stay at 0.
#[derive(Clone, Debug)]
pub(in crate::schedule) struct Merged {
    pub(in crate::schedule) size: Dim,
    pub(in crate::schedule) axis: usize,
}

impl Merged {
    /// Every dimension of a shape by itself.
    pub(in crate::schedule) fn each(shape: &[Dim]) -> Vec<Self> {
        shape.iter().enumerate().map(|(axis, size)| Self { size: size.clone(), axis }).collect()
    }
}

pub(in crate::schedule) fn merge(domain: &[Dim], pairs: &[bool]) -> Vec<Merged> {
    let mut runs: Vec<Merged> = Vec::new();
    for (axis, size) in domain.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if pairs[axis - 1] => *run = Merged { size: &run.size * size, axis },
            _ => runs.push(Merged { size: size.clone(), axis }),
        }
    }
    runs
}

/// The positions along some runs of element `number` of their product.
pub(in crate::schedule) fn positions_of(kb: &mut KernelBuilder, number: Value, runs: &[Merged]) -> Vec<Value> {
    let mut rest = number;
    let mut found = Vec::with_capacity(runs.len());
    for (i, run) in runs.iter().enumerate().rev() {
        let size = kb.dim(&run.size);
        found.push(if i == 0 { rest } else { expr!(kb, rest % size) });
        rest = expr!(kb, rest / size);
    }
    found.reverse();
    found
}

/// A last run that is known to be shorter is counted along with the others: a loop of its own would
/// cost more than it saves.
const SHORT_RUN: i64 = 8;

/// Loops over numbers of units that count their positions along some runs: found by division once,
/// then incremented. The last run has a loop of its own, in which values that depend on the others
/// are invariant, and those that follow the last one grow by constants.
pub(in crate::schedule) struct CountedUnits {
    /// The loop around that of the last run, and the number of units that one does.
    around: Option<(OpenWhile, Value)>,
    open: OpenFor,
    pub(in crate::schedule) positions: Vec<Value>,
}

impl CountedUnits {
    pub(in crate::schedule) fn open(kb: &mut KernelBuilder, range: [Value; 2], runs: &[Merged]) -> Self {
        let short = runs.last().is_some_and(|last| last.size.as_const().is_some_and(|size| size < SHORT_RUN));
        Self::open_in(kb, range, runs, short, &mut |_, _| ())
    }

    /// Opens loops for several runs, the last one with a loop of its own; `enter` writes the code
    /// before it, for a position along the others.
    pub(in crate::schedule) fn open_entering(
        kb: &mut KernelBuilder,
        range: [Value; 2],
        runs: &[Merged],
        enter: &mut dyn FnMut(&mut KernelBuilder, &[Value]),
    ) -> Self {
        debug_assert!(runs.len() > 1, "there is a loop around that of the last run");
        Self::open_in(kb, range, runs, false, enter)
    }

    /// Opens the same loops; if `short`, the last run is counted along with the others.
    fn open_in(
        kb: &mut KernelBuilder,
        [begin, end]: [Value; 2],
        runs: &[Merged],
        short: bool,
        enter: &mut dyn FnMut(&mut KernelBuilder, &[Value]),
    ) -> Self {
        let one = kb.int(1);
        let Some(last) = runs.last().filter(|_| runs.len() > 1) else {
            let open = kb.open_for([begin, end, one]);
            return Self { around: None, positions: vec![open.index; runs.len()], open };
        };
        let first = positions_of(kb, begin, runs);
        if short {
            let open = kb.open_for_carrying([begin, end, one], &first);
            return Self { around: None, positions: open.carried.clone(), open };
        }
        let inits = [&[begin][..], &first].concat();
        let around = kb.open_while(&inits, |kb, carried| expr!(kb, carried[0] < end));
        let (unit, mut positions) = (around.carried[0], around.carried[1..].to_vec());
        let from = positions.pop().expect("there are several runs");
        let size = kb.dim(&last.size);
        let count = expr!(kb, min(end - unit, size - from));
        let stop = expr!(kb, from + count);
        enter(kb, &positions);
        let open = kb.open_for([from, stop, one]);
        positions.push(open.index);
        Self { around: Some((around, count)), open, positions }
    }

    pub(in crate::schedule) fn close(mut self, kb: &mut KernelBuilder, runs: &[Merged]) {
        self.open.next = next_positions(kb, &self.open.carried, runs);
        kb.close_for(self.open);
        let Some((mut around, count)) = self.around else { return };
        let (outer, zero) = (runs.len() - 1, kb.int(0));
        around.next = vec![expr!(kb, around.carried[0] + count)];
        around.next.extend(next_positions(kb, &around.carried[1..=outer], &runs[..outer]));
        around.next.push(zero);
        kb.close_while(around);
    }
}

/// Emits `body` for the units from `begin` to below `end`, with their positions along some runs.
pub(in crate::schedule) fn each_unit(
    kb: &mut KernelBuilder,
    range: [Value; 2],
    runs: &[Merged],
    body: impl FnOnce(&mut KernelBuilder, &[Value]),
) {
    let units = CountedUnits::open(kb, range, runs);
    body(kb, &units.positions);
    units.close(kb, runs);
}

/// The same for units each of which is some positions of the last run, so that there may be one or
/// two along it.
pub(in crate::schedule) fn each_tile(
    kb: &mut KernelBuilder,
    range: [Value; 2],
    runs: &[Merged],
    body: impl FnOnce(&mut KernelBuilder, &[Value]),
) {
    let units = CountedUnits::open_in(kb, range, runs, true, &mut |_, _| ());
    body(kb, &units.positions);
    units.close(kb, runs);
}

/// The positions after these, in row-major order.
fn next_positions(kb: &mut KernelBuilder, positions: &[Value], runs: &[Merged]) -> Vec<Value> {
    let (zero, one) = (kb.int(0), kb.int(1));
    let mut moves: Option<Value> = None;
    let mut next = positions.to_vec();
    for (i, &position) in positions.iter().enumerate().rev() {
        let size = kb.dim(&runs[i].size);
        let further = expr!(kb, position + one);
        let further = moves.map_or(further, |moves| kb.select(moves, further, position));
        if i == 0 {
            next[i] = further;
            continue;
        }
        let full = expr!(kb, further == size);
        next[i] = kb.select(full, zero, further);
        moves = Some(full);
    }
    next
}

/// The map of an output: all axes of the space, or those that are kept.
pub(in crate::schedule) fn output_map(solver: &Solver, space: &[Dim], kept: &[usize], tensor: &TensorType) -> Option<Map> {
    let all: Vec<usize> = (0..space.len()).collect();
    map_of(solver, space, &all, &tensor.dims).or_else(|| map_of(solver, space, kept, &tensor.dims))
}

/// The values that `ends` accepts on the way from the outputs of a group to its inputs, and the
/// inputs that are reached otherwise, with how their dimensions follow the space; a value that is
/// read in several ways occurs several times.
pub(in crate::schedule) fn mapped_values(
    group: &Function,
    solver: &Solver,
    space: &[Dim],
    roots: &[(Value, Map)],
    ends: &dyn Fn(Value, &Map) -> bool,
) -> Vec<(Value, Map)> {
    let (mut stack, mut seen, mut found) = (roots.to_vec(), HashSet::new(), Vec::new());
    while let Some((value, map)) = stack.pop() {
        if !seen.insert((value, map.clone())) {
            continue;
        }
        match group.defining(value) {
            Some(inst) if !ends(value, &map) => stack.extend(reads(group, solver, space, inst, &map).operands),
            _ => found.push((value, map)),
        }
    }
    found
}

/// Concatenations of more operands than this decide lane by lane, unless loops for all of them are
/// no more than this many ops.
const MOST_SEGMENTS: usize = 6;
const MOST_OPS: usize = 256;

/// The ends of the operands of a concatenation along an axis of the space, except the last one: of
/// the first that a group has, if there are loops for them all.
pub(in crate::schedule) fn joints(
    group: &Function,
    solver: &Solver,
    space: &[Dim],
    roots: &[(Value, Map)],
    axis: usize,
) -> Vec<Dim> {
    let (mut stack, mut seen) = (roots.to_vec(), HashSet::new());
    while let Some((value, map)) = stack.pop() {
        let Some(inst) = group.defining(value).filter(|_| seen.insert((value, map.clone()))) else { continue };
        if group.kind_of(inst) == OpKind::Concatenate && map[group.int(inst, "dim") as usize] == Follows::Axes(vec![axis]) {
            let dim = group.int(inst, "dim") as usize;
            let (_, operands) = group.operands(inst).split_last().expect("a concatenation has operands");
            let mut end = Dim::constant(0);
            let ends = operands.iter().map(|&operand| {
                end = &end + &group.ty(operand).shaped().expect("a tensor").dims[dim];
                end.clone()
            });
            let pays = operands.len() < MOST_SEGMENTS || operands.len() * group.insts(group.body).len() <= MOST_OPS;
            return if pays { ends.collect() } else { Vec::new() };
        }
        stack.extend(reads(group, solver, space, inst, &map).operands);
    }
    Vec::new()
}

/// A gather whose index vectors depend only on outer dimensions of a space, and the space's axes of
/// its batch dimensions.
pub(in crate::schedule) type OuterGather = (Inst, Vec<Vec<usize>>);

/// The gathers that take one slice for each position along `outer`: its start can be read before
/// the inner loops. The operands of line buffers are not visited.
pub(in crate::schedule) fn outer_gathers(
    group: &Function,
    solver: &Solver,
    space: &[Dim],
    roots: &[(Value, Map)],
    lines: &[LineBuffer],
    outer: &[usize],
) -> Vec<OuterGather> {
    let (mut stack, mut seen) = (roots.to_vec(), HashSet::new());
    let mut found: Vec<OuterGather> = Vec::new();
    while let Some((value, map)) = stack.pop() {
        if !seen.insert((value, map.clone())) {
            continue;
        }
        let Some(inst) = group.defining(value).filter(|_| lines.iter().all(|line| line.value != value)) else { continue };
        if group.kind_of(inst) == OpKind::Gather {
            let offset = group.ints(inst, "offset_dims");
            let batch = map.iter().zip(0..).filter(|(_, d)| !offset.contains(d)).map(|(follows, _)| match follows {
                Follows::Axes(axes) if axes.iter().all(|axis| outer.contains(axis)) => Some(axes.clone()),
                _ => None,
            });
            found.extend(batch.collect::<Option<Vec<_>>>().map(|batch| (inst, batch)));
        }
        // The reductions that a row reads are known.
        if group.kind_of(inst) != OpKind::Reduce {
            stack.extend(reads(group, solver, space, inst, &map).operands);
        }
    }
    found
}

/// Reads the starts of the slices that gathers take, at a position along the outer dimensions.
pub(in crate::schedule) fn read_places(
    kb: &mut KernelBuilder,
    elements: &mut Elements<'_>,
    space: &[Dim],
    gathers: &[OuterGather],
    at: &[Index],
) {
    for (inst, batch) in gathers {
        let place = elements.position(kb, space, batch, at);
        elements.slice_starts(kb, *inst, &place);
    }
}

/// Sets the positions along the outer dimensions of unit number `unit`.
pub(in crate::schedule) fn place_unit(kb: &mut KernelBuilder, unit: Value, outer: &[Merged], at: &mut [Index]) {
    let positions = positions_of(kb, unit, outer);
    outer.iter().zip(positions).for_each(|(run, position)| at[run.axis] = Index::uniform(position));
}

/// The space of a group's outputs.
pub(in crate::schedule) struct OutputSpace {
    pub(in crate::schedule) space: Vec<Dim>,
    /// The axes of the space that each dimension of each output stands for.
    pub(in crate::schedule) shapes: Vec<Vec<Vec<usize>>>,
    /// The outputs, with how their dimensions follow the space.
    pub(in crate::schedule) roots: Vec<(Value, Map)>,
}

impl OutputSpace {
    /// Returns the space of the outputs.
    ///
    /// # Panics
    /// If they have none in common: see [`space_of`].
    pub(in crate::schedule) fn of(group: &Group<'_>) -> Self {
        let outputs = group.outputs();
        let space = space_of(group, &outputs).expect("the outputs have one space");
        let all: Vec<usize> = (0..space.len()).collect();
        let grouped = |&output: &Value| {
            regroup(&group.solver, &space, &all, &group.tensor(output).dims).expect("a space is fine enough for its shapes")
        };
        let shapes: Vec<Vec<Vec<usize>>> = outputs.iter().map(grouped).collect();
        let roots = outputs.into_iter().zip(shapes.iter().map(|shape| map_along(shape))).collect();
        Self { space, shapes, roots }
    }

    /// Returns the runs of dimensions that are walked as one.
    pub(in crate::schedule) fn runs(&self, group: &Group<'_>) -> Vec<Merged> {
        merge(&self.space, &mergeable_in(group.function, &group.solver, &self.space, &self.roots, &|_, _| false))
    }
}

/// The space of outputs that have one: as many elements, counted alike; fine enough for the group's
/// reshapes, if that is possible.
pub(crate) fn space_of(group: &Group<'_>, outputs: &[Value]) -> Option<Vec<Dim>> {
    let (&first, others) = outputs.split_first()?;
    let dims = |value: Value| &group.tensor(value).dims[..];
    let mut space = refine(&group.solver, dims(first), dims(first))?;
    for &output in others {
        space = refine(&group.solver, &space, dims(output))?;
    }
    let reshapes = group.function.insts(group.function.body).iter().filter(|&&i| group.function.kind_of(i) == OpKind::Reshape);
    for &reshape in reshapes {
        // Positions along elements that are repeated one by one are divided.
        let is_divided = repeat_of(group.function, &group.solver, reshape).is_some();
        let source = (!is_divided).then(|| group.function.operands(reshape)[0]);
        for value in [Some(group.function.result(reshape)), source].into_iter().flatten() {
            if let Some(finer) = refine(&group.solver, &space, dims(value)) {
                space = finer;
            }
        }
    }
    Some(space)
}
