//! Declares reductions beyond one op: means, norms, variances, places of extremes.
use super::{Composed, axes_of, axis_of};
use crate::emit::{Emitter, Sign};
use disc_ir::{DType, Diagnostic, Dim, OpKind, Value, ops::DTypeClass};

const FLOAT: DTypeClass = DTypeClass::FLOAT;
const ANY: DTypeClass = DTypeClass::ANY;

words! {
    /// The greatest or the least element.
    Extreme { Maximum = "maximum", Minimum = "minimum" }
}

impl Extreme {
    pub(super) fn op(self) -> OpKind {
        match self {
            Extreme::Maximum => OpKind::Maximum,
            Extreme::Minimum => OpKind::Minimum,
        }
    }
}

composition! {
    /// The mean over `axes`, in the type `dtype`; half types are summed in f32.
    ///
    /// (C1) `axes` are distinct axes of `x`.
    Mean = "mean"(x: one(ANY)) { axes: Vec<i64>, keep: bool, dtype: DType } -> (y) in mean;
}

fn mean(b: &Emitter<'_>, Mean { x, axes, keep, dtype }: Mean) -> Composed {
    let x = b.wide(b.convert(x, dtype)?)?;
    let axes = axes_of(b, x, &axes)?;
    Ok(vec![b.convert(b.div(b.sum(x, &axes, keep)?, count(b, x, &axes)?)?, dtype)?])
}

composition! {
    /// The variance over `axes`, the sum of squared distances divided by the number of elements
    /// less `correction`, and the mean. They are computed in two passes, in f64 for f32 and bf16:
    /// squares leave the range of these, and a mean that is rounded to them is far from numbers
    /// that are close together.
    ///
    /// (C1) `axes` are distinct axes of `x`.
    Variance = "variance"(x: one(FLOAT)) { axes: Vec<i64>, correction: f64, keep: bool } -> (variance, mean) in variance;
}

fn variance(b: &Emitter<'_>, Variance { x, axes, correction, keep }: Variance) -> Composed {
    let x = match b.dtype(x) {
        DType::F32 | DType::BF16 => b.convert(x, DType::F64)?,
        _ => b.wide(x)?,
    };
    let axes = axes_of(b, x, &axes)?;
    let moments = Moments::of(b, x, &axes)?;
    let freedom = b.maximum(b.sub(count(b, x, &axes)?, correction)?, 0.0)?;
    let value = b.div(moments.squares, freedom)?;
    let shaped = |value| if keep || axes.is_empty() { Ok(value) } else { b.squeeze(value, &axes) };
    Ok(vec![shaped(value)?, shaped(moments.mean)?])
}

/// Mean, and the sums of squared distances and of distances from it, axes kept.
pub(super) struct Moments {
    pub(super) mean: Value,
    pub(super) squares: Value,
    pub(super) distances: Value,
}

impl Moments {
    /// Computes them in two passes.
    pub(super) fn of(b: &Emitter<'_>, x: Value, axes: &[usize]) -> Result<Moments, Diagnostic> {
        let mean = b.div(b.sum(x, axes, true)?, count(b, x, axes)?)?;
        let distance = b.sub(x, mean)?;
        let squares = b.sum(b.mul(distance, distance)?, axes, true)?;
        Ok(Moments { mean, squares, distances: b.sum(distance, axes, true)? })
    }
}

/// The number of elements that are reduced, as a scalar of the type of `x`.
pub(super) fn count(b: &Emitter<'_>, x: Value, axes: &[usize]) -> Result<Value, Diagnostic> {
    let sizes = b.shape(x);
    b.lift(Dim::product(axes.iter().filter_map(|&axis| sizes.get(axis).cloned())), b.dtype(x))
}

composition! {
    /// `sum(abs(x)^order)^(1 / order)` over `axes`, in the type `dtype`: of order 0 the number of
    /// elements that are not 0, of infinite order the greatest or the least. Half types are
    /// computed in f32.
    ///
    /// (C1) `axes` are distinct axes of `x`.
    LpNorm = "lp_norm"(x: one(ANY)) { order: f64, axes: Vec<i64>, keep: bool, dtype: DType } -> (y) in lp_norm;
}

