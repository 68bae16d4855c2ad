//! Converts tensors and element types between the interpreter and the runtime, which know nothing
//! of each other.

use crate::Error;
use disc_ir::{DType, interp::Tensor};
use disc_ral::HostTensor;

/// Returns the runtime's element type.
pub(crate) fn dtype(dtype: DType) -> disc_ral::DType {
    match dtype {
        DType::F16 => disc_ral::DType::F16,
        DType::BF16 => disc_ral::DType::BF16,
        DType::F32 => disc_ral::DType::F32,
        DType::F64 => disc_ral::DType::F64,
        DType::I1 => disc_ral::DType::I1,
        DType::I8 => disc_ral::DType::I8,
        DType::I16 => disc_ral::DType::I16,
        DType::I32 => disc_ral::DType::I32,
        DType::I64 => disc_ral::DType::I64,
        DType::U8 => disc_ral::DType::U8,
        DType::U16 => disc_ral::DType::U16,
        DType::U32 => disc_ral::DType::U32,
        DType::U64 => disc_ral::DType::U64,
    }
}

/// Returns the compiler's element type for one of the runtime.
pub fn dtype_of_runtime(dtype: disc_ral::DType) -> DType {
    DType::from_name(dtype.name()).expect("both crates have the same element types")
}

/// Copies a tensor of the interpreter to memory that compiled code reads.
///
/// # Errors
/// No memory.
pub fn to_host(tensor: &Tensor) -> Result<HostTensor, Error> {
    let mut made = HostTensor::zeros(dtype(tensor.dtype()), tensor.dims())?;
    made.bytes_mut().copy_from_slice(tensor.bytes());
    Ok(made)
}

/// Copies a tensor of the runtime to one of the interpreter.
///
/// # Errors
/// No memory.
pub fn from_host(tensor: &HostTensor) -> Result<Tensor, Error> {
    Ok(Tensor::new(dtype_of_runtime(tensor.dtype()), tensor.sizes().to_vec(), tensor.bytes().to_vec())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_types_and_tensors_convert_there_and_back() {
        for runtime in disc_ral::DType::ALL {
            assert_eq!(dtype(dtype_of_runtime(runtime)), runtime);
            let tensor = Tensor::from_i64s(dtype_of_runtime(runtime), &[2], &[0, 1]).unwrap();
            assert_eq!(from_host(&to_host(&tensor).unwrap()).unwrap(), tensor);
        }
    }
}
