//! Verifies the parameters and results of functions.
//!
//! Invariants:
//! - A kernel takes buffers and scalars, last the `i64` bounds of its work units unless it runs on
//!   a grid, and returns nothing.
//! - A grid has whole warps of a power of two of threads; only kernels have one. A processor of the
//!   device can hold the blocks that it asks for.
//! - A host program takes buffers and scalars. Its results are tensors: the outputs, which
//!   `alloc_output` makes, by their index; the body returns nothing.
//! - A variant is of a function of its kind that is no variant, and has its parameters, results and
//!   stores.
//! - Stores name results and parameters of one type, each once. Only functions and host programs
//!   that nothing calls have them.
//! - `scratch` and `shared` are in the body of a kernel, not in a region.
use super::{Check, stage::describe};
use crate::{
    attr::Attr,
    diag::Code,
    graph::{Function, FunctionKind, Grid, Inst, Module},
    infer::same_by_facts,
    ops::OpKind,
    types::{DType, Type},
};

pub(super) fn check(cx: &mut Check<'_>) {
    let kind = cx.function.kind;
    check_grid(cx);
    match kind {
        FunctionKind::Func | FunctionKind::Routine => {}
        FunctionKind::Kernel => {
            check_parameters(cx);
            check_kernel(cx);
        }
        FunctionKind::Host => {
            check_parameters(cx);
            check_outputs(cx);
        }
    }
    check_scratch(cx);
    check_variant(cx);
    check_stores(cx);
}

fn check_stores(cx: &mut Check<'_>) {
    let function = cx.function;
    if function.stores.is_empty() {
        return;
    }
    let what = describe(function.kind);
    if matches!(function.kind, FunctionKind::Kernel | FunctionKind::Routine) {
        return cx.error(Code::E0214, None, format!("a {what} has no results that are stored into parameters"));
    }
    if is_called(cx.module, function) {
        let message = format!("@{} stores results into parameters, so it is an entry, and nothing calls it", function.name);
        cx.error(Code::E0214, None, message);
    }
    for (i, store) in function.stores.iter().enumerate() {
        let (result, parameter) = (function.results.get(store.result), function.parameters().get(store.parameter));
        let (Some(result), Some(&parameter)) = (result, parameter) else {
            let message = format!("result {} is stored into parameter {}, and one is missing", store.result, store.parameter);
            cx.error(Code::E0214, None, message);
            continue;
        };
        if function.stores[..i].iter().any(|other| other.result == store.result || other.parameter == store.parameter) {
            let message = format!("result {} and parameter {} are in two stores", store.result, store.parameter);
            cx.error(Code::E0214, None, message);
        }
        let held = function.ty(parameter).shaped().cloned().map(Type::Tensor);
        if !held.is_some_and(|held| same_by_facts(&cx.solver, &held, result)) {
            let ty = function.ty(parameter);
            let message = format!("result {} has type {result}, and is stored into a parameter of type {ty}", store.result);
            cx.error(Code::E0205, None, message);
        }
    }
}

fn is_called(module: &Module, function: &Function) -> bool {
    let calls = |caller: &Function, inst: &Inst| {
        let name = caller.inst(*inst).attrs.first();
        caller.kind_of(*inst) == OpKind::Call && matches!(name, Some(Some(Attr::Symbol(name))) if *name == function.name)
    };
    module.functions.iter().any(|caller| caller.walk(caller.body).iter().any(|inst| calls(caller, inst)))
}

fn check_variant(cx: &mut Check<'_>) {
    let variant = cx.function;
    let Some(name) = &variant.variant_of else { return };
    let types = |f: &Function| f.parameters().iter().map(|&p| f.ty(p).clone()).chain(f.results.clone()).collect::<Vec<_>>();
    let fits = |f: &&Function| {
        f.variant_of.is_none() && f.kind == variant.kind && types(f) == types(variant) && f.stores == variant.stores
    };
    if cx.module.function(name).filter(fits).is_none() {
        cx.error(Code::E0214, None, format!("@{} is no variant of @{name}: they take or give different things", variant.name));
    }
}

fn is_scalar(ty: &Type) -> bool {
    matches!(ty, Type::Vector { lanes: 1, .. })
}

fn check_parameters(cx: &mut Check<'_>) {
    let function = cx.function;
    let what = describe(function.kind);
    for (i, &parameter) in function.parameters().iter().enumerate() {
        let ty = function.ty(parameter);
        if !is_scalar(ty) && !matches!(ty, Type::Buffer { .. }) {
            cx.error(Code::E0214, None, format!("parameter {i} of a {what} is a buffer or a scalar, found {ty}"));
        }
    }
}

