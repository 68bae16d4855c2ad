//! Few rows of many elements: each is reduced in parts, by units of their own, and a second kernel adds the parts up.
//!
//! The parts are a matter of sizes alone, so that the result is, too: not of threads, nor of time.
use super::{
    Group, RowPlan, Shape, cost,
    plan::{Along, Combine, Reduction},
    unit::Part,
};
use crate::{
    element::compute_dtype,
    schedule::{Argument, Scheduled, Version, Workspace, aligned_bytes, domain::positions_of, draft::Draft},
};
use disc_ir::{Attr, Builder, Dim, Function, FunctionKind, Inst, OpKind, TensorType, Type, Value};
use std::{collections::HashMap, sync::Arc};

/// The parts of a row.
const PARTS: i64 = 32;
/// With so many units there is work for every thread without parts.
const FEW_UNITS: i64 = 32;
/// Elements from which parts pay for a second launch.
const MANY: i64 = 1 << 17;

/// The version that splits rows, where that is possible and some sizes may want it.
pub(super) fn version(group: &Group<'_>, plan: &RowPlan, shape: &Shape) -> Option<Version> {
    let solver = &group.solver;
    let tensor = |value: Value| group.tensor(value);
    let simple = plan.last == 1 && plan.reductions.iter().all(|r| r.phase == 0 && matches!(r.combine, Combine::Plain(_)));
    let in_place = plan.reductions.iter().all(|r| {
        let dtype = tensor(group.function.result(r.inst)).dtype;
        compute_dtype(dtype) == dtype
    });
    let small = group.outputs().iter().all(|&output| plan.whole(solver, tensor(output)).is_none());
    let count = Dim::product(plan.layout.space.iter().cloned());
    let (units, kept) = (shape.units(), Dim::product(shape.kept.iter().map(|run| run.size.clone())));
    let never = solver.range(&units).lo.is_some_and(|lo| lo >= FEW_UNITS) || solver.range(&count).hi.is_some_and(|hi| hi <= MANY);
    if !simple || !in_place || !small || never || shape.reduced.is_empty() {
        return None;
    }
    // Where the guard holds, there are no more rows than this.
    let rows = Dim::min_of([kept.clone(), Dim::constant(FEW_UNITS * shape.width())]).expect("two dims");
    let workspace = |r: &Reduction| {
        let total = tensor(group.function.result(r.inst));
        let dims = [Dim::constant(PARTS)].into_iter().chain(total.dims.iter().cloned());
        let bytes = aligned_bytes(&TensorType::new([&rows * PARTS], total.dtype));
        Workspace { tensor: TensorType::new(dims, total.dtype), bytes }
    };
    let workspaces: Vec<Workspace> = plan.reductions.iter().map(workspace).collect();
    let mut code = parts(group, plan, shape, &kept, &workspaces);
    let sums = sums(group, plan, code.sites.len() as i64)?;
    code.kernels.extend(sums.kernels);
    code.launches.extend(sums.launches);
    code.sites.extend(sums.sites);
    let guard = vec![(units, Dim::constant(FEW_UNITS)), (Dim::constant(MANY), count)];
    Some(Version { guard, code, workspaces })
}

