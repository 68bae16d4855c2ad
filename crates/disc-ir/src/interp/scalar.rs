//! Represents one element in the interpreter's arithmetic.
//!
//! Invariants:
//! - Floats are `f64` and integers and truth values `i128`, wide enough that one op on elements of
//!   any type is exact or is rounded once: when the result is stored. [`encode`] rounds and wraps;
//!   nothing else does.
//! - Rounding goes to nearest, ties to even, directly from the exact value (never through a type
//!   between).
use crate::{literal::to_odd_f32, types::DType};

/// The value of one element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar {
    Float(f64),
    Int(i128),
}

impl Scalar {
    /// The value as a float; integers beyond 53 bits are rounded to odd, so that rounding again is
    /// right.
    pub(super) fn as_f64(self) -> f64 {
        match self {
            Scalar::Float(value) => value,
            Scalar::Int(value) => to_odd_f64(value),
        }
    }

    /// The value as an integer; a float is truncated, and 0 if it is NaN.
    pub(super) fn as_int(self) -> i128 {
        match self {
            Scalar::Float(value) => value as i128,
            Scalar::Int(value) => value,
        }
    }

    pub(super) fn is_true(self) -> bool {
        match self {
            Scalar::Float(value) => value != 0.0,
            Scalar::Int(value) => value != 0,
        }
    }
}

/// Writes `value` as an element of type `dtype` into `bytes`: floats are rounded, integers wrap.
pub(super) fn encode(dtype: DType, value: Scalar, bytes: &mut [u8]) {
    match dtype {
        DType::F16 => bytes.copy_from_slice(&half::f16::from_f32(to_odd_f32(value.as_f64())).to_le_bytes()),
        DType::BF16 => bytes.copy_from_slice(&half::bf16::from_f32(to_odd_f32(value.as_f64())).to_le_bytes()),
        DType::F32 => bytes.copy_from_slice(&(value.as_f64() as f32).to_le_bytes()),
        DType::F64 => {
            let exact = if let Scalar::Int(value) = value { value as f64 } else { value.as_f64() };
            bytes.copy_from_slice(&exact.to_le_bytes());
        }
        DType::I1 => bytes[0] = u8::from(value.is_true()),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 | DType::U16 | DType::U32 | DType::U64 => {
            bytes.copy_from_slice(&value.as_int().to_le_bytes()[..dtype.size()]);
        }
    }
}

/// Reads an element of type `dtype`.
pub(super) fn decode(dtype: DType, b: &[u8]) -> Scalar {
    match dtype {
        DType::F16 => Scalar::Float(half::f16::from_le_bytes([b[0], b[1]]).to_f64()),
        DType::BF16 => Scalar::Float(half::bf16::from_le_bytes([b[0], b[1]]).to_f64()),
        DType::F32 => Scalar::Float(f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
        DType::F64 => Scalar::Float(f64::from_bits(bits(b))),
        DType::I1 => Scalar::Int(i128::from(b[0] != 0)),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => {
            let unused = 64 - dtype.bits();
            Scalar::Int(i128::from((bits(b) << unused) as i64 >> unused))
        }
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => Scalar::Int(i128::from(bits(b))),
    }
}

/// Up to eight bytes, little-endian.
fn bits(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte))
}

/// Rounds `value` to an element of type `dtype`.
pub(super) fn round(dtype: DType, value: Scalar) -> Scalar {
    let mut bytes = [0; 8];
    let bytes = &mut bytes[..dtype.size()];
    encode(dtype, value, bytes);
    decode(dtype, bytes)
}

/// The least and the greatest integer of `dtype`.
fn range(dtype: DType) -> (i128, i128) {
    let bits = dtype.bits();
    match dtype {
        DType::I1 => (0, 1),
        _ if dtype.is_signed_integer() => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    }
}

/// Converts a float to `dtype`: an integer is truncated and saturates, and is 0 for NaN.
pub(super) fn saturate(dtype: DType, value: f64) -> Scalar {
    if !dtype.is_integer() {
        return Scalar::Float(value);
    }
    let (low, high) = range(dtype);
    Scalar::Int((value as i128).clamp(low, high))
}

/// The bits of an integer element, as a number >= 0.
pub(super) fn unsigned(dtype: DType, value: i128) -> i128 {
    value & ((1 << dtype.bits()) - 1)
}

/// As [`to_odd_f32`], for an integer and `f64`.
fn to_odd_f64(value: i128) -> f64 {
    let nearest = value as f64;
    if nearest as i128 == value || nearest.to_bits() & 1 == 1 {
        return nearest;
    }
    if (nearest as i128) < value { nearest.next_up() } else { nearest.next_down() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(dtype: DType, value: f64) -> f64 {
        round(dtype, Scalar::Float(value)).as_f64()
    }

    #[test]
    fn a_value_is_rounded_once() {
        // Halfway between 1 and the next f16, and a little more: f32 alone would see a tie.
        let tie = 1.0 + 2f64.powi(-11);
        assert_eq!(stored(DType::F16, tie), 1.0);
        assert_eq!(stored(DType::F16, tie + 2f64.powi(-40)), 1.0 + 2f64.powi(-10));
        assert_eq!(stored(DType::BF16, 1.0 + 2f64.powi(-8) + 2f64.powi(-40)), 1.0 + 2f64.powi(-7));
        assert_eq!(stored(DType::F16, 65520.0), f64::INFINITY);
        assert_eq!(stored(DType::F16, 1e300), f64::INFINITY);
        assert_eq!(stored(DType::F16, 1e-300), 0.0);
        let large = (1i128 << 62) + (1 << 38) + 1;
        assert_eq!(round(DType::F32, Scalar::Int(large)).as_f64(), 2f64.powi(62) + 2f64.powi(39));
    }

    #[test]
    fn integers_wrap_and_keep_their_sign() {
        let stored = |dtype, value| round(dtype, Scalar::Int(value));
        assert_eq!(stored(DType::I8, 200), Scalar::Int(-56));
        assert_eq!(stored(DType::U8, -1), Scalar::Int(255));
        assert_eq!(stored(DType::U64, -1), Scalar::Int(u64::MAX.into()));
        assert_eq!(stored(DType::I64, i128::from(u64::MAX)), Scalar::Int(-1));
        assert_eq!(stored(DType::I1, 2), Scalar::Int(1));
    }

    #[test]
    fn special_floats_survive() {
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            assert!(stored(dtype, f64::NAN).is_nan());
            assert_eq!(stored(dtype, f64::NEG_INFINITY), f64::NEG_INFINITY);
            assert!(stored(dtype, -0.0).is_sign_negative());
        }
    }
}
