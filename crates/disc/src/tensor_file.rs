//! Writes and reads tensors in the format of safetensors: the size of a header, the header as JSON,
//! the tensors.

use crate::Error;
use disc_ral::DType;
use serde_json::{Map, Value, json};

/// The tensors begin at a multiple of this.
const ALIGN: usize = disc_ral::PART_ALIGN;

/// A tensor to be written.
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a str,
    pub(crate) dtype: DType,
    pub(crate) sizes: &'a [i64],
    pub(crate) bytes: &'a [u8],
}

/// Returns the header of a file, and the order of the tensors behind it: the format allows no gaps,
/// so those whose size keeps the next one aligned come first, then the ones with large elements.
pub(crate) fn layout(entries: &[Entry<'_>]) -> (Vec<u8>, Vec<usize>) {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|&i| {
        let entry = &entries[i];
        (!entry.bytes.len().is_multiple_of(ALIGN), std::cmp::Reverse(entry.dtype.size()))
    });
    let mut header = Map::new();
    let mut at = 0;
    for &i in &order {
        let Entry { name, dtype, sizes, bytes } = &entries[i];
        let end = at + bytes.len();
        header.insert((*name).into(), json!({ "dtype": name_of(*dtype), "shape": sizes, "data_offsets": [at, end] }));
        at = end;
    }
    let mut text = Value::Object(header).to_string().into_bytes();
    text.resize((8 + text.len()).next_multiple_of(ALIGN) - 8, b' ');
    ([&(text.len() as u64).to_le_bytes()[..], &text].concat(), order)
}

/// A tensor that was read: name, element type, sizes, elements.
pub(crate) type Found<'a> = (String, DType, Vec<i64>, &'a [u8]);

/// Returns a whole file.
pub(crate) fn write(entries: &[Entry<'_>]) -> Vec<u8> {
    let (header, order) = layout(entries);
    order.iter().fold(header, |mut file, &i| {
        file.extend(entries[i].bytes);
        file
    })
}

/// Returns name, element type, sizes and elements of each tensor, by name.
///
/// # Errors
/// A file of another format, or an element type that disc does not have.
pub(crate) fn read(file: &[u8]) -> Result<Vec<Found<'_>>, Error> {
    let wrong = |why: String| Error::argument(format!("no safetensors file: {why}"));
    let found = ::safetensors::SafeTensors::deserialize(file).map_err(|error| wrong(error.to_string()))?;
    let mut names = found.names();
    names.sort_unstable();
    let tensor = |name: &str| {
        let view = found.tensor(name).map_err(|error| wrong(error.to_string()))?;
        let text = view.dtype().to_string();
        let dtype = DType::ALL.into_iter().find(|&dtype| name_of(dtype) == text);
        let dtype = dtype.ok_or_else(|| wrong(format!("`{name}` has element type {text}")))?;
        let sizes = view.shape().iter().map(|&size| size as i64).collect();
        Ok((name.to_owned(), dtype, sizes, view.data()))
    };
    names.into_iter().map(tensor).collect()
}

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
