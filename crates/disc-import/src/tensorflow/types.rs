//! Maps TensorFlow's element types, which are numbers (types.proto), and reads its tensors.
use super::proto::{TensorShape, TensorValue};
use crate::source::limits::LITERALS;
use bytes::Bytes;
use disc_ir::{Code, DType, Diagnostic, literal::encode_i64};

const NAMES: &[(i32, &str)] = &[
    (7, "string"),
    (8, "complex64"),
    (11, "qint8"),
    (12, "quint8"),
    (13, "qint32"),
    (15, "qint16"),
    (16, "quint16"),
    (18, "complex128"),
    (20, "resource"),
    (21, "variant"),
];

/// Returns the element type of a number.
///
/// # Errors
/// E1004: a type that disc has not, or a reference.
pub(super) fn dtype(number: i32) -> Result<DType, Diagnostic> {
    Ok(match number {
        1 => DType::F32,
        2 => DType::F64,
        3 => DType::I32,
        4 => DType::U8,
        5 => DType::I16,
        6 => DType::I8,
        9 => DType::I64,
        10 => DType::I1,
        14 => DType::BF16,
        17 => DType::U16,
        19 => DType::F16,
        22 => DType::U32,
        23 => DType::U64,
        _ => {
            let name = NAMES.iter().find(|(known, _)| *known == number).map(|(_, name)| *name);
            let name = name.map_or_else(|| format!("type {number}"), |name| format!("the type {name}"));
            return Err(Diagnostic::new(Code::E1004, format!("{name} is not supported")));
        }
    })
}

/// Returns the sizes of a shape whose sizes are numbers.
///
/// # Errors
/// E1004: an open size or rank.
pub(super) fn static_sizes(shape: &TensorShape) -> Result<Vec<i64>, Diagnostic> {
    let sizes: Vec<i64> = shape.dim.iter().map(|dim| dim.size).collect();
    if shape.unknown_rank || sizes.iter().any(|&size| size < 0) {
        return Err(Diagnostic::new(Code::E1004, format!("a tensor has open sizes: {sizes:?}")));
    }
    Ok(sizes)
}

/// Returns the type, sizes and bytes of a tensor. Where fewer elements are listed than it has, the
/// last one is repeated (tensor.proto); `repeated` counts the bytes of such tensors.
///
/// # Errors
/// E1002: too many bytes are repeated. E1004: an unknown type. E1005: more elements than the sizes
/// say, or bytes of another count.
pub(super) fn contents(tensor: &TensorValue, repeated: &mut usize) -> Result<(DType, Vec<i64>, Bytes), Diagnostic> {
    let dtype = dtype(tensor.dtype)?;
    let sizes = static_sizes(tensor.shape.as_ref().unwrap_or(&TensorShape::default()))?;
    let count = sizes.iter().try_fold(1_usize, |count, &size| count.checked_mul(usize::try_from(size).ok()?));
    let bytes = count.and_then(|count| count.checked_mul(dtype.size()));
    let (Some(count), Some(bytes)) = (count, bytes.filter(|&bytes| isize::try_from(bytes).is_ok())) else {
        return Err(Diagnostic::new(Code::E1005, format!("a tensor of sizes {sizes:?} is too large")));
    };
    if !tensor.content.is_empty() {
        if tensor.content.len() != bytes {
            let found = tensor.content.len();
            let message = format!("a tensor of type {} and sizes {sizes:?} has {found} bytes", dtype.name());
            return Err(Diagnostic::new(Code::E1005, message));
        }
        return Ok((dtype, sizes, tensor.content.clone()));
    }
    let listed = listed(tensor, dtype);
    let found = listed.len() / dtype.size();
    if found > count {
        return Err(Diagnostic::new(Code::E1005, format!("a tensor of sizes {sizes:?} lists {found} elements")));
    }
    // A single element stands for millions: it must not be multiplied before anybody asks.
    if found < count {
        *repeated = repeated.saturating_add(bytes);
        LITERALS.check(*repeated)?;
    }
    let mut all = listed;
    let last = all.rchunks(dtype.size()).next().map_or_else(|| vec![0; dtype.size()], <[u8]>::to_vec);
    while all.len() < bytes {
        all.extend_from_slice(&last);
    }
    Ok((dtype, sizes, Bytes::from(all)))
}

/// The listed elements as bytes.
fn listed(tensor: &TensorValue, dtype: DType) -> Vec<u8> {
    match dtype {
        DType::F32 => tensor.float.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::F64 => tensor.double.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::F16 | DType::BF16 => tensor.half.iter().flat_map(|&x| (x as u16).to_le_bytes()).collect(),
        DType::I64 => tensor.int64.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::U32 => tensor.uint32.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::U64 => tensor.uint64.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::I1 => tensor.bool.iter().map(|&x| u8::from(x)).collect(),
        _ => tensor.int.iter().flat_map(|&x| encode_i64(dtype, i64::from(x))).collect(),
    }
}
