//! Reads several named arrays from a file in the format of safetensors.
use disc::{
    dtype_of_runtime,
    ral::{StoredTensor, read_safetensors},
};
use disc_ir::interp::Tensor;

pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<(String, Tensor)>, String> {
    let array = |StoredTensor { name, dtype, sizes, bytes }: StoredTensor<'_>| {
        let tensor = Tensor::new(dtype_of_runtime(dtype), sizes.into_owned(), bytes.to_vec());
        Ok((name.to_string(), tensor.map_err(|error| format!("`{name}`: {}", error.message))?))
    };
    read_safetensors(bytes)?.into_iter().map(array).collect()
}