fn lp_norm(b: &Emitter<'_>, LpNorm { x, order, axes, keep, dtype }: LpNorm) -> Composed {
    let x = b.op(OpKind::Abs, &[b.wide(b.convert(x, dtype)?)?])?;
    let axes = axes_of(b, x, &axes)?;
    let norm = match order {
        2.0 => b.op(OpKind::Sqrt, &[b.sum(b.mul(x, x)?, &axes, keep)?])?,
        1.0 => b.sum(x, &axes, keep)?,
        0.0 => b.sum(b.convert(b.convert(x, DType::I1)?, b.dtype(x))?, &axes, keep)?,
        f64::INFINITY => b.reduce(x, &axes, OpKind::Maximum, keep)?,
        f64::NEG_INFINITY => b.reduce(x, &axes, OpKind::Minimum, keep)?,
        _ => {
            let powered = b.map(OpKind::Power, &[x, b.lift(order, b.dtype(x))?])?;
            b.map(OpKind::Power, &[b.sum(powered, &axes, keep)?, b.lift(1.0 / order, b.dtype(x))?])?
        }
    };
    Ok(vec![b.convert(norm, dtype)?])
}

composition! {
    /// `log(sum(exp(x)))` over `axes`, relative to the greatest element, so that nothing overflows.
    ///
    /// (C1) `axes` are distinct axes of `x`.
    LogSumExp = "log_sum_exp"(x: one(FLOAT)) { axes: Vec<i64>, keep: bool } -> (y) in log_sum_exp;
}

fn log_sum_exp(b: &Emitter<'_>, LogSumExp { x, axes, keep }: LogSumExp) -> Composed {
    let axes = axes_of(b, x, &axes)?;
    let value = b.widened(x, |x| {
        let top = b.reduce(x, &axes, OpKind::Maximum, true)?;
        let top = b.select(b.op(OpKind::IsInf, &[top])?, b.lift(0, b.dtype(x))?, top)?;
        let powers = b.op(OpKind::Exponential, &[b.sub(x, top)?])?;
        let value = b.add(b.op(OpKind::Log, &[b.sum(powers, &axes, true)?])?, top)?;
        if keep || axes.is_empty() { Ok(value) } else { b.squeeze(value, &axes) }
    })?;
    Ok(vec![value])
}

composition! {
    /// The extreme element along `axis`, and the first position that has it (i64). NaN is the most
    /// extreme.
    ///
    /// (C1) `axis` is an axis of `x`; it has elements.
    ArgReduce = "arg_reduce"(x: one(ANY)) { axis: i64, which: Extreme, keep: bool } -> (value, place) in arg_reduce;
}

fn arg_reduce(b: &Emitter<'_>, ArgReduce { x, axis, which, keep }: ArgReduce) -> Composed {
    let axis = axis_of(b, x, axis)?;
    require_elements(b, x, axis)?;
    Ok(vec![b.reduce(x, &[axis], which.op(), keep)?, first_place(b, x, axis, which, keep)?])
}

composition! {
    /// The first position (i64) of the extreme element along `axis`, or of all elements in
    /// row-major order. NaN is the most extreme.
    ///
    /// (C1) `axis` is an axis of `x`; the axes that are looked through have elements.
    ArgExtreme = "arg_extreme"(x: one(ANY)) { axis: Option<i64>, which: Extreme, keep: bool } -> (place) in arg_extreme;
}

fn arg_extreme(b: &Emitter<'_>, ArgExtreme { x, axis, which, keep }: ArgExtreme) -> Composed {
    let Some(axis) = axis else {
        let rank = b.rank(x);
        for axis in 0..rank {
            require_elements(b, x, axis)?;
        }
        let flat = if rank > 0 { b.reshape(x, &[Dim::product(b.shape(x))])? } else { x };
        let place = first_place(b, flat, 0, which, false)?;
        return Ok(vec![if keep { b.reshape(place, &vec![Dim::constant(1); rank])? } else { place }]);
    };
    let axis = axis_of(b, x, axis)?;
    require_elements(b, x, axis)?;
    Ok(vec![first_place(b, x, axis, which, keep)?])
}

/// States that an axis has elements: nothing has no extreme.
fn require_elements(b: &Emitter<'_>, x: Value, axis: usize) -> Result<(), Diagnostic> {
    match b.shape(x).get(axis) {
        Some(size) => b.require(size, Sign::Ge, &Dim::constant(1)),
        None => Ok(()),
    }
}

fn first_place(b: &Emitter<'_>, x: Value, axis: usize, which: Extreme, keep: bool) -> Result<Value, Diagnostic> {
    let sizes = b.shape(x);
    let Some(size) = sizes.get(axis) else { return b.full(0, &[], DType::I64) };
    let best = b.reduce(x, &[axis], which.op(), true)?;
    let mut hit = b.compare("EQ", x, best)?;
    if b.dtype(x).is_float() {
        hit = b.map(OpKind::Or, &[hit, b.is_nan(x)?])?;
    }
    let places = b.iota(&sizes, axis, DType::I64)?;
    let far = b.lift(size, DType::I64)?;
    b.reduce(b.select(hit, places, far)?, &[axis], OpKind::Minimum, keep)
}
