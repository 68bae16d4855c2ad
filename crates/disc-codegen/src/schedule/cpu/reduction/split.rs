//! Schedules few rows of many elements: each is reduced in parts, by separate units, and a second
//! kernel adds the parts up.
//!
//! The parts depend only on sizes, and so does the result: not on threads, nor on time.
use super::{
    Group, ReductionSchedule, SOME_ROWS, Shape, cost,
    plan::{Along, Combine, Placed, Reduction},
    unit::Part,
};
use crate::{
    kernel::compute_dtype,
    schedule::{
        Argument,
        Condition::Less,
        Scheduled, Version, VersionKind, Workspace, aligned_bytes,
        common::{
            iteration_space::{Merged, each_unit},
            kernel_frame::KernelFrame,
        },
    },
};
use disc_ir::{Attr, Builder, Dim, Function, FunctionKind, Inst, OpKind, Solver, TensorType, Type, Value};
use disc_kernel_macros::expr;
use std::{collections::HashMap, sync::Arc};

versions! {
    /// Few long rows, in parts that are added up.
    SplitRows {
        kernels: "`kN_reduction_split`, `kN_reduction_combine`",
        sizes: "fewer than 32 units, more than 2^17 elements (2^15, where parts write elements too); one phase, results of \
            one element for each row, or computed beside it",
        unit: "one of 32 parts of a row; then a row",
    }
}

/// The number of parts of a row.
pub(super) const PARTS: i64 = 32;
/// With this many units there is work for every thread without parts.
const FEW_UNITS: i64 = 32;
/// The number of elements from which parts pay for more launches.
pub(super) const MANY: i64 = 1 << 17;
/// The same if parts write elements as well.
const MANY_WRITTEN: i64 = 1 << 15;

/// The version that splits rows, if that is possible and some sizes may need it.
pub(super) fn version(group: &Group<'_>, plan: &ReductionSchedule, shape: &Shape) -> Option<Version> {
    let solver = &group.solver;
    let tensor = |value: Value| group.tensor(value);
    let simple = plan.last() == 1 && plan.reductions.iter().all(|r| r.phase == 0 && matches!(r.combine, Combine::Plain(_)));
    let in_place = plan.reductions.iter().all(|r| {
        let dtype = tensor(group.function.result(r.inst)).dtype;
        compute_dtype(dtype) == dtype
    });
    let late: Vec<usize> = (0..group.wanted.len()).filter(|&number| plan.early(group.outputs()[number]).is_none()).collect();
    let outputs: Vec<Value> = late.iter().map(|&number| group.outputs()[number]).collect();
    let small = !late.is_empty() && outputs.iter().all(|&output| plan.whole_output(solver, output, tensor(output)).is_none());
    let count = Dim::product(plan.layout.space.iter().cloned());
    let (units, kept) = (shape.units(), Dim::product(shape.kept.iter().map(|run| run.size.clone())));
    let many = if late.len() < group.wanted.len() { MANY_WRITTEN } else { MANY };
    // Units of many rows take memory for all of them.
    let few = if shape.width() > SOME_ROWS { FEW_UNITS / plan.reductions.len().max(1) as i64 } else { FEW_UNITS };
    if !simple || !in_place || !small || !may_be_few(solver, plan, shape, few, many) {
        return None;
    }
    // If the guard holds, there are no more rows than this; otherwise, no memory is needed.
    let most = few * shape.width();
    let holds = Dim::max(&Dim::min(&(few - &units), &Dim::constant(1)), &Dim::constant(0));
    let workspace = |r: &Reduction| {
        let found = workspace(parts_of(tensor(group.function.result(r.inst))), &Dim::constant(PARTS), &kept, most);
        Workspace { bytes: found.bytes * &holds, ..found }
    };
    let workspaces: Vec<Workspace> = plan.reductions.iter().map(workspace).collect();
    let due: Vec<(Reduction, usize)> = plan.reductions.iter().copied().zip(0..).collect();
    let step = Step { suffix: "split".into(), known: &[], kept: &[], due: &due, is_last: false };
    let mut code = part_kernel(group, plan, shape, &kept, &step);
    let rest = Group { first_site: group.first_site + code.sites.len() as i64, ..group.clone() };
    let (function, inputs) = of_parts(group, &due, &outputs, &[]);
    let targets: Vec<Argument> = late.iter().map(|&number| Argument::Output(group.wanted[number])).collect();
    let sums = sum_kernels(&rest, &function, &inputs, &targets, "combine")?;
    code.kernels.extend(sums.kernels);
    code.launches.extend(sums.launches);
    code.sites.extend(sums.sites);
    let guard = vec![Less(units, Dim::constant(few)), Less(Dim::constant(many), count)];
    Some(Version { kind: VersionKind::SplitRows, guard, code, workspaces })
}

