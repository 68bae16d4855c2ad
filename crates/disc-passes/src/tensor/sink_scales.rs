//! Sinks the scales of a quantised matrix after the matmul: `x @ (f32(q) * s)` becomes
//! `(x @ f32(q)) * s`.
//!
//! The matmul then reads the stored integers; otherwise each call would widen the matrix to f32, or
//! the wide form would be stored.
//!
//! Invariants: the scales do not vary along the sums; only call-invariant integer matrices are
//! rewritten.
use crate::{
    analysis::{call_invariant::CallInvariant, cost_model::CostModel, query::Query},
    pass::{PassCx, PassDef},
    rules::{
        dead_ops,
        rewrite::{Rewriter, visit},
    },
    tensor::pack_weights::{matrix, stored},
};
use disc_ir::{DType, Diagnostic, Dim, FunctionKind, Inst, Module, OpKind, Solver, Value, ops::Stage};
use std::sync::Arc;

/// Multiplies sums by the scales of their columns.
pub(crate) static PASS: PassDef = PassDef {
    name: "sink-scales",
    doc: "Multiplies the sums of a matmul by the scales of its columns, if its right operand is an integer weight times \
          these scales.",
    stages: (Stage::Tensor, Stage::Tensor),
    run,
};

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let model = cx.options.model.clone();
    let mut moved = 0;
    for function in module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func) {
        let (fixed, solver) = (CallInvariant::of(function), Arc::new(Solver::new(&function.facts)));
        moved += visit(function, &solver, &mut |rw, inst| {
            let Some(scaled) = scaled(rw, inst, &fixed, &*model) else { return Ok(None) };
            let product = if cx.spend() { scale_sums(rw, inst, scaled) } else { None };
            rw.take_error().map(|()| product)
        })?;
        dead_ops::remove_dead(function);
    }
    Ok(moved)
}

/// A matrix and the scales of its columns: a vector, or one number for all.
struct Scaled {
    matrix: Value,
    scales: Value,
    count: i64,
}

/// The right operand of a matmul, if it is an integer matrix times scales.
fn scaled(rw: &Rewriter<'_>, inst: Inst, fixed: &CallInvariant, model: &dyn CostModel) -> Option<Scaled> {
    let operand = matrix(rw, inst, fixed, model)?;
    let multiply = rw.f.made_by(operand.value, OpKind::Multiply)?;
    let is_f32 = |value: Value| rw.f.ty(value).dtype() == DType::F32;
    if !is_f32(operand.value) || !is_f32(rw.f.result(inst)) {
        return None;
    }
    let [a, b] = rw.f.operands(multiply)[..] else { return None };
    let is_integer = |value: Value| rw.f.ty(stored(rw, value)).dtype().is_integer();
    let (matrix, factor) = if is_integer(a) { (a, b) } else { (b, a) };
    let broadcast = rw.f.made_by(factor, OpKind::BroadcastInDim)?;
    let scales = rw.f.operands(broadcast)[0];
    let sizes: Vec<i64> = rw.f.shape(scales).iter().map(Dim::as_const).collect::<Option<_>>()?;
    let axes = rw.f.ints(broadcast, "dims");
    let along_sums = axes.iter().zip(&sizes).any(|(&axis, &size)| axis == operand.sum_axis as i64 && size != 1);
    let suits = is_integer(matrix) && !along_sums && operand.rows != 1;
    suits.then_some(Scaled { matrix, scales, count: sizes.iter().product() })
}

/// `dot(x, q * s)` as `dot(x, q) * s`.
fn scale_sums(rw: &mut Rewriter<'_>, inst: Inst, Scaled { matrix, scales, count }: Scaled) -> Option<Value> {
    let (left, attrs) = (rw.f.operands(inst)[0], rw.f.inst(inst).attrs.clone());
    let sums = rw.build(|b| b.op(OpKind::DotGeneral).operands(&[left, matrix]).attrs(attrs).value())?;
    let dims = rw.f.shape(sums).to_vec();
    let axes = if count == 1 { Vec::new() } else { vec![dims.len() - 1] };
    let sizes = axes.iter().map(|_| Dim::constant(count)).collect::<Vec<_>>();
    let scales = rw.reshape(scales, sizes)?;
    let scales = rw.broadcast(scales, &axes, dims)?;
    rw.emit(OpKind::Multiply, &[sums, scales])
}
