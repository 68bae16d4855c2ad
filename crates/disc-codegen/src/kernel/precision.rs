//! Chooses the types that values are computed and summed in, and rounds to others.
use super::KernelBuilder;
use disc_ir::{DType, Value};

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

impl KernelBuilder {
    /// Converts to `dtype` and back to the type in which it is computed: the value is rounded as
    /// the program says.
    pub fn round_to(&mut self, value: Value, dtype: DType) -> Value {
        let rounded = self.convert(value, dtype);
        self.convert(rounded, compute_dtype(dtype))
    }
}
