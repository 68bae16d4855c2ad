//! Arithmetic on sizes: scalars that are known as dim expressions stay dim expressions.
//!
//! A `dim` of a narrow type stands for its value; a program whose sizes overflow the type that it
//! asks for has no meaning to keep. Division and remainder of dims round down while those of
//! tensors truncate: both agree on non-negative values.
use super::arithmetic::operands;
use crate::{
    analysis::query::Query,
    rules::rewrite::{Rewriter, Rule, rule},
};
use disc_ir::{Dim, Inst, OpKind, Value};

pub(super) const RULES: &[Rule] = &[
    rule("size-of", "get_dimension_size(x) => dim [size]", OpKind::GetDimensionSize, size_of),
    rule("dim-constant", "dim [3] => 3", OpKind::DimValue, constant),
    rule("dim-add", "dim [m] + dim [n] => dim [m + n]", OpKind::Add, |rw, i| binary(rw, i, |a, b| Some(a + b))),
    rule("dim-subtract", "dim [m] - dim [n] => dim [m - n]", OpKind::Subtract, |rw, i| binary(rw, i, |a, b| Some(a - b))),
    rule("dim-multiply", "dim [m] * dim [n] => dim [m * n]", OpKind::Multiply, |rw, i| binary(rw, i, |a, b| Some(a * b))),
    rule("dim-divide", "dim [m] / dim [n] => dim [m / n]", OpKind::Divide, divide),
    rule("dim-remainder", "remainder(dim [m], dim [n]) => dim [m % n]", OpKind::Remainder, remainder),
    rule("dim-maximum", "max(dim [m], dim [n]) => dim [max(m, n)]", OpKind::Maximum, |rw, i| {
        binary(rw, i, |a, b| Some(Dim::max(a, b)))
    }),
    rule("dim-minimum", "min(dim [m], dim [n]) => dim [min(m, n)]", OpKind::Minimum, |rw, i| {
        binary(rw, i, |a, b| Some(Dim::min(a, b)))
    }),
    rule("dim-negate", "-dim [m] => dim [-m]", OpKind::Negate, negate),
    rule("dim-convert", "convert(dim [m]) => dim [m] of integers of 32 bits or more", OpKind::Convert, convert),
];

pub(super) fn dim_of(rw: &mut Rewriter<'_>, inst: Inst, dim: Dim) -> Option<Value> {
    if dim.defect().is_some() {
        return None;
    }
    let ty = rw.f.ty(rw.f.result(inst)).clone();
    rw.build(|b| b.op(OpKind::DimValue).attr("value", dim).result(ty).value())
}

fn size_of(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x] = operands(rw, inst);
    let size = rw.f.shape(x)[rw.f.int(inst, "dimension") as usize].clone();
    dim_of(rw, inst, size)
}

fn constant(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let result = rw.f.result(inst);
    let value = rw.f.as_dim(result)?.as_const()?;
    let literal = disc_ir::Literal::splat_i64(rw.f.ty(result).dtype(), value);
    // A value that wraps stays: its use reports an error.
    (literal.i64_at(0) == value).then(|| rw.constant(result, literal)).flatten()
}

/// Both operands as dims, at least one of them symbolic; constants are folded elsewhere.
fn pair(rw: &Rewriter<'_>, inst: Inst) -> Option<(Dim, Dim)> {
    let [a, b] = operands(rw, inst);
    let (a, b) = (rw.f.as_dim(a)?, rw.f.as_dim(b)?);
    (a.as_const().is_none() || b.as_const().is_none()).then_some((a, b))
}

fn binary(rw: &mut Rewriter<'_>, inst: Inst, combine: impl FnOnce(&Dim, &Dim) -> Option<Dim>) -> Option<Value> {
    let (a, b) = pair(rw, inst)?;
    combine(&a, &b).and_then(|dim| dim_of(rw, inst, dim))
}

fn is_at_least(rw: &Rewriter<'_>, least: i64, dim: &Dim) -> bool {
    rw.solver.less_equal(&Dim::constant(least), dim)
}

/// Division by zero is 0 on both sides.
fn divide(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let (a, b) = pair(rw, inst)?;
    let agree = is_at_least(rw, 0, &a) && is_at_least(rw, 0, &b);
    agree.then(|| dim_of(rw, inst, a.floor_div(&b))).flatten()
}

/// For a zero divisor the tensor op gives `m` and the dim 0.
fn remainder(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let (a, b) = pair(rw, inst)?;
    let agree = is_at_least(rw, 0, &a) && is_at_least(rw, 1, &b);
    agree.then(|| dim_of(rw, inst, a.modulo(&b))).flatten()
}

fn negate(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x] = operands(rw, inst);
    let dim = rw.f.as_dim(x).filter(|dim| dim.as_const().is_none())?;
    dim_of(rw, inst, -dim)
}

fn convert(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x] = operands(rw, inst);
    let to = rw.f.ty(rw.f.result(inst)).dtype();
    let is_wide = to.is_integer() && to.bits() >= 32;
    let dim = rw.f.as_dim(x).filter(|dim| is_wide && dim.as_const().is_none())?;
    dim_of(rw, inst, dim)
}
