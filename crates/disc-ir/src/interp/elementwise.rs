//! Evaluates element-wise ops: a function of one element of each operand.
//!
//! Arithmetic is in f64 and in wide integers; the result is rounded or wrapped when it is stored.
use super::{
    Tensor,
    call::Call,
    scalar::{Scalar, decode, encode, round, saturate, unsigned},
};
use crate::{diag::Diagnostic, types::DType};
use std::cmp::Ordering;

/// The function from elements of the operands to an element of the result. Integer functions get
/// the element type of the operands.
#[derive(Clone, Copy)]
pub(super) enum Lanes {
    Float(fn(f64) -> f64),
    Number(fn(f64) -> f64, fn(i128, DType) -> i128),
    Bits(fn(i128, DType) -> i128),
    Test(fn(f64) -> bool),
    Float2(fn(f64, f64) -> f64),
    Number2(fn(f64, f64) -> f64, fn(i128, i128, DType) -> i128),
    Bits2(fn(i128, i128, DType) -> i128),
    /// Everything else: a function made for this op, of elements of the first operand's type.
    Other(fn(&Call<'_>, DType) -> Function),
}

pub(super) type Function = Box<dyn Fn(&[Scalar]) -> Scalar>;

impl Lanes {
    pub(super) fn evaluate(self, call: &Call<'_>) -> Result<Tensor, Diagnostic> {
        let operands = call.tensors(0..call.args.len())?;
        let from = operands[0].dtype();
        if let Some(other) = operands.iter().find(|t| t.dims() != operands[0].dims()) {
            let message = format!("operands of sizes {:?} and {:?}", operands[0].dims(), other.dims());
            return Err(call.malformed(message));
        }
        let function = self.function(call, from);
        let mut elements = Vec::with_capacity(operands.len());
        let element = |i| {
            elements.clear();
            elements.extend(operands.iter().map(|operand| operand.at(i)));
            function(&elements)
        };
        Ok(Tensor::from_fn(call.dtype(), operands[0].dims().to_vec(), element))
    }

    fn function(self, call: &Call<'_>, from: DType) -> Function {
        let truth = |holds: bool| Scalar::Int(holds.into());
        match self {
            Lanes::Float(f) | Lanes::Number(f, _) if from.is_float() => Box::new(move |x| Scalar::Float(f(x[0].as_f64()))),
            Lanes::Number(_, f) | Lanes::Bits(f) => Box::new(move |x| Scalar::Int(f(x[0].as_int(), from))),
            Lanes::Float(f) => Box::new(move |x| Scalar::Float(f(x[0].as_f64()))),
            Lanes::Test(f) => Box::new(move |x| truth(f(x[0].as_f64()))),
            Lanes::Float2(_) | Lanes::Number2(..) | Lanes::Bits2(_) => Box::new(move |x| self.combine(from, x[0], x[1])),
            Lanes::Other(make) => make(call, from),
        }
    }

    /// Combines two elements of type `dtype`, if this is a function of two; floats are not rounded,
    /// integers wrap when they are stored.
    pub(super) fn combine(self, dtype: DType, a: Scalar, b: Scalar) -> Scalar {
        match self {
            Lanes::Float2(f) | Lanes::Number2(f, _) if dtype.is_float() => Scalar::Float(f(a.as_f64(), b.as_f64())),
            Lanes::Number2(_, f) | Lanes::Bits2(f) => Scalar::Int(f(a.as_int(), b.as_int(), dtype)),
            Lanes::Float2(f) => Scalar::Float(f(a.as_f64(), b.as_f64())),
            Lanes::Float(_) | Lanes::Number(..) | Lanes::Bits(_) | Lanes::Test(_) | Lanes::Other(_) => a,
        }
    }

    /// Returns true if this is a function of two elements of one type.
    pub(super) fn is_binary(self) -> bool {
        matches!(self, Lanes::Float2(_) | Lanes::Number2(..) | Lanes::Bits2(_))
    }
}

pub(super) fn maximum(a: f64, b: f64) -> f64 {
    match a.partial_cmp(&b) {
        None => f64::NAN,
        Some(Ordering::Less) => b,
        Some(Ordering::Greater) => a,
        Some(Ordering::Equal) => a,
    }
}

pub(super) fn minimum(a: f64, b: f64) -> f64 {
    -maximum(-a, -b)
}

pub(super) fn sign(x: f64) -> f64 {
    if x.is_nan() || x == 0.0 { x } else { x.signum() }
}

pub(super) fn divide(a: i128, b: i128, _: DType) -> i128 {
    if b == 0 { 0 } else { a / b }
}

pub(super) fn remainder(a: i128, b: i128, _: DType) -> i128 {
    if b == 0 { a } else { a % b }
}

pub(super) fn power(base: i128, exponent: i128, dtype: DType) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => 1 - 2 * (exponent & 1),
            _ => 0,
        };
    }
    let (mut result, mut square, mut rest) = (1, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result = wrap(dtype, i128::wrapping_mul(result, square));
        }
        square = wrap(dtype, square.wrapping_mul(square));
        rest >>= 1;
    }
    result
}

