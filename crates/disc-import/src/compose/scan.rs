//! Declares running sums, products, extremes and differences along an axis.
use super::{Composed, axis_of, reduction::Extreme};
use crate::emit::Emitter;
use disc_ir::{Code, DType, Diagnostic, Dim, OpKind, Value, ops::DTypeClass};

const FLOAT: DTypeClass = DTypeClass::FLOAT;
const ANY: DTypeClass = DTypeClass::ANY;

words! {
    /// The op of a running combination.
    Running { Add = "add", Multiply = "multiply" }
}

composition! {
    /// The running sum or product along `axis`, in the type `dtype`. Floats are combined in f64:
    /// each step would round the running result.
    ///
    /// (C1) `axis` is an axis of `x`.
    RunningTotal = "running_total"(x: one(ANY)) { axis: i64, how: Running, dtype: DType } -> (y) in running_total;
}

fn running_total(b: &Emitter<'_>, RunningTotal { x, axis, how, dtype }: RunningTotal) -> Composed {
    let x = b.convert(x, dtype)?;
    if b.rank(x) == 0 {
        return Ok(vec![x]);
    }
    let how = match how {
        Running::Add => OpKind::Add,
        Running::Multiply => OpKind::Multiply,
    };
    let wide = if dtype.is_float() { b.convert(x, DType::F64)? } else { x };
    Ok(vec![b.convert(b.cumulative(wide, axis_of(b, x, axis)?, how)?, dtype)?])
}

composition! {
    /// The running extreme along `axis`, and its position (i64): of equal elements the last one
    /// counts, and only a NaN passes a NaN.
    ///
    /// (C1) `axis` is an axis of `x`.
    RunningExtreme = "running_extreme"(x: one(ANY)) { axis: i64, which: Extreme } -> (value, place) in running_extreme;
}

fn running_extreme(b: &Emitter<'_>, RunningExtreme { x, axis, which }: RunningExtreme) -> Composed {
    if b.rank(x) == 0 {
        return Ok(vec![x, b.lift(0, DType::I64)?]);
    }
    let axis = axis_of(b, x, axis)?;
    let top = b.cumulative(x, axis, which.op())?;
    let here = b.map(OpKind::Or, &[b.compare("EQ", x, top)?, b.is_nan(x)?])?;
    let place = b.select(here, b.iota(&b.shape(x), axis, DType::I64)?, b.lift(0, DType::I64)?)?;
    Ok(vec![top, b.cumulative(place, axis, OpKind::Maximum)?])
}

composition! {
    /// `log(running sum of exp(x))` along `axis`, relative to the running maximum: when that grows
    /// from m to n, the sum so far shrinks by `exp(m - n)`.
    ///
    /// (C1) `axis` is an axis of `x`.
    RunningLogSumExp = "running_log_sum_exp"(x: one(FLOAT)) { axis: i64 } -> (y) in running_log_sum_exp;
}

fn running_log_sum_exp(b: &Emitter<'_>, RunningLogSumExp { x, axis }: RunningLogSumExp) -> Composed {
    Ok(vec![b.widened(x, |x| {
        if b.rank(x) == 0 {
            return Ok(x);
        }
        let axis = axis_of(b, x, axis)?;
        let (dtype, size) = (b.dtype(x), b.size_of(x, axis)?);
        let top = b.cumulative(x, axis, OpKind::Maximum)?;
        let (zero, one) = (Dim::constant(0), Dim::min(&Dim::constant(1), &size));
        let first = b.slice(top, axis, &zero, &one, 1)?;
        let before = b.concatenate(&[first, b.slice(top, axis, &zero, &(&size - &one), 1)?], axis)?;
        // Equal infinities have no difference. What is infinite stays so without a shift.
        let is_same = b.compare("EQ", before, top)?;
        let factor = b.select(is_same, b.lift(1, dtype)?, b.op(OpKind::Exponential, &[b.sub(before, top)?])?)?;
        let shift = b.select(b.op(OpKind::IsInf, &[top])?, b.lift(0, dtype)?, top)?;
        let power = b.op(OpKind::Exponential, &[b.sub(x, shift)?])?;
        let total = b.running_sum(b.convert(power, DType::F64)?, b.convert(factor, DType::F64)?, axis)?;
        b.add(b.op(OpKind::Log, &[b.convert(total, dtype)?])?, shift)
    })?])
}

const MOST_TIMES: i64 = 1024;

composition! {
    /// The differences of neighbours along `axis`, `times` times; of truth values, whether they
    /// differ. The tensors are joined along the axis first.
    ///
    /// (C1) `axis` is an axis of each tensor.
    /// (C2) `times` is at least 0, and at most 1024: each is written out.
    Difference = "difference"(xs: many(ANY)) { axis: i64, times: i64 } -> (y) in difference;
}

fn difference(b: &Emitter<'_>, Difference { xs, axis, times }: Difference) -> Composed {
    let Some(&first) = xs.first() else { return Err(Diagnostic::new(Code::E0201, "(C1) at least one tensor is needed")) };
    let axis = axis_of(b, first, axis)?;
    if !(0..=MOST_TIMES).contains(&times) {
        return Err(Diagnostic::new(Code::E0105, format!("(C2) `times` is {times}, expected 0 to {MOST_TIMES}")));
    }
    let mut x = b.concatenate(&xs, axis)?;
    for _ in 0..times {
        x = of_neighbours(b, x, axis)?;
    }
    Ok(vec![x])
}

fn of_neighbours(b: &Emitter<'_>, x: Value, axis: usize) -> Result<Value, Diagnostic> {
    let size = b.size_of(x, axis)?;
    let one = Dim::min(&Dim::constant(1), &size);
    let upper = b.slice(x, axis, &one, &size, 1)?;
    let lower = b.slice(x, axis, &Dim::constant(0), &(&size - &one), 1)?;
    if b.dtype(x) == DType::I1 { b.map(OpKind::Xor, &[upper, lower]) } else { b.sub(upper, lower) }
}
