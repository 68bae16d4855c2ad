//! Schedules the part of a group after the one that a library computes: element by element, from
//! its results in memory.
use super::super::pointwise;
use crate::schedule::{Group, Rest, Workspace, aligned_bytes};
use disc_ir::{Builder, Function, FunctionKind, Inst, OpKind, Value};
use std::collections::{HashMap, HashSet};

/// Schedules the outputs of a group from these values, whose sites are numbered from `first_site`;
/// `None` if more than functions of elements are left.
pub(super) fn of(group: &Group<'_>, values: &[Value], first_site: i64) -> Option<Rest> {
    let ops = needed(group.function, values);
    let inputs = read(group.function, &ops);
    let function = behind(group, &ops, &inputs, values)?;
    let name = format!("{}_rest", group.name).into();
    let rest = Group { function: &function, name, first_site, ..group.clone() };
    let mut code = pointwise::in_elements(&rest);
    // The results of the library have the memory that a version would have.
    code.versions.retain(|version| version.workspaces.is_empty());
    let product = |&value: &Value| {
        let tensor = group.tensor(value).clone();
        Workspace { bytes: aligned_bytes(&tensor), tensor, most: None }
    };
    Some(Rest { inputs, products: values.iter().map(product).collect(), code })
}

/// Returns ops of a group as a function of some of its inputs and of these values.
fn behind(group: &Group<'_>, ops: &[Inst], inputs: &[usize], values: &[Value]) -> Option<Function> {
    let whole = group.function;
    let mut function = Function::new("group", FunctionKind::Func);
    function.facts = whole.facts.clone();
    let mut map = HashMap::new();
    for value in inputs.iter().map(|&position| whole.parameters()[position]).chain(values.iter().copied()) {
        let parameter = function.add_argument(function.body, whole.ty(value).clone());
        map.insert(value, parameter);
    }
    for &inst in ops {
        let is_of_elements = !matches!(
            whole.kind_of(inst),
            OpKind::DotGeneral | OpKind::Convolution | OpKind::Im2col | OpKind::Fusion | OpKind::Reduce | OpKind::ReduceWindow
        );
        if !is_of_elements {
            return None;
        }
        let made = function.import(whole, inst, &mut map);
        function.append(function.body, made);
    }
    let outputs: Vec<Value> = whole.returned(whole.body).iter().map(|output| map.get(output).copied()).collect::<Option<_>>()?;
    let body = function.body;
    Builder::at(&mut function, body, group.solver.clone()).ret(&outputs).ok()?;
    Some(function)
}

/// Returns the positions of the inputs that ops of a function read.
fn read(function: &Function, ops: &[Inst]) -> Vec<usize> {
    let is_read = |input: &Value| ops.iter().any(|&inst| function.operands(inst).contains(input));
    let inputs = function.parameters().iter().enumerate();
    inputs.filter(|(_, input)| is_read(input)).map(|(position, _)| position).collect()
}

/// Returns the ops that outputs are computed by from these values, in order.
fn needed(function: &Function, values: &[Value]) -> Vec<Inst> {
    let mut open = function.returned(function.body).to_vec();
    let mut found = HashSet::new();
    while let Some(value) = open.pop() {
        if let Some(inst) = function.defining(value).filter(|_| !values.contains(&value))
            && found.insert(inst)
        {
            open.extend(function.operands(inst));
        }
    }
    function.insts(function.body).iter().copied().filter(|inst| found.contains(inst)).collect()
}