fn wrap(dtype: DType, value: i128) -> i128 {
    round(dtype, Scalar::Int(value)).as_int()
}

/// Returns the number of bits to shift by, if it is less than the width.
fn shift(b: i128, dtype: DType) -> Option<u32> {
    u32::try_from(unsigned(dtype, b)).ok().filter(|&bits| bits < dtype.bits())
}

pub(super) fn shift_left(a: i128, b: i128, dtype: DType) -> i128 {
    shift(b, dtype).map_or(0, |bits| a << bits)
}

pub(super) fn shift_right_arithmetic(a: i128, b: i128, dtype: DType) -> i128 {
    // An unsigned element is shifted as the signed one with its bits.
    let unused = 128 - dtype.bits();
    let signed = a << unused >> unused;
    signed >> shift(b, dtype).unwrap_or(dtype.bits() - 1)
}

pub(super) fn shift_right_logical(a: i128, b: i128, dtype: DType) -> i128 {
    shift(b, dtype).map_or(0, |bits| unsigned(dtype, a) >> bits)
}

pub(super) fn count_leading_zeros(a: i128, dtype: DType) -> i128 {
    let zeros = unsigned(dtype, a).leading_zeros() - (128 - dtype.bits());
    zeros.into()
}

pub(super) fn popcnt(a: i128, dtype: DType) -> i128 {
    unsigned(dtype, a).count_ones().into()
}

/// Compares two elements; `None` if one is NaN.
pub(super) fn order(a: Scalar, b: Scalar) -> Option<Ordering> {
    match (a, b) {
        (Scalar::Int(a), Scalar::Int(b)) => Some(a.cmp(&b)),
        _ => a.as_f64().partial_cmp(&b.as_f64()),
    }
}

pub(super) fn compare(call: &Call<'_>, _: DType) -> Function {
    let direction = call.word("direction");
    Box::new(move |x| {
        let ordering = order(x[0], x[1]);
        let holds = match direction {
            "EQ" => ordering == Some(Ordering::Equal),
            "NE" => ordering != Some(Ordering::Equal),
            "LT" => ordering == Some(Ordering::Less),
            "LE" => ordering.is_some_and(Ordering::is_le),
            "GT" => ordering == Some(Ordering::Greater),
            _ => ordering.is_some_and(Ordering::is_ge),
        };
        Scalar::Int(holds.into())
    })
}

pub(super) fn select(_: &Call<'_>, _: DType) -> Function {
    Box::new(|x| if x[0].is_true() { x[1] } else { x[2] })
}

pub(super) fn clamp(_: &Call<'_>, _: DType) -> Function {
    Box::new(|x| match (x[0], x[1], x[2]) {
        (Scalar::Int(low), Scalar::Int(value), Scalar::Int(high)) => Scalar::Int(value.max(low).min(high)),
        (low, value, high) => Scalar::Float(minimum(maximum(value.as_f64(), low.as_f64()), high.as_f64())),
    })
}