/// Returns true if some sizes make fewer units than `few` with more elements than `many`.
pub(super) fn may_be_few(solver: &Solver, plan: &ReductionSchedule, shape: &Shape, few: i64, many: i64) -> bool {
    let range = |dim: &Dim| solver.range(dim);
    let all = Dim::product(plan.layout.space.iter().cloned());
    let is_more = |count: &Dim| range(count).hi.is_none_or(|hi| hi > many);
    let most = plan.row_length() * (shape.width() * (few - 1));
    !shape.reduced.is_empty() && range(&shape.units()).lo.is_none_or(|lo| lo < few) && is_more(&all) && is_more(&most)
}

/// The work of one kernel of parts.
pub(super) struct Step<'a> {
    /// The suffix of the kernel's name, after the name of the group.
    pub(super) suffix: String,
    /// The totals and elements that are in memory.
    pub(super) known: &'a [InMemory],
    /// The elements to keep in memory.
    pub(super) kept: &'a [(Placed, Argument)],
    /// The reductions of one phase, and the workspaces of their parts.
    pub(super) due: &'a [(Reduction, usize)],
    /// A flag that is true if it writes the outputs; all totals are known.
    pub(super) is_last: bool,
}

/// A value that is in a workspace, or in the memory of a later output.
#[derive(Clone, Copy, Debug)]
pub(super) struct InMemory {
    pub(super) value: Value,
    pub(super) memory: Argument,
}

/// The memory for a tensor of `times` elements for each row, of which there are at most `most`.
pub(super) fn workspace(tensor: TensorType, times: &Dim, rows: &Dim, most: i64) -> Workspace {
    let bytes = |rows: &Dim| aligned_bytes(&TensorType::new([rows * times], tensor.dtype));
    let most = Dim::constant(most);
    Workspace { bytes: bytes(&Dim::min(rows, &most)), most: Some(bytes(&most)), tensor }
}

/// The tensor of the parts of a total.
pub(super) fn parts_of(total: &TensorType) -> TensorType {
    TensorType::new([Dim::constant(PARTS)].into_iter().chain(total.dims.iter().cloned()), total.dtype)
}

/// The kernel that works on parts of rows.
pub(super) fn part_kernel(group: &Group<'_>, plan: &ReductionSchedule, shape: &Shape, kept: &Dim, step: &Step<'_>) -> Scheduled {
    let (mut kept_in, mut buffers, mut known) = (Vec::new(), Vec::new(), Vec::new());
    let mut frame = KernelFrame::with(group, &format!("{}_{}", group.name, step.suffix), shape.lanes, |kb, memory| {
        // The last kernel has these as outputs.
        let is_output = |one: &InMemory| step.is_last && matches!(one.memory, Argument::Output(_));
        for (i, one) in step.known.iter().enumerate().filter(|(_, one)| !is_output(one)) {
            let buffer = memory.add(kb, &format!("known{i}"), one.memory, group.tensor(one.value).clone());
            known.push((one.value, buffer));
        }
        for (i, (placed, argument)) in step.kept.iter().enumerate() {
            let tensor = group.tensor(placed.value).clone();
            kept_in.push((placed.clone(), memory.add(kb, &format!("kept{i}"), *argument, tensor)));
        }
        for (reduction, workspace) in step.due {
            let parts = parts_of(group.tensor(group.function.result(reduction.inst)));
            let flat = TensorType::new([kept * PARTS], parts.dtype);
            buffers.push((memory.add_workspace(kb, &format!("parts{workspace}"), *workspace, parts), flat));
        }
        let phase = step.due.first().map(|(reduction, _)| reduction.phase);
        if step.is_last {
            memory.add_outputs(kb, group);
        } else {
            memory.add_some_outputs(kb, group, |output| plan.early(output) == phase);
        }
        for one in step.known.iter().filter(|one| is_output(one)) {
            let position = group.wanted.iter().position(|&wanted| Argument::Output(wanted) == one.memory);
            known.push((one.value, memory.targets[position.expect("the output is wanted")].1));
        }
    });
    let targets = frame.memory.targets.clone();
    let KernelFrame { kb, elements, range, .. } = &mut frame;
    known.into_iter().for_each(|(value, buffer)| elements.bind(value, buffer));
    let mut unit = shape.unit_keeping(kb, group, plan, targets, Vec::new());
    // Parts are whole vectors, so that only the last one has a remainder.
    let width = if shape.along == Along::Reduced && shape.reduced.len() == 1 { i64::from(shape.lanes * shape.copies) } else { 1 };
    let run = &shape.reduced[0].size;
    let length = run.ceil_div(&Dim::constant(PARTS * width)) * width;
    let phase = step.due.first().map(|(reduction, _)| reduction.phase);
    // Units are counted along parts, then as those of whole rows are.
    let parts = Merged { size: Dim::constant(PARTS), axis: shape.reduced[0].axis };
    let counted: Vec<Merged> = [parts].into_iter().chain(shape.counted()).collect();
    each_unit(kb, *range, &counted, |kb, positions| {
        let [part, positions @ ..] = positions else { unreachable!("a unit has a part") };
        elements.scoped(|elements| {
            let (size, length, rows) = (kb.dim(run), kb.dim(&length), kb.dim(kept));
            let low = expr!(kb, min(*part * length, size));
            let high = expr!(kb, min(low + length, size));
            let offset = expr!(kb, *part * rows);
            unit.part = Some(Part { range: [low, high], offset, phase, buffers: buffers.clone(), kept: kept_in.clone() });
            shape.run(&mut unit, kb, elements, positions);
        });
    });
    frame.finish(shape.units() * PARTS, cost(group, plan, shape))
}

