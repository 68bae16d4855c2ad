//! Plans the reduction schedule of a group before code is written: phases, runs, the direction of
//! vectors, kept values.
use crate::{
    kernel::{
        cost,
        monoid::{Monoid, monoid_of},
    },
    schedule::{
        Group,
        common::{
            hoisting::{Hoisted, hoisted, is_kept},
            iteration_space::{Merged, OuterGather, is_combined, joints, merge, mergeable_in, outer_gathers, output_map},
        },
    },
    target::CpuModel,
};
use disc_ir::{Block, Dim, Function, Inst, OpKind, Solver, TensorType, Value};
use disc_passes::analysis::query::Query;
use disc_passes::fusion::{
    Layout, ReductionPlan,
    hoisting::{HoistLevel, block_axes, hoist_level, may_fail},
    reduction_phases::Phases,
    space::{Follows, Map, axes_of, map_along, map_of, reads},
};
use std::collections::{HashMap, HashSet};

/// The quarter nanoseconds of a vector above which a value is kept rather than computed again.
const KEEP_COST: i64 = 12;

/// So few adjacent rows leave most lanes empty.
pub(in crate::schedule) const NARROW: i64 = 16;

/// The decisions of the schedule about a group.
pub struct ReductionSchedule {
    pub layout: Layout,
    /// The shape of the operand of the first reduction.
    pub domain: Vec<Dim>,
    /// The number of its leading dimensions that are kept, if the others are reduced; otherwise 0.
    pub rows: usize,
    pub(in crate::schedule) reductions: Vec<Reduction>,
    phases: Phases,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::schedule) struct Reduction {
    pub(in crate::schedule) inst: Inst,
    pub(in crate::schedule) phase: usize,
    pub(in crate::schedule) combine: Combine,
}

/// The way that a reduction combines two values.
#[derive(Clone, Copy, Debug)]
pub(in crate::schedule) enum Combine {
    Plain(Monoid),
    /// By a body, in the order of the elements.
    Body(Block),
}

/// A value with the dimensions of the space that each of its own stands for.
#[derive(Clone, Debug)]
pub(in crate::schedule) struct Placed {
    pub(in crate::schedule) value: Value,
    pub(in crate::schedule) shape: Vec<Vec<usize>>,
}

/// The dimension that the lanes of a vector are along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::schedule) enum Along {
    /// The last reduced one: a row is a few vectors, whose lanes are combined at the end.
    Reduced,
    /// The last kept one: each lane is a row of its own.
    Kept,
}

impl ReductionSchedule {
    /// Plans a group that a schedule made itself.
    ///
    /// # Errors
    /// The reason that it is no reduction group.
    pub fn of(group: &Function, solver: &Solver, outputs: &[Value]) -> Result<ReductionSchedule, String> {
        ReductionPlan::of(group, solver, outputs).map(|decided| Self::new(group, decided))
    }

    /// Plans a group by the decision of the fusion pass.
    pub fn new(group: &Function, decided: ReductionPlan) -> ReductionSchedule {
        let ReductionPlan { layout, phases } = decided;
        let is_reduction = |&i: &Inst| group.kind_of(i) == OpKind::Reduce;
        let reduced: Vec<Inst> = group.insts(group.body).iter().copied().filter(is_reduction).collect();
        let first = *reduced.first().expect("a reduction group has a reduction");
        let reduction = |inst: Inst| {
            let plain = monoid_of(group, inst).filter(|_| group.operands(inst).len() == 2);
            let combine = plain.map_or(Combine::Body(group.inst(inst).regions[0]), Combine::Plain);
            Reduction { inst, phase: phases.of_reduction(group.results_of(inst)[0]), combine }
        };
        let reductions = reduced.into_iter().map(reduction).collect();
        let (domain, rows) = domain(group, first);
        ReductionSchedule { layout, domain, rows, reductions, phases }
    }

    /// Returns true if the elements of a row may be combined in any order.
    pub fn in_any_order(&self) -> bool {
        self.reductions.iter().all(|r| matches!(r.combine, Combine::Plain(_)))
    }

