//! Chooses the types that values are computed and summed in.
use disc_ir::DType;

/// The type that values of `dtype` are computed in.
pub fn compute_dtype(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        _ => dtype,
    }
}

/// The type that products of `dtype` are summed in. Integers wrap, so that the sums of a narrow
/// type are the low bits of those of a wide one.
pub fn accumulator_dtype(dtype: DType) -> DType {
    match compute_dtype(dtype) {
        wide if wide.is_float() || wide.size() >= 4 => wide,
        _ => DType::I32,
    }
}
