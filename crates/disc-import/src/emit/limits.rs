//! Gives the limits of element types, and what changes nothing in a reduction.
use super::Operand;
use disc_ir::{DType, OpKind};

/// The least value of a type: minus infinity for floats.
pub fn lowest(dtype: DType) -> Operand {
    match dtype {
        _ if dtype.is_float() => f64::NEG_INFINITY.into(),
        DType::I1 => false.into(),
        _ if dtype.is_signed_integer() => (-1i64 << (dtype.bits() - 1)).into(),
        _ => 0.into(),
    }
}

/// The greatest value of a type: infinity for floats. That of `u64` is its bits, -1.
pub fn highest(dtype: DType) -> Operand {
    match dtype {
        _ if dtype.is_float() => f64::INFINITY.into(),
        DType::I1 => true.into(),
        _ if dtype.is_signed_integer() => (i64::MAX >> (64 - dtype.bits())).into(),
        _ => ((u64::MAX >> (64 - dtype.bits())) as i64).into(),
    }
}

/// The value that changes nothing when it is combined by `how`.
pub fn neutral(how: OpKind, dtype: DType) -> Operand {
    match how {
        OpKind::Add | OpKind::Or | OpKind::Xor => 0.into(),
        OpKind::Multiply | OpKind::And => 1.into(),
        OpKind::Maximum => lowest(dtype),
        _ => highest(dtype),
    }
}
