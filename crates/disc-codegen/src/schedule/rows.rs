//! The row schedule: several reductions over the same trailing dimensions, and what depends on them, in one kernel.
//!
//! A work unit is one row: one position along the leading dimensions. Over its columns runs one loop per *phase*: phase `p` computes the
//! reductions that depend on `p` earlier ones, the last phase computes the outputs. What is expensive and needed in several phases is kept
//! in a row of task memory. Softmax and layer norm are one kernel by this.
//!
//! The group has to be one that [`RowPlan::of`] accepts.
use super::{
    Argument, Group, Launch, Scheduled,
    domain::mergeable,
    loops::{Merged, merge, place_unit, vector_loop},
    scratch_bytes,
};
use crate::{
    build::KernelBuilder,
    cost,
    element::{Elements, compute_dtype},
    index::Index,
    reducer::{Monoid, monoid_of},
};
use disc_ir::{Attr, DType, Dim, Function, FunctionKind, Inst, OpKind, Solver, TensorType, Type, Value};
use std::collections::HashMap;

/// Quarter nanoseconds of a vector above which a value is kept rather than computed again.
const KEEP_COST: i64 = 12;

/// What the schedule decided about a group.
pub struct RowPlan {
    /// The sizes of a whole value: rows, then columns.
    pub domain: Vec<Dim>,
    /// How many leading dimensions are rows.
    pub rows: usize,
    reductions: Vec<Reduction>,
    /// Phases that need an element of a value, as a bit set; whole values only.
    phases: HashMap<Value, u64>,
    last: usize,
}

#[derive(Clone, Copy)]
struct Reduction {
    inst: Inst,
    phase: usize,
    monoid: Monoid,
}

impl RowPlan {
    /// The plan of a group, or why it is not a row group.
    pub fn of(group: &Function, solver: &Solver, outputs: &[Value]) -> Result<RowPlan, String> {
        let insts = group.insts(group.body);
        let reduces: Vec<Inst> = insts.iter().copied().filter(|&i| group.kind_of(i) == OpKind::Reduce).collect();
        let Some(&first) = reduces.first() else { return Err("there is no reduction".into()) };
        let domain = group.ty(group.operands(first)[0]).shaped().expect("a tensor").dims.clone();
        let rows = domain.len() - reduced_axes(group, first).len();
        let mut plan = RowPlan { domain, rows, reductions: Vec::new(), phases: HashMap::new(), last: 0 };
        let mut level: HashMap<Value, usize> = HashMap::new();
        for &inst in insts {
            let operands = group.operands(inst).iter();
            let depth = operands.map(|v| level.get(v).copied().unwrap_or(0)).max().unwrap_or(0);
            let mut depth_after = depth;
            if group.kind_of(inst) == OpKind::Reduce {
                plan.check_reduction(group, solver, inst)?;
                let monoid =
                    monoid_of(group, inst).ok_or("a reduction's body is not a plain sum, product, maximum or minimum")?;
                plan.reductions.push(Reduction { inst, phase: depth, monoid });
                depth_after += 1;
            }
            for &result in group.results_of(inst) {
                level.insert(result, depth_after);
            }
        }
        plan.last = level.values().copied().max().unwrap_or(0);
        for &output in outputs {
            let whole = plan.is_whole(group, solver, output);
            if !whole && !plan.is_row(group, solver, output) {
                return Err(format!("an output has shape {}, which is neither a row's nor a column's", group.ty(output)));
            }
            if whole {
                plan.need(group, output, plan.last);
            }
        }
        for reduction in plan.reductions.clone() {
            plan.need(group, group.operands(reduction.inst)[0], reduction.phase);
        }
        let pairs = mergeable(group, solver, &plan.whole_roots(group, solver, outputs));
        if (plan.rows..plan.domain.len().saturating_sub(1)).any(|pair| !pairs[pair]) {
            return Err("the reduced dimensions cannot be walked as one".into());
        }
        Ok(plan)
    }

    /// The whole values that loops compute: what is reduced, and outputs.
    fn whole_roots(&self, group: &Function, solver: &Solver, outputs: &[Value]) -> Vec<Value> {
        let reduced = self.reductions.iter().map(|r| group.operands(r.inst)[0]);
        reduced.chain(outputs.iter().copied().filter(|&v| self.is_whole(group, solver, v))).collect()
    }