    /// The phase of the last walk.
    pub(in crate::schedule) fn last(&self) -> usize {
        self.phases.last
    }

    /// The phase whose walk writes an output, if that is not the last one.
    pub(in crate::schedule) fn early(&self, output: Value) -> Option<usize> {
        self.phases.early(output)
    }

    /// Returns true if separate loops can write an early output.
    pub(in crate::schedule) fn is_apart(&self, output: Value) -> bool {
        self.phases.is_apart(output)
    }

    /// The dimensions of a value with an element for each position of the space.
    pub(in crate::schedule) fn whole(&self, solver: &Solver, tensor: &TensorType) -> Option<Vec<Vec<usize>>> {
        let all: Vec<usize> = (0..self.layout.space.len()).collect();
        axes(map_of(solver, &self.layout.space, &all, &tensor.dims)?)
    }

    /// The dimensions of an output with an element for each position of the space, whose rows may
    /// be in another order.
    pub(in crate::schedule) fn whole_output(
        &self,
        solver: &Solver,
        output: Value,
        tensor: &TensorType,
    ) -> Option<Vec<Vec<usize>>> {
        self.layout.whole(solver, output, &tensor.dims).and_then(axes)
    }

    /// The dimensions of a value with one element for each row.
    pub(in crate::schedule) fn kept(&self, solver: &Solver, tensor: &TensorType) -> Option<Vec<Vec<usize>>> {
        axes(map_of(solver, &self.layout.space, &self.layout.kept, &tensor.dims)?)
    }

    /// The values that loops compute: the outputs, the operands of reductions, and the reductions
    /// themselves.
    fn roots(&self, group: &Group<'_>) -> Vec<(Value, Map)> {
        let layout = &self.layout;
        let map = |tensor| output_map(&group.solver, &layout.space, &layout.kept, tensor);
        let of_output = |output| layout.reordered(output).cloned().or_else(|| map(group.tensor(output)));
        let outputs = group.outputs().into_iter();
        let mut roots: Vec<(Value, Map)> = outputs.filter_map(|output| Some((output, of_output(output)?))).collect();
        for reduction in &self.reductions {
            let operands = group.function.operands(reduction.inst);
            let inputs = operands[..operands.len() / 2].iter();
            roots.extend(inputs.filter_map(|&input| Some((input, map(group.tensor(input))?))));
            let total = group.function.results_of(reduction.inst)[0];
            let kept = map_of(&group.solver, &layout.space, &layout.kept, &group.tensor(total).dims);
            roots.extend(kept.map(|map| (total, map)));
        }
        roots
    }

    /// The values that are constant along a row and read by values that vary along it: a row
    /// computes each once, in the first phase that needs it.
    pub(in crate::schedule) fn row_values(&self, group: &Group<'_>) -> Vec<Placed> {
        let (function, space) = (group.function, &self.layout.space);
        let of_row = |map: &Map| axes_of(map).is_some_and(|axes| axes.iter().all(|axis| self.layout.kept.contains(axis)));
        let mut stack = self.roots(group);
        let (mut seen, mut found) = (HashSet::new(), Vec::new());
        while let Some((value, map)) = stack.pop() {
            if !seen.insert((value, map.clone())) {
                continue;
            }
            let inst = function.defining(value);
            let kind = inst.map(|inst| function.kind_of(inst));
            if of_row(&map) {
                let known = matches!(kind, Some(OpKind::Reduce | OpKind::Constant | OpKind::DimValue));
                if !known && self.phases.needing(value).is_some() && !is_risky(function, value) {
                    found.extend(axes(map).map(|shape| Placed { value, shape }));
                }
            } else if let Some(inst) = inst {
                stack.extend(reads(function, &group.solver, space, inst, &map).operands);
            }
        }
        found
    }

