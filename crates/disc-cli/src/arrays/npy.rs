//! Reads and writes arrays in NumPy's format .npy: a magic word, the length of the header, the
//! header, which is a dictionary of Python, and the elements.
//!
//! Invariant: [`decode`] reads back what [`header`] and the elements make. bf16, which NumPy does
//! not have, is two raw bytes.
use disc_ir::{DType, interp::Tensor};

const MAGIC: &[u8] = b"\x93NUMPY";
/// The header is padded so that elements begin at a multiple of this.
const ALIGN: usize = 64;

/// NumPy's names of element types.
const NAMES: &[(DType, &str)] = &[
    (DType::F16, "f2"),
    (DType::BF16, "V2"),
    (DType::F32, "f4"),
    (DType::F64, "f8"),
    (DType::I1, "b1"),
    (DType::I8, "i1"),
    (DType::I16, "i2"),
    (DType::I32, "i4"),
    (DType::I64, "i8"),
    (DType::U8, "u1"),
    (DType::U16, "u2"),
    (DType::U32, "u4"),
    (DType::U64, "u8"),
];

/// Reads an array; the message of a failure does not name the file.
pub(crate) fn decode(bytes: &[u8]) -> Result<Tensor, String> {
    let cut = "the file is no .npy file, or is truncated";
    let version = bytes.strip_prefix(MAGIC).and_then(|rest| rest.first()).ok_or(cut)?;
    let (length, start) = match version {
        1 => (bytes.get(8..10).map(|n| usize::from(n[0]) | usize::from(n[1]) << 8), 10),
        _ => (bytes.get(8..12).map(|n| u32::from_le_bytes([n[0], n[1], n[2], n[3]]) as usize), 12),
    };
    let end = length.and_then(|length| length.checked_add(start)).ok_or(cut)?;
    let header = bytes.get(start..end).ok_or(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| "its header is no text")?;
    let value = |key: &str| header.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
    let no_header = || format!("its header is damaged: {}", header.trim_end());
    let descr = value("descr").ok_or_else(no_header)?;
    let name = descr.strip_prefix('\'').and_then(|rest| rest.split_once('\'')).map(|(name, _)| name);
    let dtype = name.and_then(element_type).ok_or_else(|| {
        let shown = name.unwrap_or_else(|| descr.lines().next().unwrap_or_default());
        format!("elements of type {shown} are not read")
    })?;
    let sizes = value("shape").and_then(shape).ok_or_else(no_header)?;
    if value("fortran_order").is_none_or(|order| !order.starts_with("False")) && sizes.len() > 1 {
        return Err("the array is in Fortran order; save np.ascontiguousarray(array)".into());
    }
    let needed = sizes.iter().try_fold(dtype.size(), |n, &size| n.checked_mul(usize::try_from(size).ok()?));
    let data = needed.and_then(|needed| bytes[end..].get(..needed));
    let short = || format!("the file is truncated: {} bytes for an array of sizes {sizes:?}", bytes.len() - end);
    Tensor::new(dtype, sizes.clone(), data.ok_or_else(short)?.to_vec()).map_err(|error| error.message)
}

/// Encodes magic word, lengths and header; the elements follow.
pub(crate) fn header(tensor: &Tensor) -> Vec<u8> {
    let name = NAMES.iter().find(|(dtype, _)| *dtype == tensor.dtype()).map_or("V2", |(_, name)| name);
    let order = if tensor.dtype().size() == 1 || name == "V2" { '|' } else { '<' };
    let sizes: String = tensor.dims().iter().map(|size| format!("{size}, ")).collect();
    let mut header = format!("{{'descr': '{order}{name}', 'fortran_order': False, 'shape': ({}), }}", sizes.trim_end());
    let padded = (10 + header.len() + 1).next_multiple_of(ALIGN) - 10;
    header += &" ".repeat(padded - header.len() - 1);
    header.push('\n');
    let length = u16::try_from(header.len()).expect("a rank is small");
    [MAGIC, b"\x01\x00", &length.to_le_bytes()[..], header.as_bytes()].concat()
}

/// Little-endian types: `<f4`, `|b1`, ...
fn element_type(text: &str) -> Option<DType> {
    let name = text.trim_start_matches(['<', '|', '=']);
    NAMES.iter().find(|(_, known)| *known == name).map(|(dtype, _)| *dtype)
}

/// Parses a tuple of sizes: `()`, `(3,)`, `(3, 4)`.
fn shape(text: &str) -> Option<Vec<i64>> {
    let (inside, _) = text.strip_prefix('(')?.split_once(')')?;
    let sizes = inside.split(',').map(str::trim).filter(|size| !size.is_empty());
    sizes.map(|size| size.parse().ok().filter(|&size: &i64| size >= 0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(tensor: &Tensor) -> Vec<u8> {
        [&header(tensor), tensor.bytes()].concat()
    }

    #[test]
    fn an_array_that_is_written_is_read_back() {
        for (dtype, _) in NAMES {
            for sizes in [&[][..], &[0], &[2], &[2, 3]] {
                let count = sizes.iter().product::<i64>();
                let tensor = Tensor::from_i64s(*dtype, sizes, &vec![1; count as usize]).unwrap();
                assert_eq!(header(&tensor).len() % ALIGN, 0);
                assert_eq!(decode(&encoded(&tensor)).unwrap(), tensor);
            }
        }
    }

    #[test]
    fn damaged_files_are_errors() {
        let file = encoded(&Tensor::from_f64s(DType::F32, &[2, 3], &[1.0; 6]).unwrap());
        for length in 0..file.len() {
            assert!(decode(&file[..length]).is_err(), "{length}");
        }
        let text = String::from_utf8_lossy(&file).into_owned();
        let patched = |from: &str, to: &str| {
            let at = text.find(from).unwrap() - 2; // the magic word's first byte reads as three
            let mut bytes = file.clone();
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
            decode(&bytes).unwrap_err()
        };
        assert!(patched("(2, 3,)", "(9999999999999999, 99999999)").contains("truncated"));
        assert!(patched("(2, 3,)", "(2,-3)").contains("damaged"));
        assert!(patched("'<f4'", "'>f4'").contains("type >f4"));
        assert!(patched("'<f4'", "[('a").contains("elements of type"));
        assert!(patched("False", "True ").contains("Fortran"));
    }
}