    fn check_reduction(&self, group: &Function, solver: &Solver, inst: Inst) -> Result<(), String> {
        if group.operands(inst).len() != 2 {
            return Err("a reduction has several inputs".into());
        }
        let shape = &group.ty(group.operands(inst)[0]).shaped().expect("a tensor").dims;
        let same = shape.len() == self.domain.len() && shape.iter().zip(&self.domain).all(|(a, b)| solver.equal(a, b));
        let mut axes = reduced_axes(group, inst);
        axes.sort_unstable();
        if !same || axes != (self.rows..self.domain.len()).collect::<Vec<_>>() {
            return Err("the reductions are not over the same trailing dimensions".into());
        }
        Ok(())
    }

    fn is_whole(&self, group: &Function, solver: &Solver, value: Value) -> bool {
        let dims = &group.ty(value).shaped().expect("a tensor").dims;
        dims.len() == self.domain.len() && dims.iter().zip(&self.domain).all(|(a, b)| solver.equal(a, b))
    }

    /// Whether a value has one element per row: the leading dimensions, and perhaps sizes of 1.
    fn is_row(&self, group: &Function, solver: &Solver, value: Value) -> bool {
        let dims = &group.ty(value).shaped().expect("a tensor").dims;
        dims.len() >= self.rows
            && dims[..self.rows].iter().zip(&self.domain).all(|(a, b)| solver.equal(a, b))
            && dims[self.rows..].iter().all(|d| solver.equal(d, &Dim::constant(1)))
    }

    /// Marks `value` and what it is computed from, up to reductions, as needed in a phase.
    fn need(&mut self, group: &Function, value: Value, phase: usize) {
        let bits = self.phases.entry(value).or_default();
        if *bits & (1 << phase) != 0 {
            return;
        }
        *bits |= 1 << phase;
        let Some(inst) = group.defining(value) else { return };
        if group.kind_of(inst) != OpKind::Reduce {
            group.operands(inst).to_vec().into_iter().for_each(|operand| self.need(group, operand, phase));
        }
    }
}

fn reduced_axes(group: &Function, inst: Inst) -> Vec<usize> {
    let position = OpKind::Reduce.def().attr_position("dims").expect("`reduce` has dims");
    match &group.inst(inst).attrs[position] {
        Some(Attr::Ints(dims)) => dims.iter().map(|&d| d as usize).collect(),
        _ => Vec::new(),
    }
}

/// Schedules a group that has a plan.
pub fn schedule(group: &Group<'_>, plan: &RowPlan) -> Scheduled {
    let row_runs = runs(group, plan).0;
    let lanes = lanes(group, plan);
    let mut kb = KernelBuilder::new(&group.name, FunctionKind::Kernel);
    let mut elements = Elements::new(group.function, group.solver.clone(), lanes, group.target);
    elements.first_site = group.first_site;
    let mut arguments = Vec::new();
    for (i, &input) in group.inputs().iter().enumerate() {
        let buffer = kb.buffer(&format!("in{i}"), group.tensor(input).clone());
        elements.bind(input, buffer);
        arguments.push(Argument::Input(i));
    }
    let mut targets = Vec::new();
    for (i, &output) in group.outputs().iter().enumerate() {
        targets.push(kb.buffer(&format!("out{i}"), group.tensor(output).clone()));
        arguments.push(Argument::Output(group.wanted[i]));
    }
    let begin = kb.parameter("begin", Type::scalar(DType::I64));
    let end = kb.parameter("end", Type::scalar(DType::I64));

    let mut rows = Rows::new(&mut kb, group, plan, targets);
    let one = kb.int(1);
    kb.for_([begin, end, one], &[], |kb, unit, _| {
        elements.scoped(|elements| {
            let zero = kb.int(0);
            let mut at = vec![Index::uniform(zero); plan.domain.len()];
            place_unit(kb, unit, &row_runs, &mut at);
            rows.run(kb, elements, &at);
        });
        Vec::new()
    });
    let kernel = kb.finish();
    let count = Dim::product(plan.domain.iter().cloned());
    let units = Dim::product(row_runs.iter().map(|run| run.size.clone()));
    let cost = cost::loops(group.function, &count, lanes) + &units * 20;
    let launch = Launch { kernel: kernel.name.clone(), arguments, units, cost, scratch: scratch_bytes(&kernel) };
    Scheduled { kernels: vec![kernel], launches: vec![launch], sites: elements.sites }
}

