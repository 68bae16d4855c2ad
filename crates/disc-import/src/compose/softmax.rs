//! Declares softmax and its kin. Half types are computed in f32.
use super::{Composed, axis_of};
use crate::emit::Emitter;
use disc_ir::{DType, Diagnostic, OpKind, Value, ops::DTypeClass};

const FLOAT: DTypeClass = DTypeClass::FLOAT;

composition! {
    /// `exp(x) / sum(exp(x))` along `axis`, in the type `dtype`.
    ///
    /// (C1) `axis` is an axis of `x`; a scalar has axis 0.
    Softmax = "softmax"(x: one(DTypeClass::ANY)) { axis: i64, dtype: DType } -> (y) in softmax;
}

fn softmax(b: &Emitter<'_>, Softmax { x, axis, dtype }: Softmax) -> Composed {
    Ok(vec![softmax_of(b, x, axis, dtype)?])
}

composition! {
    /// The logarithm of the softmax along `axis`, in the type `dtype`.
    ///
    /// (C1) `axis` is an axis of `x`; a scalar has axis 0.
    LogSoftmax = "log_softmax"(x: one(DTypeClass::ANY)) { axis: i64, dtype: DType } -> (y) in log_softmax;
}

fn log_softmax(b: &Emitter<'_>, LogSoftmax { x, axis, dtype }: LogSoftmax) -> Composed {
    let x = b.wide(b.convert(x, dtype)?)?;
    let axis = axis_of(b, x, axis)?;
    let distance = b.sub(x, b.reduce(x, &[axis], OpKind::Maximum, true)?)?;
    let total = b.op(OpKind::Log, &[b.sum(b.op(OpKind::Exponential, &[distance])?, &[axis], true)?])?;
    Ok(vec![b.convert(b.sub(distance, total)?, dtype)?])
}

composition! {
    /// The softmax along `axis`, in the type `dtype`; a row that is all `-inf` gives zeros.
    ///
    /// (C1) `axis` is an axis of `x`; a scalar has axis 0.
    SafeSoftmax = "safe_softmax"(x: one(FLOAT)) { axis: i64, dtype: DType } -> (y) in safe_softmax;
}

fn safe_softmax(b: &Emitter<'_>, SafeSoftmax { x, axis, dtype }: SafeSoftmax) -> Composed {
    let y = softmax_of(b, x, axis, dtype)?;
    let axis = axis_of(b, x, axis)?;
    let empty = b.reduce(b.compare("EQ", x, f64::NEG_INFINITY)?, &[axis], OpKind::And, true)?;
    Ok(vec![b.select(empty, b.lift(0, b.dtype(y))?, y)?])
}

fn softmax_of(b: &Emitter<'_>, x: Value, axis: i64, dtype: DType) -> Result<Value, Diagnostic> {
    let x = b.wide(b.convert(x, dtype)?)?;
    let axis = axis_of(b, x, axis)?;
    let powers = b.op(OpKind::Exponential, &[b.sub(x, b.reduce(x, &[axis], OpKind::Maximum, true)?)?])?;
    b.convert(b.div(powers, b.sum(powers, &[axis], true)?)?, dtype)
}
