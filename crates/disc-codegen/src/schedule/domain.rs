//! The index space that a kernel walks, and which of its neighbouring dimensions can be walked as one.
//!
//! Two neighbouring dimensions can be merged when every access of the group touches them as one contiguous dimension: then fewer, longer
//! loops do, down to a single one for purely element-wise groups. This asks the structure of the group, so it holds for all sizes.
use crate::{build::KernelBuilder, element::Elements, index::Index};
use disc_ir::{Dim, Function, Inst, OpKind, Solver, TensorType, Value};
use disc_passes::fusion::space::{Follows, Map, map_of, reads};
use disc_passes::query::Query;
use std::collections::HashSet;

/// Which pairs (`i`, `i + 1`) of the dimensions of `roots`, values of one shape, can be merged.
pub(super) fn mergeable(group: &Function, solver: &Solver, roots: &[Value]) -> Vec<bool> {
    let Some(tensor) = roots.first().and_then(|&r| group.ty(r).shaped()) else { return Vec::new() };
    let identity: Map = (0..tensor.rank()).map(|d| Follows::Axes(vec![d])).collect();
    let roots: Vec<(Value, Map)> = roots.iter().map(|&root| (root, identity.clone())).collect();
    mergeable_in(group, solver, &tensor.dims, &roots, false)
}

/// Which pairs of the dimensions of a space can be merged, the roots following it by these maps. `seeded`: reductions are known where they
/// are read.
pub(super) fn mergeable_in(group: &Function, solver: &Solver, space: &[Dim], roots: &[(Value, Map)], seeded: bool) -> Vec<bool> {
    let pairs = vec![true; space.len().saturating_sub(1)];
    let mut walk = Walk { group, solver, space, pairs, seen: HashSet::new(), seeded };
    for (root, map) in roots {
        walk.visit(*root, map);
    }
    walk.pairs
}

struct Walk<'g> {
    group: &'g Function,
    solver: &'g Solver,
    space: &'g [Dim],
    pairs: Vec<bool>,
    seen: HashSet<(Value, Map)>,
    seeded: bool,
}

impl Walk<'_> {
    fn visit(&mut self, value: Value, map: &Map) {
        if !self.seen.insert((value, map.clone())) {
            return;
        }
        self.separate(map);
        let Some(inst) = self.group.defining(value) else { return };
        if self.seeded && self.group.kind_of(inst) == OpKind::Reduce {
            return;
        }
        if self.group.kind_of(inst) == OpKind::Patches {
            return self.part_windows(inst, map);
        }
        let found = reads(self.group, self.solver, self.space, inst, map);
        let mut apart = Vec::new();
        for dim in found.looked_at {
            if let Follows::Axes(axes) = &map[dim] {
                self.forbid(axes);
                // A reshape takes a joined position apart again, and what is behind it may walk the parts in any order.
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

    /// A pair stays mergeable only if this value has both, side by side and in order, or neither.
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

    /// Keeps apart the dimensions of patches that are not computed as one: the rule for elements takes what is too much along the dimensions of
    /// a window, or along those that count windows, for the dimension before.
    fn part_windows(&mut self, inst: Inst, map: &Map) {
        let rank = |value: Value| self.group.ty(value).shaped().map_or(0, TensorType::rank);
        let operand = rank(self.group.operands(inst)[0]);
        let windows = map.len() - operand;
        let others = operand - windows;
        let apart = |i: usize| i < others || i == others + windows;
        // The last dimension that follows the space: those of size 1 after it follow nothing.
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

    /// Keeps the dimensions around these apart from them.
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

/// A run of merged dimensions: its size, and the dimension that carries the position. The others of the run stay at 0.
#[derive(Clone, Debug)]
pub(super) struct Merged {
    pub(super) size: Dim,
    pub(super) axis: usize,
}

impl Merged {
    /// Every dimension of a shape by itself.
    pub(super) fn each(shape: &[Dim]) -> Vec<Self> {
        shape.iter().enumerate().map(|(axis, size)| Self { size: size.clone(), axis }).collect()
    }
}

pub(super) fn merge(domain: &[Dim], pairs: &[bool]) -> Vec<Merged> {
    let mut runs: Vec<Merged> = Vec::new();
    for (axis, size) in domain.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if pairs[axis - 1] => *run = Merged { size: &run.size * size, axis },
            _ => runs.push(Merged { size: size.clone(), axis }),
        }
    }
    runs
}

/// The map of an output: all axes of the space, or those that are kept.
pub(super) fn output_map(solver: &Solver, space: &[Dim], kept: &[usize], tensor: &TensorType) -> Option<Map> {
    let all: Vec<usize> = (0..space.len()).collect();
    map_of(solver, space, &all, &tensor.dims).or_else(|| map_of(solver, space, kept, &tensor.dims))
}

/// A gather whose index vectors depend on outer dimensions of a space alone, and the space's axes of its batch dimensions.
pub(super) type OuterGather = (Inst, Vec<Vec<usize>>);

/// The gathers that take one slice for each position along `outer`: its place can be read before the inner loops.
pub(super) fn outer_gathers(
    group: &Function,
    solver: &Solver,
    space: &[Dim],
    roots: &[(Value, Map)],
    outer: &[usize],
) -> Vec<OuterGather> {
    let (mut stack, mut seen) = (roots.to_vec(), HashSet::new());
    let mut found: Vec<OuterGather> = Vec::new();
    while let Some((value, map)) = stack.pop() {
        if !seen.insert((value, map.clone())) {
            continue;
        }
        let Some(inst) = group.defining(value) else { continue };
        if group.kind_of(inst) == OpKind::Gather {
            let offset = group.ints(inst, "offset_dims");
            let batch = map.iter().zip(0..).filter(|(_, d)| !offset.contains(d)).map(|(follows, _)| match follows {
                Follows::Axes(axes) if axes.iter().all(|axis| outer.contains(axis)) => Some(axes.clone()),
                _ => None,
            });
            found.extend(batch.collect::<Option<Vec<_>>>().map(|batch| (inst, batch)));
        }
        // What a row reads of a reduction is known.
        if group.kind_of(inst) != OpKind::Reduce {
            stack.extend(reads(group, solver, space, inst, &map).operands);
        }
    }
    found
}

/// Reads the places that gathers take slices from, at a position along the outer dimensions.
pub(super) fn read_places(
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
