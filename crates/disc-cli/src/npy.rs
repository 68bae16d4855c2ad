//! Reads and writes arrays as NumPy files.
//!
//! Invariant: [`read`] reads back the files of [`write`]. bf16, which NumPy does not have, is
//! written as two raw bytes and cannot be read.
use disc_ir::{Code, DType, Diagnostic, interp::Tensor};
use npyz::{DType as NpyDType, NpyFile, Order};

/// NumPy's names of element types.
const NAMES: &[(DType, &str)] = &[
    (DType::F16, "f2"),
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

pub(crate) fn read(path: &str) -> Result<Tensor, Diagnostic> {
    let wrong = |why: String| Diagnostic::new(Code::E0601, format!("{path}: {why}"));
    let bytes = std::fs::read(path).map_err(|e| wrong(e.to_string()))?;
    let file = NpyFile::new(&bytes[..]).map_err(|e| wrong(e.to_string()))?;
    let header = file.header();
    let dtype = element_type(&header.dtype()).ok_or_else(|| wrong(format!("elements of type {}", header.dtype().descr())))?;
    if header.order() != Order::C && header.shape().len() > 1 {
        return Err(wrong("the array is in Fortran order; save np.ascontiguousarray(array)".into()));
    }
    let sizes: Vec<i64> = header.shape().iter().map(|&size| i64::try_from(size).unwrap_or(i64::MAX)).collect();
    let count = sizes.iter().try_fold(dtype.size(), |n, &size| n.checked_mul(usize::try_from(size).ok()?));
    let data = count.and_then(|count| bytes.len().checked_sub(count)).map(|start| bytes[start..].to_vec());
    Tensor::new(dtype, sizes, data.ok_or_else(|| wrong("the file is too short".into()))?).map_err(|e| wrong(e.message))
}

pub(crate) fn write(path: &std::path::Path, tensor: &Tensor) -> Result<(), Diagnostic> {
    std::fs::write(path, bytes(tensor)).map_err(|e| Diagnostic::new(Code::E0700, format!("{}: {e}", path.display())))
}

/// Encodes format version 1.0: a magic word, the length of the header, the header padded to a
/// multiple of 64 bytes, the elements.
fn bytes(tensor: &Tensor) -> Vec<u8> {
    let name = NAMES.iter().find(|(dtype, _)| *dtype == tensor.dtype()).map_or("V2", |(_, name)| name);
    let order = if tensor.dtype().size() == 1 || name == "V2" { '|' } else { '<' };
    let sizes: String = tensor.dims().iter().map(|size| format!("{size}, ")).collect();
    let mut header = format!("{{'descr': '{order}{name}', 'fortran_order': False, 'shape': ({}), }}", sizes.trim_end());
    let padded = (10 + header.len() + 1).next_multiple_of(64) - 10;
    header += &" ".repeat(padded - header.len() - 1);
    header.push('\n');
    let length = u16::try_from(header.len()).expect("a rank is small");
    [b"\x93NUMPY\x01\x00", &length.to_le_bytes()[..], header.as_bytes(), tensor.bytes()].concat()
}

/// Little-endian types: `<f4`, `|b1`, ...
fn element_type(dtype: &NpyDType) -> Option<DType> {
    let NpyDType::Plain(plain) = dtype else { return None };
    let text = plain.to_string();
    let name = text.trim_start_matches(['<', '|', '=']);
    NAMES.iter().find(|(_, known)| *known == name).map(|(dtype, _)| *dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let path = std::env::temp_dir().join(format!("disc-npy-{}.npy", std::process::id()));
        for (dtype, _) in NAMES {
            for sizes in [&[][..], &[0], &[2], &[2, 3]] {
                let count = sizes.iter().product::<i64>();
                let tensor = Tensor::from_i64s(*dtype, sizes, &vec![1; count as usize]).unwrap();
                write(&path, &tensor).unwrap();
                assert_eq!(std::fs::read(&path).unwrap().len() % 64, tensor.bytes().len() % 64);
                assert_eq!(read(path.to_str().unwrap()).unwrap(), tensor);
            }
        }
        std::fs::remove_file(&path).unwrap();
    }
}
