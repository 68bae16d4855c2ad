//! Declares arithmetic beyond one op: quotients that are rounded down, sums of exponentials,
//! lengths, neighbours. Half types are computed in f32.
use super::Composed;
use crate::emit::Emitter;
use disc_ir::{DType, Diagnostic, OpKind, Value, ops::DTypeClass};
use std::f64::consts::PI;

const FLOAT: DTypeClass = DTypeClass::FLOAT;
const NUMBER: DTypeClass = DTypeClass::NUMBER;

composition! {
    /// `x / y`, rounded down; of floats, exact where the quotient is near an integer, as NumPy
    /// computes it. A float divided by 0 is as without rounding.
    ///
    /// (C1) They have one element type, and broadcast.
    FloorDivide = "floor_divide"(x: one(NUMBER), y: one(NUMBER)) -> (z) in floor_divide;
}

fn floor_divide(b: &Emitter<'_>, FloorDivide { x, y }: FloorDivide) -> Composed {
    let dtype = b.dtype(x);
    if !dtype.is_float() {
        return integer_quotient(b, x, y).map(|z| vec![z]);
    }
    let (x, y) = (b.wide(x)?, b.wide(y)?);
    let wide = b.dtype(x);
    let rest = b.map(OpKind::Remainder, &[x, y])?;
    let quotient = b.div(b.sub(x, rest)?, y)?;
    let quotient = b.select(signs_differ(b, rest, y)?, b.sub(quotient, 1)?, quotient)?;
    let floor = b.op(OpKind::Floor, &[quotient])?;
    let is_near_next = b.compare("GT", b.sub(quotient, floor)?, b.lift(0.5, wide)?)?;
    let floor = b.select(is_near_next, b.add(floor, 1)?, floor)?;
    let zero = b.mul(b.div(x, y)?, 0.0)?;
    let floor = b.select(b.compare("EQ", quotient, b.lift(0, wide)?)?, zero, floor)?;
    let floor = b.select(b.compare("EQ", y, b.lift(0, wide)?)?, b.div(x, y)?, floor)?;
    Ok(vec![b.convert(floor, dtype)?])
}

/// The quotient of integers, rounded down.
pub(super) fn integer_quotient(b: &Emitter<'_>, x: Value, y: Value) -> Result<Value, Diagnostic> {
    let (quotient, rest) = (b.div(x, y)?, b.map(OpKind::Remainder, &[x, y])?);
    if !b.dtype(x).is_signed_integer() {
        return Ok(quotient);
    }
    b.select(signs_differ(b, rest, y)?, b.sub(quotient, 1)?, quotient)
}

/// The remainder is not zero and has another sign than the divisor.
fn signs_differ(b: &Emitter<'_>, rest: Value, y: Value) -> Result<Value, Diagnostic> {
    let zero = b.lift(0, b.dtype(rest))?;
    let differ = b.map(OpKind::Xor, &[b.compare("LT", rest, zero)?, b.compare("LT", y, zero)?])?;
    b.map(OpKind::And, &[differ, b.compare("NE", rest, zero)?])
}

composition! {
    /// The remainder of `x / y`, with the sign of `y`.
    ///
    /// (C1) They have one element type, and broadcast.
    FloorRemainder = "floor_remainder"(x: one(NUMBER), y: one(NUMBER)) -> (z) in floor_remainder;
}

fn floor_remainder(b: &Emitter<'_>, FloorRemainder { x, y }: FloorRemainder) -> Composed {
    let (rest, dtype) = (b.map(OpKind::Remainder, &[x, y])?, b.dtype(x));
    if !dtype.is_float() && !dtype.is_signed_integer() {
        return Ok(vec![rest]);
    }
    Ok(vec![b.select(signs_differ(b, rest, y)?, b.add(rest, y)?, rest)?])
}

composition! {
    /// `sqrt(x * x + y * y)`, where the squares would leave the range of the type too; infinite
    /// beside an infinity.
    ///
    /// (C1) They have one element type, and broadcast.
    Hypot = "hypot"(x: one(FLOAT), y: one(FLOAT)) -> (z) in hypot;
}

fn hypot(b: &Emitter<'_>, Hypot { x, y }: Hypot) -> Composed {
    of_two(b, x, y, |x, y| {
        let (x, y, dtype) = (b.op(OpKind::Abs, &[x])?, b.op(OpKind::Abs, &[y])?, b.dtype(x));
        let (big, small) = (b.maximum(x, y)?, b.minimum(x, y)?);
        let divisor = b.select(b.compare("EQ", big, b.lift(0, dtype)?)?, b.lift(1, dtype)?, big)?;
        let ratio = b.div(small, divisor)?;
        let length = b.mul(big, b.op(OpKind::Sqrt, &[b.add(b.mul(ratio, ratio)?, 1.0)?])?)?;
        let is_infinite = |v| b.compare("EQ", v, b.lift(f64::INFINITY, dtype)?);
        let infinite = b.map(OpKind::Or, &[is_infinite(x)?, is_infinite(y)?])?;
        b.select(infinite, b.lift(f64::INFINITY, dtype)?, length)
    })
}

