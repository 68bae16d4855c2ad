//! What a function's parameters and results may be.
//!
//! Invariants:
//! - A kernel takes buffers and scalars, last the `i64` bounds of its work units, and returns nothing.
//! - A host program takes buffers and scalars; its results are the tensors that it gives through `alloc_output`, and it returns nothing.
//! - `scratch` is in the body of a kernel, not in a region.
use super::{Check, stage::describe};
use crate::{
    diag::Code,
    graph::FunctionKind,
    ops::OpKind,
    types::{DType, Type},
};

pub(super) fn check(cx: &mut Check<'_>) {
    let kind = cx.function.kind;
    match kind {
        FunctionKind::Func | FunctionKind::Routine => {}
        FunctionKind::Kernel => {
            check_parameters(cx);
            check_kernel(cx);
        }
        FunctionKind::Host => {
            check_parameters(cx);
            check_host(cx);
        }
    }
    check_scratch(cx);
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

/// The results of a host program say what `alloc_output` makes; the program itself returns nothing.
fn check_host(cx: &mut Check<'_>) {
    if let Some((i, ty)) = cx.function.results.iter().enumerate().find(|(_, ty)| !matches!(ty, Type::Tensor(_))) {
        cx.error(Code::E0214, None, format!("result {i} of a host program is a tensor, found {ty}"));
    }
}

fn check_kernel(cx: &mut Check<'_>) {
    let function = cx.function;
    let types: Vec<&Type> = function.parameters().iter().map(|&p| function.ty(p)).collect();
    let bound = Type::scalar(DType::I64);
    if !matches!(types[..], [.., begin, end] if *begin == bound && *end == bound) {
        cx.error(Code::E0214, None, "a kernel's last two parameters are i64: the first work unit, and the one after the last");
    }
    if !function.results.is_empty() {
        cx.error(Code::E0214, None, format!("a kernel has no results, found {}", function.results.len()));
    }
}

fn check_scratch(cx: &mut Check<'_>) {
    let function = cx.function;
    let body = function.insts(function.body);
    for inst in function.walk(function.body) {
        let is_at_home = function.kind == FunctionKind::Kernel && body.contains(&inst);
        if function.kind_of(inst) == OpKind::Scratch && !is_at_home {
            cx.op_error(Code::E0214, inst, "memory of a task is asked for in the body of a kernel, not in a region or elsewhere");
        }
    }
}