/// The merged row dimensions, and the columns as one.
fn runs(group: &Group<'_>, plan: &RowPlan) -> (Vec<Merged>, Merged) {
    let roots = plan.whole_roots(group.function, &group.solver, &group.outputs());
    let mut pairs = mergeable(group.function, &group.solver, &roots);
    if plan.rows > 0 && plan.rows < plan.domain.len() {
        pairs[plan.rows - 1] = false;
    }
    // A reduced value is read row by row: its rows are not looked through by `mergeable`, so rows are merged only where there is one.
    let mut runs = merge(&plan.domain, &pairs);
    let columns = runs.split_off(runs.iter().position(|r| r.axis >= plan.rows).unwrap_or(runs.len()));
    let rows = match plan.reductions.is_empty() {
        true => runs,
        false => plan.domain[..plan.rows].iter().enumerate().map(|(axis, size)| Merged { size: size.clone(), axis }).collect(),
    };
    let column = columns.last().cloned().unwrap_or(Merged { size: Dim::constant(1), axis: 0 });
    (rows, column)
}

/// The values to keep in task memory: expensive ones that several phases need, unless a user needed in the same phases is kept.
fn keep(group: &Group<'_>, plan: &RowPlan) -> Vec<Value> {
    let function = group.function;
    let whole = |v: Value| plan.is_whole(function, &group.solver, v);
    let several = |v: &Value| plan.phases.get(v).is_some_and(|bits| bits.count_ones() > 1);
    let mut cone: HashMap<Value, i64> = HashMap::new();
    let mut covered: HashMap<Value, u64> = HashMap::new();
    for &inst in function.insts(function.body) {
        let below: i64 = function.operands(inst).iter().filter_map(|v| cone.get(v)).sum();
        let own = if function.kind_of(inst) == OpKind::Reduce { 0 } else { cost::weight(function, inst) + below };
        cone.extend(function.results_of(inst).iter().map(|&r| (r, own)));
    }
    let expensive = |v: &Value| cone.get(v).is_some_and(|&c| c >= KEEP_COST);
    let mut kept = Vec::new();
    for &inst in function.insts(function.body).iter().rev() {
        for &value in function.results_of(inst) {
            let bits = plan.phases.get(&value).copied().unwrap_or(0);
            if whole(value) && several(&value) && expensive(&value) {
                if covered.get(&value).is_none_or(|&c| bits & !c != 0) {
                    kept.push(value);
                }
                // What a kept value needs is needed once, in the first of its phases.
                for &operand in function.operands(inst) {
                    let first = bits & bits.wrapping_neg();
                    *covered.entry(operand).or_default() |= bits & !first;
                }
            }
        }
    }
    kept.reverse();
    kept
}

/// Lanes for a group's rows.
pub(super) fn lanes(group: &Group<'_>, plan: &RowPlan) -> u32 {
    cost::lanes(group.function, group.target, &group.solver, &runs(group, plan).1.size)
}

/// Computes rows, one at a time.
pub(super) struct Rows<'g> {
    group: &'g Group<'g>,
    plan: &'g RowPlan,
    column: Merged,
    targets: Vec<Value>,
    caches: Vec<(Value, Value)>,
}

impl<'g> Rows<'g> {
    /// Rows of a group whose outputs go to `targets`; asks for task memory for what is kept of a row.
    pub(super) fn new(kb: &mut KernelBuilder, group: &'g Group<'g>, plan: &'g RowPlan, targets: Vec<Value>) -> Self {
        let column = runs(group, plan).1;
        let caches = keep(group, plan)
            .into_iter()
            .map(|value| {
                let dtype = compute_dtype(group.tensor(value).dtype);
                (value, kb.scratch(TensorType::new([column.size.clone()], dtype)))
            })
            .collect();
        Self { group, plan, column, targets, caches }
    }