composition! {
    /// `log(exp(x) + exp(y))`, for large numbers and equal infinities too.
    ///
    /// (C1) They have one element type, and broadcast.
    LogAddExp = "log_add_exp"(x: one(FLOAT), y: one(FLOAT)) -> (z) in log_add_exp;
}

fn log_add_exp(b: &Emitter<'_>, LogAddExp { x, y }: LogAddExp) -> Composed {
    of_two(b, x, y, |x, y| {
        let greater = b.maximum(x, y)?;
        let distance = b.neg(b.op(OpKind::Abs, &[b.sub(x, y)?])?)?;
        let sum = b.add(greater, b.op(OpKind::LogPlusOne, &[b.op(OpKind::Exponential, &[distance])?])?)?;
        let equal = b.compare("EQ", x, y)?;
        let is_infinite = b.compare("EQ", b.op(OpKind::Abs, &[x])?, b.lift(f64::INFINITY, b.dtype(x))?)?;
        b.select(b.map(OpKind::And, &[equal, is_infinite])?, x, sum)
    })
}

composition! {
    /// `x * log(y)`, and 0 where `x` is 0, unless `y` is NaN.
    ///
    /// (C1) They have one element type, and broadcast.
    XLogY = "x_log_y"(x: one(FLOAT), y: one(FLOAT)) -> (z) in x_log_y;
}

fn x_log_y(b: &Emitter<'_>, XLogY { x, y }: XLogY) -> Composed {
    of_two(b, x, y, |x, y| {
        let zero = b.lift(0, b.dtype(x))?;
        let product = b.select(b.compare("EQ", x, zero)?, zero, b.mul(x, b.op(OpKind::Log, &[y])?)?)?;
        b.select(b.is_nan(y)?, b.lift(f64::NAN, b.dtype(x))?, product)
    })
}

/// `f` of two values, computed in f32 where these are f16 or bf16, in their type again.
fn of_two(b: &Emitter<'_>, x: Value, y: Value, f: impl FnOnce(Value, Value) -> Result<Value, Diagnostic>) -> Composed {
    let dtype = b.dtype(x);
    Ok(vec![b.convert(f(b.wide(x)?, b.wide(y)?)?, dtype)?])
}

composition! {
    /// `sin(pi * x) / (pi * x)`, and 1 at 0.
    Sinc = "sinc"(x: one(FLOAT)) -> (y) in sinc;
}

fn sinc(b: &Emitter<'_>, Sinc { x }: Sinc) -> Composed {
    let y = b.widened(x, |x| {
        let (angle, dtype) = (b.mul(x, PI)?, b.dtype(x));
        let is_zero = b.compare("EQ", x, b.lift(0, dtype)?)?;
        b.select(is_zero, b.lift(1, dtype)?, b.div(b.op(OpKind::Sine, &[angle])?, angle)?)
    })?;
    Ok(vec![y])
}

composition! {
    /// `log(x / (1 - x))`, of `x` within `epsilon` and `1 - epsilon` if it is given.
    Logit = "logit"(x: one(FLOAT)) { epsilon: Option<f64> } -> (y) in logit;
}

fn logit(b: &Emitter<'_>, Logit { x, epsilon }: Logit) -> Composed {
    let y = b.widened(x, |x| {
        let x = match epsilon {
            Some(epsilon) => b.minimum(b.maximum(x, epsilon)?, 1.0 - epsilon)?,
            None => x,
        };
        b.op(OpKind::Log, &[b.div(x, b.sub(b.lift(1, b.dtype(x))?, x)?)?])
    })?;
    Ok(vec![y])
}

composition! {
    /// The number next to `x` in the direction of `y`; of half types by their bits: those of
    /// numbers of one sign are in the order of the numbers.
    ///
    /// (C1) They have one element type, and broadcast.
    NextAfter = "next_after"(x: one(FLOAT), y: one(FLOAT)) -> (z) in next_after;
}

fn next_after(b: &Emitter<'_>, NextAfter { x, y }: NextAfter) -> Composed {
    let dtype = b.dtype(x);
    if !matches!(dtype, DType::F16 | DType::BF16) {
        return Ok(vec![b.map(OpKind::NextAfter, &[x, y])?]);
    }
    let [x, y] = b.together(&[x, y])?[..] else { unreachable!("as many as were given") };
    let (zero, bits) = (b.lift(0.0, dtype)?, b.bitcast(x, DType::I16)?);
    let either = |holds, a: i64, c: i64| b.select(holds, b.lift(a, DType::I16)?, b.lift(c, DType::I16)?);
    let away = b.compare("EQ", b.compare("GT", y, x)?, b.compare("GT", x, zero)?)?;
    let stepped = b.add(bits, either(away, 1, -1)?)?;
    let least = either(b.compare("GT", y, zero)?, 1, -32767)?;
    let stepped = b.select(b.compare("EQ", x, zero)?, least, stepped)?;
    let found = b.select(b.compare("EQ", x, y)?, y, b.bitcast(stepped, dtype)?)?;
    let is_nan = b.map(OpKind::Or, &[b.is_nan(x)?, b.is_nan(y)?])?;
    Ok(vec![b.select(is_nan, b.add(x, y)?, found)?])
}
