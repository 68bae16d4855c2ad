//! Verifies the ops, types and functions of a stage.
//!
//! Invariants:
//! - Functions (`func`) exist up to the buffer stage, host programs from it on, kernels and
//!   routines at the kernel stage.
//! - An op is at a stage, and in a kind of function, that its declaration names.
//! - A group's region uses no value of the function around it.
//! - Up to the fused stage every value is a tensor; at the kernel stage none is, and kernels never
//!   have one.
//! - Every buffer is in a memory space that a backend has; shared memory is only in GPU kernels.
use super::Check;
use crate::{
    diag::Code,
    graph::{Block, Function, FunctionKind, Module, Value},
    ops::{OpKind, Stage, Stages},
    types::{Space, Type},
};
use std::collections::HashSet;

pub(super) fn check(cx: &mut Check<'_>) {
    let function = cx.function;
    if !has_functions(cx.stage, function.kind) {
        let message = format!("a {} has no place at the stage {}", describe(function.kind), cx.stage.name());
        return cx.error(Code::E0208, None, message);
    }
    for (i, &parameter) in function.parameters().iter().enumerate() {
        if let Some(message) = misplaced(cx.stage, function, function.ty(parameter)) {
            cx.error(Code::E0208, None, message);
        }
        if let Some(message) = outside_of_block(function, function.ty(parameter)) {
            cx.error(Code::E0801, None, format!("parameter {i}: {message}"));
        }
    }
    for inst in function.walk(function.body) {
        let def = function.def(inst);
        if !is_legal(def.stages, cx.stage, function.kind) {
            let message = format!("the op is not legal in a {} at the stage {}", describe(function.kind), cx.stage.name());
            cx.op_error(Code::E0208, inst, message);
        }
        let results = function.results_of(inst);
        let arguments = function.inst(inst).regions.iter().flat_map(|&region| function.arguments(region));
        let values: Vec<Value> = results.iter().chain(arguments).copied().collect();
        if let Some(message) = values.iter().find_map(|&v| misplaced(cx.stage, function, function.ty(v))) {
            cx.op_error(Code::E0208, inst, message);
        }
        if let Some(message) = values.iter().find_map(|&v| outside_of_block(function, function.ty(v))) {
            cx.op_error(Code::E0801, inst, message);
        }
        if def.kind == OpKind::Fusion && sees_outside(function, function.inst(inst).regions[0]) {
            cx.op_error(Code::E0208, inst, "the region uses a value from outside: a group reads its operands only");
        }
    }
}

fn sees_outside(function: &Function, region: Block) -> bool {
    let insts = function.walk(region);
    let regions = insts.iter().flat_map(|&inst| &function.inst(inst).regions).chain([&region]);
    let mut inside: HashSet<Value> = regions.flat_map(|&region| function.arguments(region)).copied().collect();
    inside.extend(insts.iter().flat_map(|&inst| function.results_of(inst)));
    insts.iter().any(|&inst| function.operands(inst).iter().any(|operand| !inside.contains(operand)))
}

fn has_functions(stage: Stage, kind: FunctionKind) -> bool {
    match kind {
        FunctionKind::Func => stage <= Stage::Buffer,
        FunctionKind::Host => stage >= Stage::Buffer,
        FunctionKind::Kernel | FunctionKind::Routine => stage == Stage::Kernel,
    }
}

fn is_legal(stages: Stages, stage: Stage, kind: FunctionKind) -> bool {
    let on_device = matches!(kind, FunctionKind::Kernel | FunctionKind::Routine);
    match stages {
        Stages::Both => true,
        Stages::Tensor => stage <= Stage::Buffer && !on_device,
        Stages::Kernel => kind != FunctionKind::Func,
        Stages::Only(stages) => stages.contains(&stage) && !on_device,
    }
}

fn misplaced(stage: Stage, function: &Function, ty: &Type) -> Option<String> {
    let is_tensor = matches!(ty, Type::Tensor(_));
    let is_right = match stage {
        Stage::Tensor | Stage::Placed | Stage::Fused => is_tensor,
        Stage::Buffer => true,
        Stage::Kernel => !is_tensor,
    };
    (!is_right).then(|| format!("a value of type {ty} in a {} at the stage {}", describe(function.kind), stage.name()))
}

fn outside_of_block(function: &Function, ty: &Type) -> Option<String> {
    let is_shared = matches!(ty, Type::Buffer { space: Space::Shared, .. });
    (is_shared && function.grid.is_none())
        .then(|| format!("a value of type {ty}: the threads of a grid kernel's block alone share memory"))
}

/// Returns the name of a kind of function in messages.
pub(super) fn describe(kind: FunctionKind) -> &'static str {
    match kind {
        FunctionKind::Func => "function",
        FunctionKind::Kernel => "kernel",
        FunctionKind::Routine => "routine",
        FunctionKind::Host => "host program",
    }
}

/// The first stage at which the functions and ops of a module are all legal; the tensor stage if
/// there is none.
pub fn stage_of(module: &Module) -> Stage {
    let fits = |stage: Stage| {
        module.functions.iter().all(|function| {
            has_functions(stage, function.kind)
                && function.walk(function.body).into_iter().all(|inst| is_legal(function.def(inst).stages, stage, function.kind))
        })
    };
    Stage::ALL.into_iter().find(|&stage| fits(stage)).unwrap_or(Stage::Tensor)
}
