//! Folds constants, by running ops on the interpreter at compile time.
//!
//! Invariants:
//! - Results are small: a large table is cheaper to compute where it is used than to store.
//! - Elementwise ops on splat constants fold for any shape.
//! - An op that fails when it runs (at a limit of the interpreter, for example) stays.
use crate::{
    analysis::query::Query,
    pass::{PassCx, PassDef},
    rules::rewrite::{Rewriter, visit},
};
use disc_ir::{
    Diagnostic, Function, FunctionKind, Inst, Literal, Module, OpKind, Solver, Type, Value,
    graph::InstData,
    interp::{self, Limits, Tensor},
    ops::{Stage, Trait, is_pure},
};
use smallvec::{SmallVec, smallvec};
use std::{collections::HashMap, sync::Arc};

/// The most elements of a result, and of all operands together.
const MOST_ELEMENTS: i64 = 1024;
const MOST_OPERAND_ELEMENTS: i64 = 1 << 16;

/// Replaces ops on constants by their results.
pub static PASS: PassDef = PassDef {
    name: "fold",
    doc: "Replaces ops on constants by their results, computed by the interpreter, if these are small or splats.",
    stages: (Stage::Tensor, Stage::Tensor),
    run,
};

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let mut folded = 0;
    for function in module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func) {
        let solver = Arc::new(Solver::new(&function.facts));
        folded += visit(function, &solver, &mut |rw, inst| {
            let Some(literal) = known(rw, inst) else { return Ok(None) };
            let result = rw.f.result(inst);
            let ty = rw.f.ty(result).clone();
            let constant =
                if cx.spend() { rw.build(|b| b.op(OpKind::Constant).attr("value", literal).result(ty).value()) } else { None };
            rw.take_error().map(|()| constant)
        })?;
    }
    Ok(folded)
}

/// The result of an op on constants.
fn known(rw: &Rewriter<'_>, inst: Inst) -> Option<Literal> {
    let f: &Function = rw.f;
    let (def, operands) = (f.def(inst), f.operands(inst));
    let constant = |value: &Value| f.made_by(*value, OpKind::Constant).is_some();
    if !is_pure(f.inst(inst)) || f.results_of(inst).len() != 1 || operands.is_empty() || !operands.iter().all(constant) {
        return None;
    }
    let splats = def.has(Trait::Elementwise) && operands.iter().all(|&value| f.splat(value).is_some());
    let count = |value: Value| f.ty(value).as_tensor().and_then(|ty| ty.element_count().as_const()).unwrap_or(i64::MAX);
    let small = count(f.result(inst)) <= MOST_ELEMENTS
        && operands.iter().map(|&value| count(value)).fold(0, i64::saturating_add) <= MOST_OPERAND_ELEMENTS;
    if !splats && !small || crate::analysis::call_invariant::uses(f, inst).len() > operands.len() {
        return None;
    }
    Some(literal(&evaluate(f, inst, splats)?))
}

/// Runs a function that depends only on the op and its operands; on single elements if all operands
/// are splats.
fn evaluate(from: &Function, inst: Inst, on_one: bool) -> Option<Tensor> {
    let mut function = Function::new("known", FunctionKind::Func);
    let body = function.body;
    let scalar = |ty: &Type| Type::tensor([], ty.dtype());
    let mut map = HashMap::new();
    for &operand in from.operands(inst) {
        let copy = function.import(from, from.defining(operand)?, &mut map);
        function.append(body, copy);
    }
    let op = function.import(from, inst, &mut map);
    function.append(body, op);
    if on_one {
        for inst in function.insts(body).to_vec() {
            let result = function.result(inst);
            let ty = scalar(function.ty(result));
            function.set_type(result, ty);
        }
    }
    let result = function.result(op);
    function.results = vec![function.ty(result).clone()];
    let operands: SmallVec<[Value; 3]> = smallvec![result];
    let end = InstData {
        kind: OpKind::Return,
        operands,
        results: smallvec![],
        attrs: smallvec![],
        regions: smallvec![],
        span: None,
        origin: None,
    };
    let end = function.add_inst(end, []);
    function.append(body, end);
    let module = Module { functions: vec![function], ..Module::default() };
    let limits = Limits { steps: 1 << 22, bytes: 1 << 26, depth: 8 };
    let results = interp::run_with(&module, "known", &[], &|_| None, limits).ok()?;
    results.into_iter().next()
}

fn literal(tensor: &Tensor) -> Literal {
    let (dtype, bytes) = (tensor.dtype(), tensor.bytes());
    let mut elements = bytes.chunks_exact(dtype.size());
    match elements.next() {
        Some(first) if elements.all(|element| element == first) => Literal::splat(dtype, first),
        // An empty operand has no element; any value stands for it.
        None => Literal::splat_i64(dtype, 0),
        Some(_) => Literal::dense(dtype, bytes.to_vec()),
    }
}
