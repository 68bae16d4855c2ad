//! Replaces scalars that short integer tensors of sizes give by dim expressions: a program joins
//! sizes to a shape, and picks one of them or multiplies them.
//!
//! As for scalars ([`sizes`](super::sizes)), a program whose sizes overflow has no meaning to keep.
use super::sizes::dim_of;
use crate::{
    analysis::query::Query,
    rules::rewrite::{Rewriter, Rule, rule},
};
use disc_ir::{Attr, DType, Dim, Inst, OpKind, Value, ops::body};

pub(super) const RULES: &[Rule] = &[
    rule("size-picked", "reshape(slice(concatenate(.., dim [m], ..))) => dim [m] of a scalar", OpKind::Reshape, picked),
    rule("sizes-reduced", "reduce(concatenate(dim [m], dim [n]), init) => dim [m + n + init]", OpKind::Reduce, reduced),
];

/// Longer tensors are data.
const MOST: i64 = 64;

/// Replaces a size that is picked from a list.
fn picked(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let result = rw.f.result(inst);
    if !rw.f.shape(result).is_empty() {
        return None;
    }
    let [dim] = &sizes_of(rw, rw.f.operands(inst)[0])?[..] else { return None };
    let dim = dim.clone();
    dim.as_const().is_none().then(|| dim_of(rw, inst, dim)).flatten()
}

/// Replaces the sum, product or extremum of a list of sizes.
fn reduced(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let &[x, init] = rw.f.operands(inst) else { return None };
    if !rw.f.shape(rw.f.result(inst)).is_empty() {
        return None;
    }
    let op = body::monoid(rw.f, rw.f.inst(inst).regions[0])?;
    let (sizes, init) = (sizes_of(rw, x)?, rw.f.as_dim(init)?);
    let total = sizes.iter().try_fold(init, |total, size| combined(rw, op, &total, size))?;
    total.as_const().is_none().then(|| dim_of(rw, inst, total)).flatten()
}

/// Returns the elements of a scalar or a list, in order, if all are sizes or constants.
fn sizes_of(rw: &Rewriter<'_>, value: Value) -> Option<Vec<Dim>> {
    let tensor = rw.f.ty(value).as_tensor()?;
    let count = tensor.element_count().as_const().filter(|count| (0..=MOST).contains(count))?;
    if tensor.rank() > 1 || !matches!(tensor.dtype, DType::I32 | DType::I64) {
        return None;
    }
    if tensor.rank() == 0 {
        return rw.f.as_dim(value).map(|dim| vec![dim]);
    }
    let inst = rw.f.defining(value)?;
    let operands = rw.f.operands(inst);
    match rw.f.kind_of(inst) {
        OpKind::Constant => {
            let Some(Attr::Literal(literal)) = rw.f.attr(inst, "value") else { return None };
            Some((0..count as usize).map(|i| Dim::constant(literal.i64_at(i))).collect())
        }
        OpKind::Reshape | OpKind::Convert => sizes_of(rw, operands[0]),
        OpKind::Concatenate => operands.iter().try_fold(Vec::new(), |mut all, &part| {
            all.extend(sizes_of(rw, part)?);
            Some(all)
        }),
        OpKind::BroadcastInDim if rw.f.shape(operands[0]).is_empty() => Some(vec![rw.f.as_dim(operands[0])?; count as usize]),
        OpKind::Slice => {
            let all = sizes_of(rw, operands[0])?;
            let start = rw.f.dims(inst, "start")[0].as_const()? as usize;
            let step = rw.f.ints(inst, "strides").first().map_or(1, |&step| step as usize);
            Some(all.into_iter().skip(start).step_by(step).take(count as usize).collect())
        }
        op => {
            let &[left, right] = operands else { return None };
            let (left, right) = (sizes_of(rw, left)?, sizes_of(rw, right)?);
            left.iter().zip(&right).map(|(a, b)| combined(rw, op, a, b)).collect()
        }
    }
}

/// Returns the dim that an op of two sizes computes, if there is one.
fn combined(rw: &Rewriter<'_>, op: OpKind, a: &Dim, b: &Dim) -> Option<Dim> {
    let is_at_least = |least, dim| rw.solver.less_equal(&Dim::constant(least), dim);
    match op {
        OpKind::Add => Some(a + b),
        OpKind::Subtract => Some(a - b),
        OpKind::Multiply => Some(a * b),
        OpKind::Maximum => Some(Dim::max(a, b)),
        OpKind::Minimum => Some(Dim::min(a, b)),
        OpKind::Divide if is_at_least(0, a) && is_at_least(1, b) => Some(a.floor_div(b)),
        _ => None,
    }
}
