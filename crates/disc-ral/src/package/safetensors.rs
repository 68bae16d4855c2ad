//! Writes and reads tensors in the format of safetensors: the size of a header, the header as JSON,
//! the tensors.

use super::archive::PART_ALIGN;
use disc_abi::DType;
use safetensors::SafeTensors;
use serde_json::{Map, Value, json};
use std::{borrow::Cow, cmp::Reverse};

/// A tensor in a file of safetensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTensor<'a> {
    /// The name, of which a file has each once.
    pub name: Cow<'a, str>,
    /// The element type.
    pub dtype: DType,
    /// The size of each axis.
    pub sizes: Cow<'a, [i64]>,
    /// The elements in row-major order.
    pub bytes: &'a [u8],
}

/// Returns a file as pieces that follow each other: a header that ends at a multiple of
/// [`PART_ALIGN`], and the tensors. The format allows no gaps, so those whose size keeps the next
/// one aligned come first, then the ones with large elements.
pub fn write_safetensors<'a>(tensors: &[StoredTensor<'a>]) -> (Vec<u8>, Vec<&'a [u8]>) {
    let mut order: Vec<&StoredTensor<'a>> = tensors.iter().collect();
    order.sort_by_key(|tensor| (!tensor.bytes.len().is_multiple_of(PART_ALIGN), Reverse(tensor.dtype.size())));
    let mut header = Map::new();
    let mut at = 0;
    for StoredTensor { name, dtype, sizes, bytes } in &order {
        let end = at + bytes.len();
        header.insert(name.to_string(), json!({ "dtype": name_of(*dtype), "shape": sizes, "data_offsets": [at, end] }));
        at = end;
    }
    let mut text = Value::Object(header).to_string().into_bytes();
    text.resize((8 + text.len()).next_multiple_of(PART_ALIGN) - 8, b' ');
    let header = [&(text.len() as u64).to_le_bytes()[..], &text].concat();
    (header, order.into_iter().map(|tensor| tensor.bytes).collect())
}

/// Returns the tensors of a file, by name.
///
/// # Errors
/// Says what is wrong: another format, or an element type that disc does not have.
pub fn read_safetensors(file: &[u8]) -> Result<Vec<StoredTensor<'_>>, String> {
    let found = SafeTensors::deserialize(file).map_err(|error| format!("it is no safetensors file: {error}"))?;
    let mut tensors = Vec::new();
    for name in found.names() {
        let view = found.tensor(name).map_err(|error| error.to_string())?;
        let text = view.dtype().to_string();
        let dtype = DType::ALL.into_iter().find(|&dtype| name_of(dtype) == text);
        let dtype = dtype.ok_or_else(|| format!("`{name}` has element type {text}"))?;
        let sizes = view.shape().iter().map(|&size| size as i64).collect();
        tensors.push(StoredTensor { name: name.to_owned().into(), dtype, sizes, bytes: view.data() });
    }
    tensors.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(tensors)
}

/// Returns the format's name of an element type.
fn name_of(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 => "F16",
        DType::BF16 => "BF16",
        DType::F32 => "F32",
        DType::F64 => "F64",
        DType::I1 => "BOOL",
        DType::I8 => "I8",
        DType::U8 => "U8",
        DType::I16 => "I16",
        DType::U16 => "U16",
        DType::I32 => "I32",
        DType::U32 => "U32",
        DType::I64 => "I64",
        DType::U64 => "U64",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_of_every_type_are_read_back_and_aligned() {
        let bytes = [1_u8; 3 * 8];
        let long = [0_u8; 128];
        let name = |dtype: DType| Cow::from(format!("w.{dtype}"));
        let small = DType::ALL.map(|dtype| StoredTensor {
            name: name(dtype),
            dtype,
            sizes: vec![3].into(),
            bytes: &bytes[..3 * dtype.size()],
        });
        let whole = StoredTensor { name: "z".into(), dtype: DType::U8, sizes: vec![2, 64].into(), bytes: &long };
        let empty = StoredTensor { name: "empty".into(), dtype: DType::F32, sizes: vec![0, 5].into(), bytes: &[] };
        let mut tensors = [small.to_vec(), vec![whole, empty]].concat();
        let (header, pieces) = write_safetensors(&tensors);
        assert_eq!(header.len() % PART_ALIGN, 0);
        let file = [&header[..], &pieces.concat()].concat();
        tensors.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let found = read_safetensors(&file).unwrap();
        assert_eq!(found, tensors);
        let start = file.as_ptr().addr() + header.len();
        assert!(found.iter().all(|tensor| (tensor.bytes.as_ptr().addr() - start).is_multiple_of(tensor.dtype.size())));
        assert!(read_safetensors(&file[..file.len() - 1]).is_err());
        assert!(read_safetensors(b"").unwrap_err().contains("no safetensors file"));
    }
}