/// The kernel that adds parts up and computes the values that depend on the sums: a reduction
/// group, `function`, whose inputs and outputs are these.
pub(super) fn sum_kernels(
    group: &Group<'_>,
    function: &Function,
    inputs: &[Argument],
    targets: &[Argument],
    suffix: &str,
) -> Option<Scheduled> {
    let outputs = function.returned(function.body).to_vec();
    let plan = ReductionSchedule::of(function, &group.solver, &outputs).ok()?;
    let name = Arc::from(format!("{}_{suffix}", group.name));
    let sums = Group { function, wanted: (0..outputs.len()).collect(), name, ..group.clone() };
    let mut code = super::whole(&sums, &plan, &Shape::of(&sums, &plan));
    for argument in code.launches.iter_mut().flat_map(|launch| &mut launch.arguments) {
        *argument = match *argument {
            Argument::Input(i) => inputs[i],
            Argument::Output(i) => targets[i],
            other => other,
        };
    }
    Some(code)
}

/// Copies the group from some reductions on, with the parts in place of the operands of reductions;
/// returns its inputs too.
pub(super) fn of_parts(
    group: &Group<'_>,
    due: &[(Reduction, usize)],
    outputs: &[Value],
    known: &[InMemory],
) -> (Function, Vec<Argument>) {
    let source = group.function;
    let mut function = Function::new("sums", FunctionKind::Func);
    function.facts = source.facts.clone();
    let (mut map, mut inputs): (HashMap<Value, Value>, Vec<Argument>) = (HashMap::new(), Vec::new());
    for one in known {
        map.insert(one.value, function.add_argument(function.body, source.ty(one.value).clone()));
        inputs.push(one.memory);
    }
    let mut needed = Needed { source, function: &mut function, map: &mut map, inputs: &mut inputs, group };
    for &(reduction, workspace) in due {
        let &[input, init] = source.operands(reduction.inst) else { unreachable!("plain reductions have one input") };
        let parts = parts_of(group.tensor(source.result(reduction.inst)));
        let parts = needed.function.add_argument(needed.function.body, Type::Tensor(parts));
        needed.inputs.push(Argument::Workspace(workspace));
        needed.visit(init);
        needed.map.insert(input, parts);
        let made = needed.function.import(source, reduction.inst, needed.map);
        needed.map.remove(&input);
        let position = OpKind::Reduce.def().attr_position("dims").expect("`reduce` has dims");
        needed.function.inst_mut(made).attrs[position] = Some(Attr::Ints(vec![0]));
        needed.function.append(needed.function.body, made);
    }
    outputs.iter().for_each(|&output| needed.visit(output));
    let returned: Vec<Value> = outputs.iter().map(|output| map[output]).collect();
    let body = function.body;
    Builder::at(&mut function, body, group.solver.clone()).ret(&returned).expect("a function may return what it computes");
    (function, inputs)
}

struct Needed<'a> {
    source: &'a Function,
    function: &'a mut Function,
    map: &'a mut HashMap<Value, Value>,
    inputs: &'a mut Vec<Argument>,
    group: &'a Group<'a>,
}

impl Needed<'_> {
    /// Copies the ops that compute a value, down to known values.
    fn visit(&mut self, value: Value) {
        if self.map.contains_key(&value) {
            return;
        }
        let Some(inst): Option<Inst> = self.source.defining(value) else {
            let position = self.group.inputs().iter().position(|&input| input == value);
            let argument = self.function.add_argument(self.function.body, self.source.ty(value).clone());
            self.inputs.push(Argument::Input(position.expect("a value without an op is an input")));
            self.map.insert(value, argument);
            return;
        };
        self.source.operands(inst).iter().for_each(|&operand| self.visit(operand));
        let made = self.function.import(self.source, inst, self.map);
        self.function.append(self.function.body, made);
    }
}
