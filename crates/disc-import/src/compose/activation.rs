//! Declares activation functions. They are computed in f32 for half types and rounded once.
use super::Composed;
use crate::emit::{Emitter, Sign};
use disc_ir::{Diagnostic, Dim, OpKind, Value, ops::DTypeClass};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

const FLOAT: DTypeClass = DTypeClass::FLOAT;
const NUMBER: DTypeClass = DTypeClass::NUMBER;

words! {
    /// The form of `gelu`.
    Approximation { None = "none", Tanh = "tanh" }
}

composition! {
    /// `x` within `low` and `high`, NaN as it is.
    HardTanh = "hard_tanh"(x: one(NUMBER), low: scalar(NUMBER), high: scalar(NUMBER)) -> (y) in hard_tanh;
}

fn hard_tanh(b: &Emitter<'_>, HardTanh { x, low, high }: HardTanh) -> Composed {
    Ok(vec![b.minimum(b.maximum(x, low)?, high)?])
}

composition! {
    /// `x` where it is positive, else `slope * x`.
    LeakyRelu = "leaky_relu"(x: one(FLOAT), slope: scalar(FLOAT)) -> (y) in leaky_relu;
}

fn leaky_relu(b: &Emitter<'_>, LeakyRelu { x, slope }: LeakyRelu) -> Composed {
    one(b.widened(x, |v| b.select(b.compare("GT", v, 0)?, v, b.mul(v, slope)?)))
}

composition! {
    /// `x` where it is positive, else `weight * x`.
    ///
    /// (C1) `weight` broadcasts to `x`; a weight of rank 1 has one element for each feature, axis 1
    /// of `x`, or one for all.
    PRelu = "prelu"(x: one(FLOAT), weight: one(FLOAT)) -> (y) in prelu;
}

fn prelu(b: &Emitter<'_>, PRelu { x, weight }: PRelu) -> Composed {
    let (rank, sizes) = (b.rank(x), b.shape(weight));
    let weight = match &sizes[..] {
        [features] if rank != 1 => {
            let mut shape = vec![Dim::constant(1), features.clone()];
            shape.resize(rank, Dim::constant(1));
            b.reshape(weight, &shape)?
        }
        _ => weight,
    };
    Ok(vec![b.select(b.compare("GT", x, 0)?, x, b.mul(weight, x)?)?])
}

composition! {
    /// `scale * x` where `x` is positive, else `alpha * scale * (exp(input_scale * x) - 1)`.
    Elu = "elu"(x: one(FLOAT)) { alpha: f64, scale: f64, input_scale: f64 } -> (y) in elu;
}

fn elu(b: &Emitter<'_>, Elu { x, alpha, scale, input_scale }: Elu) -> Composed {
    one(b.widened(x, |v| {
        let negative = b.mul(b.op(OpKind::ExponentialMinusOne, &[b.mul(v, input_scale)?])?, alpha * scale)?;
        b.select(b.compare("GT", v, 0)?, b.mul(v, scale)?, negative)
    }))
}

composition! {
    /// `x` times the normal distribution's share below `x`: exact by `erf`, or by `tanh`.
    Gelu = "gelu"(x: one(FLOAT)) { approximate: Approximation } -> (y) in gelu;
}

fn gelu(b: &Emitter<'_>, Gelu { x, approximate }: Gelu) -> Composed {
    one(b.widened(x, |v| match approximate {
        Approximation::None => b.mul(b.mul(v, 0.5)?, b.add(b.op(OpKind::Erf, &[b.mul(v, FRAC_1_SQRT_2)?])?, 1.0)?),
        Approximation::Tanh => {
            let cubic = b.add(v, b.mul(b.mul(b.mul(v, v)?, v)?, 0.044_715)?)?;
            b.mul(b.mul(v, 0.5)?, b.add(b.op(OpKind::Tanh, &[b.mul(cubic, FRAC_2_PI.sqrt())?])?, 1.0)?)
        }
    }))
}

composition! {
    /// `x / (1 + exp(-x))`.
    Silu = "silu"(x: one(FLOAT)) -> (y) in silu;
}

fn silu(b: &Emitter<'_>, Silu { x }: Silu) -> Composed {
    one(b.widened(x, |v| b.mul(v, b.op(OpKind::Logistic, &[v])?)))
}

composition! {
    /// `log(1 + exp(beta * x)) / beta`; `x` where `beta * x` is above `threshold`.
    Softplus = "softplus"(x: one(FLOAT), beta: scalar(FLOAT), threshold: scalar(FLOAT)) -> (y) in softplus;
}

fn softplus(b: &Emitter<'_>, Softplus { x, beta, threshold }: Softplus) -> Composed {
    one(b.widened(x, |v| {
        let scaled = b.mul(v, &beta)?;
        let soft = b.div(b.op(OpKind::LogPlusOne, &[b.op(OpKind::Exponential, &[scaled])?])?, beta)?;
        b.select(b.compare("GT", scaled, threshold)?, v, soft)
    }))
}

