//! Reads several named arrays from a file in the format of safetensors.
use disc_ir::{DType, interp::Tensor};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<(String, Tensor)>, String> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| format!("it is no safetensors file: {error}"))?;
    let array = |(name, view): (String, TensorView<'_>)| {
        let dtype = dtype(view.dtype()).ok_or_else(|| format!("`{name}`: elements of type {} are not read", view.dtype()))?;
        let sizes = view.shape().iter().map(|&size| size as i64).collect();
        let tensor = Tensor::new(dtype, sizes, view.data().to_vec()).map_err(|error| format!("`{name}`: {}", error.message))?;
        Ok((name, tensor))
    };
    file.tensors().into_iter().map(array).collect()
}

fn dtype(dtype: Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        Dtype::BOOL => DType::I1,
        Dtype::I8 => DType::I8,
        Dtype::U8 => DType::U8,
        Dtype::I16 => DType::I16,
        Dtype::U16 => DType::U16,
        Dtype::I32 => DType::I32,
        Dtype::U32 => DType::U32,
        Dtype::I64 => DType::I64,
        Dtype::U64 => DType::U64,
        _ => return None,
    })
}