    /// Computes one row; `at` has its position, with the columns at 0.
    pub(super) fn run(&mut self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index]) {
        let row = at[..self.plan.rows].to_vec();
        for phase in 0..=self.plan.last {
            let due: Vec<Reduction> = self.plan.reductions.iter().copied().filter(|r| r.phase == phase).collect();
            if !due.is_empty() {
                self.reduce(kb, elements, at, &row, phase, &due);
            }
            if phase == self.plan.last {
                self.write(kb, elements, at, &row, phase);
            }
        }
        for (value, _) in &self.caches {
            elements.forget_row(*value);
        }
    }

    /// The values whose row is computed first in `phase`, by their order.
    fn fresh(&self, phase: usize) -> Vec<(Value, Value)> {
        let first = |v: &Value| self.plan.phases.get(v).is_some_and(|bits| bits.trailing_zeros() as usize == phase);
        self.caches.iter().copied().filter(|(v, _)| first(v)).collect()
    }

    fn reduce(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        at: &[Index],
        row: &[Index],
        phase: usize,
        due: &[Reduction],
    ) {
        let lanes = elements.lanes;
        let function = self.group.function;
        let inputs: Vec<Value> = due.iter().map(|r| function.operands(r.inst)[0]).collect();
        let identities: Vec<Value> = due
            .iter()
            .zip(&inputs)
            .map(|(r, &v)| r.monoid.identity(kb, compute_dtype(self.group.tensor(v).dtype), lanes))
            .collect();
        let fresh = self.fresh(phase);
        let mut carried = identities.clone();
        let size = kb.dim(&self.column.size);
        let zero = kb.int(0);
        let step = kb.int(i64::from(lanes));
        let whole = kb.div(size, step);
        let full = kb.mul(whole, step);
        let stride = i64::from(lanes > 1);
        let accumulate = |kb: &mut KernelBuilder, elements: &mut Elements<'_>, base: Value, carried: &[Value]| {
            let mut here = at.to_vec();
            here[self.column.axis] = Index::Affine { base, stride };
            self.save(kb, elements, &fresh, &here);
            let mut next = Vec::with_capacity(due.len());
            for (i, reduction) in due.iter().enumerate() {
                let element = elements.element(kb, inputs[i], &here);
                let mut element = kb.widen(element, lanes);
                if let Some(mask) = elements.mask {
                    element = kb.select(mask, element, identities[i]);
                }
                next.push(reduction.monoid.apply(kb, carried[i], element));
            }
            next
        };
        carried =
            kb.for_([zero, full, step], &carried, |kb, base, carried| elements.scoped(|e| accumulate(kb, e, base, carried)));
        if lanes > 1 && !self.group.solver.divisible(&self.column.size, i64::from(lanes)) {
            let left = kb.sub(size, full);
            let any = kb.compare("GT", left, zero);
            let before = carried.clone();
            let masked = |kb: &mut KernelBuilder| {
                let mask = kb.lane_mask(left, lanes);
                elements.masked(Some(mask), |e| accumulate(kb, e, full, &before))
            };
            carried = kb.if_(any, masked, |_| before.clone());
        }
        for (value, cache) in fresh {
            elements.bind_row(value, cache, self.column.axis);
        }
        for (reduction, total) in due.iter().zip(carried) {
            let total = kb.reduce_lanes(total, reduction.monoid.lane_reducer());
            let init = elements.element(kb, function.operands(reduction.inst)[1], &[]);
            let total = reduction.monoid.apply(kb, init, total);
            elements.seed(function.result(reduction.inst), row, total);
        }
    }

    /// Stores rows of values that later phases need.
    fn save(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, fresh: &[(Value, Value)], here: &[Index]) {
        for &(value, cache) in fresh {
            let Index::Affine { base, .. } = here[self.column.axis] else { panic!("columns are walked in order") };
            let computed = elements.element(kb, value, here);
            let wide = kb.widen(computed, elements.lanes);
            kb.store(cache, base, wide, elements.mask);
        }
    }

    fn write(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index], row: &[Index], phase: usize) {
        let (function, solver) = (self.group.function, &self.group.solver);
        let outputs: Vec<(Value, Value)> = self.group.outputs().into_iter().zip(self.targets.iter().copied()).collect();
        let (whole, single): (Vec<_>, Vec<_>) = outputs.into_iter().partition(|(v, _)| self.plan.is_whole(function, solver, *v));
        if !whole.is_empty() {
            let (zero, size) = (kb.int(0), kb.dim(&self.column.size));
            let exact = solver.divisible(&self.column.size, i64::from(elements.lanes));
            let fresh = self.fresh(phase);
            vector_loop(kb, elements, [zero, size], exact, &mut |kb, elements, index| {
                let mut here = at.to_vec();
                here[self.column.axis] = index;
                self.save(kb, elements, &fresh, &here);
                let computed: Vec<Value> = whole.iter().map(|(v, _)| elements.element(kb, *v, &here)).collect();
                for (&(output, target), value) in whole.iter().zip(computed) {
                    elements.store(kb, target, self.group.tensor(output), &here, value);
                }
            });
        }
        let zero = Index::uniform(kb.int(0));
        for (output, target) in single {
            let tensor = self.group.tensor(output);
            let mut here = row.to_vec();
            here.resize(tensor.rank(), zero);
            let value = elements.element(kb, output, &here);
            elements.store(kb, target, tensor, &here, value);
        }
    }
}