composition! {
    /// `x * tanh(log(1 + exp(x)))`.
    Mish = "mish"(x: one(FLOAT)) -> (y) in mish;
}

fn mish(b: &Emitter<'_>, Mish { x }: Mish) -> Composed {
    one(b.widened(x, |v| {
        let soft = b.op(OpKind::LogPlusOne, &[b.op(OpKind::Exponential, &[v])?])?;
        b.mul(v, b.op(OpKind::Tanh, &[soft])?)
    }))
}

composition! {
    /// `-log(1 + exp(-x))`, exact for large `-x` too.
    LogSigmoid = "log_sigmoid"(x: one(FLOAT)) -> (y) in log_sigmoid;
}

fn log_sigmoid(b: &Emitter<'_>, LogSigmoid { x }: LogSigmoid) -> Composed {
    one(b.widened(x, |v| {
        let smallest = b.minimum(v, 0)?;
        let distance = b.neg(b.op(OpKind::Abs, &[v])?)?;
        b.sub(smallest, b.op(OpKind::LogPlusOne, &[b.op(OpKind::Exponential, &[distance])?])?)
    }))
}

composition! {
    /// `x + 3`, within 0 and 6, divided by 6.
    HardSigmoid = "hard_sigmoid"(x: one(FLOAT)) -> (y) in hard_sigmoid;
}

fn hard_sigmoid(b: &Emitter<'_>, HardSigmoid { x }: HardSigmoid) -> Composed {
    one(b.widened(x, |v| b.div(within_six(b, v)?, 6.0)))
}

composition! {
    /// `x` times its `hard_sigmoid`.
    HardSwish = "hard_swish"(x: one(FLOAT)) -> (y) in hard_swish;
}

fn hard_swish(b: &Emitter<'_>, HardSwish { x }: HardSwish) -> Composed {
    one(b.widened(x, |v| b.div(b.mul(v, within_six(b, v)?)?, 6.0)))
}

/// `v + 3`, within 0 and 6.
fn within_six(b: &Emitter<'_>, v: Value) -> Result<Value, Diagnostic> {
    b.minimum(b.maximum(b.add(v, 3.0)?, 0.0)?, 6.0)
}

composition! {
    /// 0 within `limit` of 0, else `x`. NaN stays.
    HardShrink = "hard_shrink"(x: one(FLOAT)) { limit: f64 } -> (y) in hard_shrink;
}

fn hard_shrink(b: &Emitter<'_>, HardShrink { x, limit }: HardShrink) -> Composed {
    let inside = b.map(OpKind::And, &[b.compare("GE", x, -limit)?, b.compare("LE", x, limit)?])?;
    Ok(vec![b.select(inside, b.lift(0, b.dtype(x))?, x)?])
}

composition! {
    /// `x` moved towards 0 by `limit`, and 0 within it. NaN stays.
    SoftShrink = "soft_shrink"(x: one(FLOAT)) { limit: f64 } -> (y) in soft_shrink;
}

fn soft_shrink(b: &Emitter<'_>, SoftShrink { x, limit }: SoftShrink) -> Composed {
    one(b.widened(x, |v| {
        let dtype = b.dtype(v);
        let (low, high, zero) = (b.lift(-limit, dtype)?, b.lift(limit, dtype)?, b.lift(0, dtype)?);
        let small = b.select(b.compare("LT", v, low)?, b.add(v, limit)?, b.mul(v, zero)?)?;
        b.select(b.compare("GT", v, high)?, b.sub(v, limit)?, small)
    }))
}

composition! {
    /// `value` where `x` is at most `limit`, else `x`.
    Threshold = "threshold"(x: one(NUMBER), limit: scalar(NUMBER), value: scalar(NUMBER)) -> (y) in threshold;
}

fn threshold(b: &Emitter<'_>, Threshold { x, limit, value }: Threshold) -> Composed {
    let is_low = b.compare("LE", x, limit)?;
    Ok(vec![b.select(is_low, b.lift(value, b.dtype(x))?, x)?])
}

composition! {
    /// The first half of `axis` times the logistic function of the second.
    ///
    /// (C1) `axis` is an axis of `x`, of even size.
    Glu = "glu"(x: one(FLOAT)) { axis: i64 } -> (y) in glu;
}

fn glu(b: &Emitter<'_>, Glu { x, axis }: Glu) -> Composed {
    let axis = super::axis_of(b, x, axis)?;
    let (size, two) = (b.size_of(x, axis)?, Dim::constant(2));
    let half = size.floor_div(&two);
    b.require(&size.modulo(&two), Sign::Eq, &Dim::constant(0))?;
    let gate = b.slice(x, axis, &half, &(&half * 2), 1)?;
    let value = b.slice(x, axis, &Dim::constant(0), &half, 1)?;
    let (wide, gate) = (b.wide(value)?, b.wide(gate)?);
    let gated = b.mul(wide, b.op(OpKind::Logistic, &[gate])?)?;
    one(b.convert(gated, b.dtype(x)))
}

fn one(value: Result<Value, Diagnostic>) -> Composed {
    value.map(|value| vec![value])
}
