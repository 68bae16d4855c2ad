//! Reads and writes several named arrays in NumPy's format .npz: a zip file of .npy files.
use super::npy;
use disc_ir::interp::Tensor;
use std::io::{Cursor, Read, Seek, Write};
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

/// An array with more bytes does not fit the sizes of a plain zip entry.
const LARGE: usize = u32::MAX as usize;

pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<(String, Tensor)>, String> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| format!("it is no .npz file: {error}"))?;
    let count = archive.len();
    let array = |i| {
        let mut file = archive.by_index(i).map_err(|error| error.to_string())?;
        let name = file.name().map_err(|error| error.to_string())?.into_owned();
        let name = name.strip_suffix(".npy").map_or(name.clone(), str::to_owned);
        let mut contents = Vec::new();
        file.read_to_end(&mut contents).map_err(|error| format!("`{name}`: {error}"))?;
        let tensor = npy::decode(&contents).map_err(|error| format!("`{name}`: {error}"))?;
        Ok((name, tensor))
    };
    (0..count).map(array).collect()
}

/// Writes the arrays in this order, as `np.savez` does.
pub(crate) fn write(arrays: &[(&str, &Tensor)], out: impl Write + Seek) -> Result<(), String> {
    let mut zip = ZipWriter::new(out);
    for (name, tensor) in arrays {
        let is_large = tensor.bytes().len() > LARGE - (1 << 20);
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored).large_file(is_large);
        zip.start_file(format!("{name}.npy"), options).map_err(|error| format!("`{name}`: {error}"))?;
        let written = zip.write_all(&npy::header(tensor)).and_then(|()| zip.write_all(tensor.bytes()));
        written.map_err(|error| format!("`{name}`: {error}"))?;
    }
    zip.finish().map_err(|error| error.to_string())?.flush().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use disc_ir::DType;

    #[test]
    fn arrays_are_read_back_in_their_order() {
        let half = Tensor::from_f64s(DType::BF16, &[2], &[0.5, 1.0]).unwrap();
        let ids = Tensor::from_i64s(DType::I64, &[], &[7]).unwrap();
        let mut file = Cursor::new(Vec::new());
        write(&[("z", &half), ("a.b", &ids)], &mut file).unwrap();
        let file = file.into_inner();
        assert_eq!(decode(&file).unwrap(), [("z".to_owned(), half), ("a.b".to_owned(), ids)]);
        for length in 0..file.len() {
            assert!(decode(&file[..length]).is_err(), "{length}");
        }
    }
}