/// Checks the outputs of a host program.
fn check_outputs(cx: &mut Check<'_>) {
    let function = cx.function;
    if let Some((i, ty)) = function.results.iter().enumerate().find(|(_, ty)| !matches!(ty, Type::Tensor(_))) {
        cx.error(Code::E0214, None, format!("result {i} of a host program is a tensor, the output of this index, found {ty}"));
    }
    if let Some(end) = function.terminator(function.body).filter(|&end| !function.operands(end).is_empty()) {
        cx.op_error(Code::E0214, end, "a host program returns nothing: its outputs are what `alloc_output` makes");
    }
    // A program that states no results says nothing about its outputs.
    for inst in function.walk(function.body).into_iter().filter(|_| !function.results.is_empty()) {
        if function.kind_of(inst) == OpKind::AllocOutput {
            check_output(cx, inst);
        }
    }
}

fn check_output(cx: &mut Check<'_>, inst: Inst) {
    let function = cx.function;
    let data = function.inst(inst);
    let (Some(Some(Attr::Int(index))), Some(&result)) = (data.attrs.first(), data.results.first()) else { return };
    if usize::try_from(*index).is_ok_and(|index| function.stored_into(index).is_some()) {
        let message = format!("output {index} is stored into a parameter, and needs no memory of its own");
        return cx.op_error(Code::E0214, inst, message);
    }
    let stated = usize::try_from(*index).ok().and_then(|index| function.results.get(index));
    let Some(stated) = stated else {
        let message = format!("output {index} of a program that has {}", function.results.len());
        return cx.op_error(Code::E0214, inst, message);
    };
    let ty = function.ty(result);
    let made = ty.shaped().cloned().map(Type::Tensor);
    if !made.is_some_and(|made| same_by_facts(&cx.solver, &made, stated)) {
        cx.op_error(Code::E0205, inst, format!("output {index} is made as {ty}, the program states {stated}"));
    }
}

fn check_kernel(cx: &mut Check<'_>) {
    let function = cx.function;
    let types: Vec<&Type> = function.parameters().iter().map(|&p| function.ty(p)).collect();
    let bound = Type::scalar(DType::I64);
    if function.grid.is_none() && !matches!(types[..], [.., begin, end] if *begin == bound && *end == bound) {
        cx.error(Code::E0214, None, "a kernel's last two parameters are i64: the first work unit, and the one after the last");
    }
    if !function.results.is_empty() {
        cx.error(Code::E0214, None, format!("a kernel has no results, found {}", function.results.len()));
    }
}

/// Threads that a processor of any GPU holds at once.
const MOST_RESIDENT_THREADS: u64 = 2048;

/// Checks the blocks of a grid.
fn check_grid(cx: &mut Check<'_>) {
    let Some(Grid { threads, warp, resident }) = cx.function.grid else { return };
    if cx.function.kind != FunctionKind::Kernel {
        let message = format!("a {} runs on no grid of threads: a kernel does", describe(cx.function.kind));
        cx.error(Code::E0214, None, message);
    }
    if !warp.is_power_of_two() || threads == 0 || threads % warp != 0 {
        let message =
            format!("blocks of {threads} threads in warps of {warp}: expected whole warps of a power of two of threads");
        cx.error(Code::E0214, None, message);
    }
    if let Some(resident) = resident
        && (resident == 0 || u64::from(resident) * u64::from(threads) > MOST_RESIDENT_THREADS)
    {
        let message = format!(
            "{resident} blocks of {threads} threads on one processor: expected at least one, and at most {MOST_RESIDENT_THREADS} threads"
        );
        cx.error(Code::E0214, None, message);
    }
}

fn check_scratch(cx: &mut Check<'_>) {
    let function = cx.function;
    let body = function.insts(function.body);
    for inst in function.walk(function.body) {
        let is_at_home = function.kind == FunctionKind::Kernel && body.contains(&inst);
        if matches!(function.kind_of(inst), OpKind::Scratch | OpKind::Shared) && !is_at_home {
            let whose = if function.kind_of(inst) == OpKind::Scratch { "a task" } else { "a block" };
            let message = format!("memory of {whose} is asked for in the body of a kernel, not in a region or elsewhere");
            cx.op_error(Code::E0214, inst, message);
        }
    }
}