    /// Costly values that vary along reduced axes, and not from row to row, if there are several
    /// rows; if rows are walked in blocks, also along kept axes that are `followed`. Their operands
    /// that vary only along reduced axes are among them.
    pub(in crate::schedule) fn common(&self, group: &Group<'_>, followed: Option<&[usize]>) -> Vec<Placed> {
        let layout = &self.layout;
        let one = Dim::constant(1);
        if layout.kept.iter().all(|&axis| group.solver.equal(&layout.space[axis], &one)) {
            return Vec::new();
        }
        let is_kept = |axis: &&usize| layout.kept.contains(axis);
        let how = |axes: &[usize]| hoist_level(&group.solver, layout, axes);
        let are_common = |axes: &[usize]| match followed {
            Some(followed) => {
                matches!(how(axes), Some(HoistLevel::PerTask | HoistLevel::PerBlock))
                    && axes.iter().filter(is_kept).all(|axis| followed.contains(axis))
            }
            None => how(axes) == Some(HoistLevel::PerTask),
        };
        let mut found = hoisted(group, &layout.space, &self.roots(group), &are_common);
        let is_outer = |(_, shape): &&Hoisted| shape.iter().flatten().any(|axis| is_kept(&axis));
        let map = |(value, shape): &Hoisted| (*value, map_along(shape));
        let outer: Vec<(Value, Map)> = found.iter().filter(is_outer).map(map).collect();
        let are_of_all = |axes: &[usize]| are_common(axes) && !axes.iter().any(|axis| is_kept(&axis));
        let below = hoisted(group, &layout.space, &outer, &are_of_all);
        found.extend(below.into_iter().filter(|(value, _)| !found.iter().any(|known| known.0 == *value)).collect::<Vec<_>>());
        found.into_iter().map(|(value, shape)| Placed { value, shape }).collect()
    }

    /// The kept axes that those costly values follow which are shared by rows that are not
    /// neighbours, if there are such.
    pub(in crate::schedule) fn followed(&self, group: &Group<'_>) -> Option<Vec<usize>> {
        block_axes(group.function, &group.solver, &self.layout, &self.roots(group))
    }

    /// The gathers that take one slice for each row.
    pub(in crate::schedule) fn row_gathers(&self, group: &Group<'_>) -> Vec<OuterGather> {
        outer_gathers(group.function, &group.solver, &self.layout.space, &self.roots(group), &[], &self.layout.kept)
    }

    /// The ends of the operands of a concatenation along the last reduced run, of which outputs as
    /// long as rows are made.
    pub(in crate::schedule) fn joints(&self, group: &Group<'_>, reduced: &[Merged]) -> Vec<Dim> {
        let Some(last) = reduced.last() else { return Vec::new() };
        let outputs = group.outputs();
        let roots: Vec<(Value, Map)> = self.roots(group).into_iter().filter(|(value, _)| outputs.contains(value)).collect();
        joints(group.function, &group.solver, &self.layout.space, &roots, last.axis)
    }

    /// The merged kept dimensions, and the merged reduced ones.
    pub(in crate::schedule) fn runs(&self, group: &Group<'_>) -> (Vec<Merged>, Vec<Merged>) {
        let layout = &self.layout;
        let mut pairs = mergeable_in(group.function, &group.solver, &layout.space, &self.roots(group), &|value, _| {
            is_combined(group.function, value)
        });
        let is_reduced = |axis: usize| layout.reduced.contains(&axis);
        for (pair, mergeable) in pairs.iter_mut().enumerate() {
            *mergeable &= is_reduced(pair) == is_reduced(pair + 1);
        }
        merge(&layout.space, &pairs).into_iter().partition(|run| !is_reduced(run.axis))
    }

    /// The direction of vectors: along the dimension that is contiguous in memory; but rows that
    /// are combined in order are lanes, and so are short ones, if enough of them are known to be
    /// adjacent.
    pub(in crate::schedule) fn along(&self, solver: &Solver, kept: &[Merged], reduced: &[Merged]) -> Along {
        let is_short = solver.range(&self.row_length()).hi.is_some_and(|most| most <= CpuModel::SHORT_ROW);
        let is_wide = |run: &Merged| solver.range(&run.size).lo.is_some_and(|least| least > NARROW);
        match (kept.last(), reduced.last()) {
            (Some(_), _) if !self.in_any_order() => Along::Kept,
            (Some(k), _) if is_short && is_wide(k) => Along::Kept,
            (Some(k), Some(r)) if k.axis > r.axis => Along::Kept,
            (Some(_), None) => Along::Kept,
            _ => Along::Reduced,
        }
    }