pub(super) fn convert(call: &Call<'_>, _: DType) -> Function {
    let to = call.dtype();
    Box::new(move |x| match x[0] {
        Scalar::Float(value) => saturate(to, value),
        value => value,
    })
}

pub(super) fn bitcast_convert(call: &Call<'_>, from: DType) -> Function {
    let to = call.dtype();
    Box::new(move |x| {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..from.size()];
        encode(from, x[0], bytes);
        decode(to, bytes)
    })
}

pub(super) fn next_after(_: &Call<'_>, dtype: DType) -> Function {
    Box::new(move |x| {
        let (from, to) = (x[0].as_f64(), x[1].as_f64());
        Scalar::Float(match from.partial_cmp(&to) {
            None => f64::NAN,
            Some(Ordering::Equal) => to,
            Some(Ordering::Less) if dtype == DType::F32 => (from as f32).next_up().into(),
            Some(Ordering::Greater) if dtype == DType::F32 => (from as f32).next_down().into(),
            Some(Ordering::Less) => from.next_up(),
            Some(Ordering::Greater) => from.next_down(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_never_trap() {
        assert_eq!(divide(7, 0, DType::I32), 0);
        assert_eq!(remainder(7, 0, DType::I32), 7);
        assert_eq!(wrap(DType::I8, divide(-128, -1, DType::I8)), -128);
        assert_eq!(remainder(-128, -1, DType::I8), 0);
        assert_eq!((divide(-7, 2, DType::I32), remainder(-7, 2, DType::I32)), (-3, -1));
    }

    #[test]
    fn powers_wrap_and_negative_exponents_give_reciprocals() {
        assert_eq!(power(3, 4, DType::I32), 81);
        assert_eq!(power(2, 7, DType::I8), -128);
        assert_eq!(power(3, 1 << 40, DType::U64), i128::from(3u64.wrapping_pow(1 << 20).wrapping_pow(1 << 20)));
        assert_eq!([power(1, -5, DType::I32), power(-1, -5, DType::I32), power(-1, -4, DType::I32)], [1, -1, 1]);
        assert_eq!([power(2, -1, DType::I32), power(0, -1, DType::I32), power(0, 0, DType::I32)], [0, 0, 1]);
    }

    #[test]
    fn shifts_by_the_width_or_more_give_zero_or_the_sign() {
        assert_eq!(wrap(DType::I8, shift_left(1, 7, DType::I8)), -128);
        assert_eq!([shift_left(1, 8, DType::I8), shift_left(1, -1, DType::I8)], [0, 0]);
        assert_eq!([shift_right_arithmetic(-2, 9, DType::I8), shift_right_arithmetic(-2, 1, DType::I8)], [-1, -1]);
        assert_eq!([shift_right_logical(-2, 1, DType::I8), shift_right_logical(-2, 8, DType::I8)], [127, 0]);
        assert_eq!(wrap(DType::U8, shift_right_arithmetic(0x80, 1, DType::U8)), 0xC0);
    }

    #[test]
    fn bits_are_counted_in_the_width() {
        assert_eq!([count_leading_zeros(0, DType::I16), count_leading_zeros(-1, DType::I16)], [16, 0]);
        assert_eq!([popcnt(-1, DType::I16), popcnt(5, DType::U64)], [16, 2]);
    }

    #[test]
    fn maximum_and_minimum_propagate_nan_and_give_the_left_zero() {
        assert!(maximum(f64::NAN, 1.0).is_nan() && minimum(1.0, f64::NAN).is_nan());
        assert!(maximum(-0.0, 0.0).is_sign_negative() && minimum(0.0, -0.0).is_sign_positive());
        assert!(maximum(-0.0, -0.0).is_sign_negative());
        assert_eq!([maximum(-1.0, -2.0), minimum(f64::INFINITY, 3.0)], [-1.0, 3.0]);
    }
}
