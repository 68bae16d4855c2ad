//! Holds constant tensor data.
//!
//! Invariants: `bytes` holds either all elements in row-major order or, for a splat, one;
//! little-endian; a truth value is one byte.
use crate::types::DType;
use std::sync::Arc;

/// The elements of a constant. Its shape is the type of the op that holds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Literal {
    pub dtype: DType,
    /// One element is repeated.
    pub splat: bool,
    pub bytes: Arc<[u8]>,
}

impl Literal {
    /// All elements, in row-major order.
    pub fn dense(dtype: DType, bytes: impl Into<Arc<[u8]>>) -> Self {
        Self { dtype, splat: false, bytes: bytes.into() }
    }

    /// Every element has the value `element` (its bytes, little-endian).
    pub fn splat(dtype: DType, element: &[u8]) -> Self {
        Self { dtype, splat: true, bytes: element.into() }
    }

    /// Every element has the value nearest to `value`.
    pub fn splat_f64(dtype: DType, value: f64) -> Self {
        Self::splat(dtype, &encode_f64(dtype, value))
    }

    /// Every element has the value `value`, wrapped to the width of `dtype`.
    pub fn splat_i64(dtype: DType, value: i64) -> Self {
        Self::splat(dtype, &encode_i64(dtype, value))
    }

    /// Elements given as floats, rounded to `dtype`.
    pub fn from_f64s(dtype: DType, values: &[f64]) -> Self {
        Self::dense(dtype, values.iter().flat_map(|&v| encode_f64(dtype, v)).collect::<Vec<u8>>())
    }

    /// Elements given as integers, wrapped to the width of `dtype`.
    pub fn from_i64s(dtype: DType, values: &[i64]) -> Self {
        Self::dense(dtype, values.iter().flat_map(|&v| encode_i64(dtype, v)).collect::<Vec<u8>>())
    }

    /// Returns the number of stored elements (1 for a splat).
    pub fn stored_len(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }

    /// Stored element `index` as a float (integers convert; exact up to 2^53).
    pub fn f64_at(&self, index: usize) -> f64 {
        let b = self.element(index);
        match self.dtype {
            DType::F16 => half::f16::from_le_bytes([b[0], b[1]]).to_f64(),
            DType::BF16 => half::bf16::from_le_bytes([b[0], b[1]]).to_f64(),
            DType::F32 => f64::from(f32::from_le_bytes(b.try_into().expect("four bytes"))),
            DType::F64 => f64::from_le_bytes(b.try_into().expect("eight bytes")),
            DType::U64 => self.i64_at(index) as u64 as f64,
            _ => self.i64_at(index) as f64,
        }
    }

    /// Stored element `index` as an integer; a float is truncated. A `u64` above `i64::MAX` keeps
    /// its bits.
    pub fn i64_at(&self, index: usize) -> i64 {
        let b = self.element(index);
        match self.dtype {
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => self.f64_at(index) as i64,
            DType::I1 | DType::U8 => i64::from(b[0]),
            DType::I8 => i64::from(b[0] as i8),
            DType::I16 => i64::from(i16::from_le_bytes([b[0], b[1]])),
            DType::U16 => i64::from(u16::from_le_bytes([b[0], b[1]])),
            DType::I32 => i64::from(i32::from_le_bytes(b.try_into().expect("four bytes"))),
            DType::U32 => i64::from(u32::from_le_bytes(b.try_into().expect("four bytes"))),
            DType::I64 | DType::U64 => i64::from_le_bytes(b.try_into().expect("eight bytes")),
        }
    }

    fn element(&self, index: usize) -> &[u8] {
        let size = self.dtype.size();
        let index = if self.splat { 0 } else { index };
        &self.bytes[index * size..(index + 1) * size]
    }
}

/// The bytes of `value` rounded to `dtype`; for integer types, truncated and saturated.
pub fn encode_f64(dtype: DType, value: f64) -> Vec<u8> {
    match dtype {
        DType::F16 => half::f16::from_f32(to_odd_f32(value)).to_le_bytes().to_vec(),
        DType::BF16 => half::bf16::from_f32(to_odd_f32(value)).to_le_bytes().to_vec(),
        DType::F32 => (value as f32).to_le_bytes().to_vec(),
        DType::F64 => value.to_le_bytes().to_vec(),
        DType::U64 => (value as u64).to_le_bytes().to_vec(),
        DType::I1 => vec![u8::from(value != 0.0)],
        _ => encode_i64(dtype, value as i64),
    }
}

/// The bytes of `value` wrapped to the width of `dtype`; for float types, rounded.
pub fn encode_i64(dtype: DType, value: i64) -> Vec<u8> {
    match dtype {
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => encode_f64(dtype, value as f64),
        DType::I1 => vec![u8::from(value != 0)],
        _ => value.to_le_bytes()[..dtype.size()].to_vec(),
    }
}

/// Returns the `f32` nearest to `value`, or, if that is inexact, the neighbour with an odd last
/// bit: rounding it to a type of at most 22 bits of precision equals rounding `value` itself.
/// (`from_f64` of half 2.7 drops the low 32 bits before it rounds.)
pub(crate) fn to_odd_f32(value: f64) -> f32 {
    let nearest = value as f32;
    if value.is_nan() || f64::from(nearest) == value || nearest.to_bits() & 1 == 1 {
        return nearest;
    }
    if f64::from(nearest) < value { nearest.next_up() } else { nearest.next_down() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_is_rounded_once() {
        let rounded = |dtype, value| Literal::splat_f64(dtype, value).f64_at(0);
        assert_eq!(rounded(DType::F16, 1.0 + 2f64.powi(-11) + 2f64.powi(-40)), 1.0 + 2f64.powi(-10));
        assert_eq!(rounded(DType::BF16, 1.0 + 2f64.powi(-8) + 2f64.powi(-40)), 1.0 + 2f64.powi(-7));
        assert_eq!(rounded(DType::F16, 1.0 + 2f64.powi(-11)), 1.0);
    }
}