    /// The values to keep in task memory: expensive ones that several phases compute, except those
    /// that are cheap to compute from others that are kept.
    pub(in crate::schedule) fn keep(&self, group: &Group<'_>) -> Vec<Placed> {
        let function = group.function;
        // A value that is constant along a row and needs no reduction is computed once for it.
        let is_given = |value: &Value| function.defining(*value).is_some_and(|inst| is_kept(function, inst));
        let of_rows: HashSet<Value> = self.row_values(group).into_iter().map(|placed| placed.value).filter(is_given).collect();
        let alone = costs(function, &mut |value, _| of_rows.contains(&value));
        let mut wanted = HashMap::new();
        self.phases.each_computed(function, function.body, &mut |value, phases| {
            let pays = phases.count_ones() > 1 && alone.get(&value).is_some_and(|&cost| cost >= KEEP_COST);
            let shape = pays.then(|| self.whole(&group.solver, group.tensor(value))).flatten();
            shape.map(|shape| wanted.insert(value, shape)).is_some()
        });
        let mut kept = Vec::new();
        costs(function, &mut |value, cost| {
            let Some(shape) = wanted.remove(&value).filter(|_| cost >= KEEP_COST) else { return of_rows.contains(&value) };
            kept.push(Placed { value, shape });
            true
        });
        kept
    }

    /// The first phase that needs a value, in which it is computed if it is kept.
    pub(in crate::schedule) fn first_phase(&self, value: Value) -> usize {
        self.phases.needing(value).map_or(0, |bits| bits.trailing_zeros() as usize)
    }

    /// Returns true if a phase needs elements of a value.
    pub(in crate::schedule) fn is_needed(&self, value: Value, phase: usize) -> bool {
        self.phases.needing(value).is_some_and(|bits| bits & (1 << phase) != 0)
    }

    /// The number of positions of one row.
    pub(in crate::schedule) fn row_length(&self) -> Dim {
        Dim::product(self.layout.reduced.iter().map(|&axis| self.layout.space[axis].clone()))
    }
}

/// The cost of computing an element of each value from inputs, reductions and kept values: `keeps`,
/// called with a value's cost, says if it is kept.
fn costs(function: &Function, keeps: &mut dyn FnMut(Value, i64) -> bool) -> HashMap<Value, i64> {
    let mut costs: HashMap<Value, i64> = HashMap::new();
    for &inst in function.insts(function.body).iter().filter(|&&inst| function.kind_of(inst) != OpKind::Reduce) {
        let operands: i64 = function.operands(inst).iter().filter_map(|operand| costs.get(operand)).sum();
        let own = cost::weight(function, inst) + operands;
        for &result in function.results_of(inst) {
            costs.insert(result, if keeps(result, own) { 0 } else { own });
        }
    }
    costs
}

/// The shape of a reduction's operand, and the number of dimensions before the reduced ones, if
/// these are the last.
fn domain(group: &Function, reduction: Inst) -> (Vec<Dim>, usize) {
    let shape = group.ty(group.operands(reduction)[0]).shaped().expect("a tensor").dims.clone();
    let kept = group.ty(group.results_of(reduction)[0]).shaped().expect("a tensor").dims.len();
    let last = group.axes(reduction, "dims").iter().all(|&d| d >= kept);
    (shape, if last { kept } else { 0 })
}

/// Returns true if computing a value, down to reductions, may fail: then it is computed only at its
/// use.
fn is_risky(group: &Function, value: Value) -> bool {
    group.defining(value).is_some_and(|inst| may_fail(group, inst, &|inst| group.kind_of(inst) != OpKind::Reduce))
}

fn axes(map: Map) -> Option<Vec<Vec<usize>>> {
    map.into_iter()
        .map(|follows| match follows {
            Follows::Axes(axes) => Some(axes),
            Follows::Other => None,
        })
        .collect()
}