/// The kernel that reduces parts.
fn parts(group: &Group<'_>, plan: &RowPlan, shape: &Shape, kept: &Dim, workspaces: &[Workspace]) -> Scheduled {
    let mut buffers = Vec::new();
    let mut draft = Draft::with(group, &format!("{}_parts", group.name), shape.lanes, |kb, memory| {
        for (i, workspace) in workspaces.iter().enumerate() {
            let flat = TensorType::new([kept * PARTS], workspace.tensor.dtype);
            buffers.push((memory.add_workspace(kb, &format!("parts{i}"), i, workspace.tensor.clone()), flat));
        }
    });
    let Draft { kb, elements, range: [begin, end], .. } = &mut draft;
    let mut unit = shape.unit(kb, group, plan, Vec::new());
    // Parts of whole vectors, so that only the last one has a rest.
    let step = if shape.along == Along::Reduced && shape.reduced.len() == 1 { i64::from(shape.lanes * shape.copies) } else { 1 };
    let run = &shape.reduced[0].size;
    let length = run.ceil_div(&Dim::constant(PARTS * step)) * step;
    let one = kb.int(1);
    kb.for_([*begin, *end, one], &[], |kb, number, _| {
        elements.scoped(|elements| {
            let (units, size, length, rows) = (kb.dim(&shape.units()), kb.dim(run), kb.dim(&length), kb.dim(kept));
            let (part, number) = (kb.div(number, units), kb.rem(number, units));
            let low = kb.mul(part, length);
            let low = kb.map(OpKind::Minimum, &[low, size]);
            let high = kb.add(low, length);
            let high = kb.map(OpKind::Minimum, &[high, size]);
            let offset = kb.mul(part, rows);
            unit.part = Some(Part { range: [low, high], offset, buffers: buffers.clone() });
            let positions = positions_of(kb, number, &shape.counted());
            shape.run(&mut unit, kb, elements, &positions);
        });
        Vec::new()
    });
    draft.finish(shape.units() * PARTS, cost(group, plan, shape))
}

/// The kernel that adds the parts up and computes what depends on the sums: a row group of its own.
fn sums(group: &Group<'_>, plan: &RowPlan, sites: i64) -> Option<Scheduled> {
    let (function, inputs) = of_parts(group, plan);
    let end = function.terminator(function.body).expect("a function ends in `return`");
    let outputs = function.operands(end).to_vec();
    let plan = RowPlan::of(&function, &group.solver, &outputs).ok()?;
    let sums = Group {
        function: &function,
        wanted: (0..outputs.len()).collect(),
        solver: group.solver.clone(),
        name: Arc::from(format!("{}_sums", group.name)),
        target: group.target,
        first_site: group.first_site + sites,
    };
    let mut code = super::whole(&sums, &plan, &Shape::of(&sums, &plan));
    for argument in code.launches.iter_mut().flat_map(|launch| &mut launch.arguments) {
        *argument = match *argument {
            Argument::Input(i) => inputs[i],
            Argument::Output(i) => Argument::Output(group.wanted[i]),
            other => other,
        };
    }
    Some(code)
}

/// The group with the parts in place of what is reduced, and what its inputs are.
fn of_parts(group: &Group<'_>, plan: &RowPlan) -> (Function, Vec<Argument>) {
    let source = group.function;
    let mut function = Function::new("sums", FunctionKind::Func);
    function.facts = source.facts.clone();
    let (mut map, mut inputs): (HashMap<Value, Value>, Vec<Argument>) = (HashMap::new(), Vec::new());
    let mut needed = Needed { source, function: &mut function, map: &mut map, inputs: &mut inputs, group };
    for (i, reduction) in plan.reductions.iter().enumerate() {
        let &[input, init] = source.operands(reduction.inst) else { unreachable!("plain reductions have one input") };
        let total = group.tensor(source.result(reduction.inst));
        let dims = [Dim::constant(PARTS)].into_iter().chain(total.dims.iter().cloned());
        let parts = needed.function.add_argument(needed.function.body, Type::tensor(dims, total.dtype));
        needed.inputs.push(Argument::Workspace(i));
        needed.visit(init);
        needed.map.insert(input, parts);
        let made = needed.function.import(source, reduction.inst, needed.map);
        needed.map.remove(&input);
        let position = OpKind::Reduce.def().attr_position("dims").expect("`reduce` has dims");
        needed.function.inst_mut(made).attrs[position] = Some(Attr::Ints(vec![0]));
        needed.function.append(needed.function.body, made);
    }
    let outputs = group.outputs();
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
    /// Copies what computes a value, down to what is known.
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
