//! Verifies each op against its declaration, and the results of blocks.
//!
//! Invariants:
//! - Operands, attributes, regions and results fit the op's declaration, and the types are those
//!   that it infers from the facts.
//! - The body returns values of the function's result types (but for host programs).
use super::Check;
use crate::{
    build::region_type,
    diag::Code,
    graph::{FunctionKind, Inst},
    infer::{InferCx, RegionType, infer_op, same_by_facts},
    types::Type,
};

pub(super) fn check(cx: &mut Check<'_>) {
    for inst in cx.function.walk(cx.function.body) {
        let result = infer(cx, inst);
        cx.op_result(inst, result);
    }
    check_results(cx);
}

fn infer(cx: &Check<'_>, inst: Inst) -> Result<(), crate::Diagnostic> {
    let function = cx.function;
    let data = function.inst(inst);
    let types = |values: &[crate::Value]| values.iter().map(|&v| function.ty(v).clone()).collect::<Vec<Type>>();
    let regions: Vec<RegionType> = data.regions.iter().map(|&region| region_type(function, region)).collect();
    let (operands, results) = (types(&data.operands), types(&data.results));
    infer_op(&InferCx {
        def: data.kind.def(),
        operands: &operands,
        attrs: &data.attrs,
        regions: &regions,
        declared: Some(&results),
        solver: &cx.solver,
    })
    .map(|_| ())
}

fn check_results(cx: &mut Check<'_>) {
    let function = cx.function;
    // The outputs of a host program are not returned.
    if function.kind == FunctionKind::Host {
        return;
    }
    let Some(end) = function.terminator(function.body) else { return };
    let returned = function.operands(end);
    if returned.len() != function.results.len() {
        let message = format!("{} values are returned, the function has {} results", returned.len(), function.results.len());
        return cx.op_error(Code::E0201, end, message);
    }
    for (i, (&value, stated)) in returned.iter().zip(&function.results).enumerate() {
        let ty = function.ty(value);
        if !same_by_facts(&cx.solver, ty, stated) {
            cx.op_error(Code::E0205, end, format!("result {i} has type {ty}, the function states {stated}"));
        }
    }
}
