//! Declares functions of the signs of numbers.
use super::Composed;
use crate::emit::Emitter;
use disc_ir::{DType, Diagnostic, OpKind, Value, ops::DTypeClass};
use std::f64::consts::PI;

const ANY: DTypeClass = DTypeClass::ANY;
const FLOAT: DTypeClass = DTypeClass::FLOAT;

composition! {
    /// Is true for numbers with a sign: below 0, -0.0, and a NaN whose sign bit is set.
    SignBit = "sign_bit"(x: one(ANY)) -> (y) in sign_bit;
}

fn sign_bit(b: &Emitter<'_>, SignBit { x }: SignBit) -> Composed {
    has_sign(b, x).map(|y| vec![y])
}

fn has_sign(b: &Emitter<'_>, x: Value) -> Result<Value, Diagnostic> {
    let bits = match b.dtype(x) {
        DType::I1 => return b.full(false, &b.shape(x), DType::I1),
        DType::F16 | DType::BF16 => b.bitcast(x, DType::I16)?,
        DType::F32 => b.bitcast(x, DType::I32)?,
        DType::F64 => b.bitcast(x, DType::I64)?,
        _ => x,
    };
    b.compare("LT", bits, b.lift(0, b.dtype(bits))?)
}

composition! {
    /// `|x|` with the sign of `y`.
    ///
    /// (C1) They have one element type, and broadcast.
    CopySign = "copy_sign"(x: one(FLOAT), y: one(FLOAT)) -> (z) in copy_sign;
}

fn copy_sign(b: &Emitter<'_>, CopySign { x, y }: CopySign) -> Composed {
    let size = b.op(OpKind::Abs, &[x])?;
    Ok(vec![b.select(has_sign(b, y)?, b.neg(size)?, size)?])
}

composition! {
    /// 0 below 0, 1 above it, and `values` at 0.
    ///
    /// (C1) `x` and `values` have one element type, and broadcast.
    Heaviside = "heaviside"(x: one(ANY), values: one(ANY)) -> (y) in heaviside;
}

fn heaviside(b: &Emitter<'_>, Heaviside { x, values }: Heaviside) -> Composed {
    let zero = b.lift(0, b.dtype(x))?;
    let step = b.convert(b.compare("GT", x, zero)?, b.dtype(x))?;
    Ok(vec![b.select(b.compare("EQ", x, zero)?, values, step)?])
}

composition! {
    /// The angle of a real number as a complex one: half a turn below 0, else 0. NaN stays.
    Angle = "angle"(x: one(FLOAT)) -> (y) in angle;
}

fn angle(b: &Emitter<'_>, Angle { x }: Angle) -> Composed {
    let dtype = b.dtype(x);
    let is_below = b.compare("LT", x, b.lift(0.0, dtype)?)?;
    let turned = b.select(is_below, b.lift(PI, dtype)?, b.lift(0.0, dtype)?)?;
    Ok(vec![b.select(b.is_nan(x)?, x, turned)?])
}
