//! Reads and writes arrays in files: one in .npy, several with names in .npz and .safetensors.
mod npy;
mod npz;
mod safetensors;

use disc_ir::{Code, Diagnostic, interp::Tensor};
use std::{fs, io::BufWriter, os::unix::fs::FileTypeExt, path::Path};

/// Returns true for a file that holds several arrays with names.
pub(crate) fn holds_several(path: &str) -> bool {
    is_npz(Path::new(path)) || path.ends_with(".safetensors")
}

pub(crate) fn is_npz(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "npz")
}

/// Reads a file with one array.
pub(crate) fn read(path: &str) -> Result<Tensor, Diagnostic> {
    npy::decode(&contents(path)?).map_err(|why| wrong(path, why))
}

/// Reads a file with several arrays, by its name.
pub(crate) fn read_several(path: &str) -> Result<Vec<(String, Tensor)>, Diagnostic> {
    let contents = contents(path)?;
    let arrays = if is_npz(Path::new(path)) { npz::decode(&contents) } else { safetensors::decode(&contents) };
    arrays.map_err(|why| wrong(path, why))
}

/// Writes one array as .npy.
pub(crate) fn write(path: &Path, tensor: &Tensor) -> Result<(), Diagnostic> {
    let bytes = [&npy::header(tensor), tensor.bytes()].concat();
    fs::write(path, bytes).map_err(|error| unwritten(path, error))
}

/// Writes arrays as .npz, in this order.
pub(crate) fn write_several(path: &Path, arrays: &[(&str, &Tensor)]) -> Result<(), Diagnostic> {
    let file = fs::File::create(path).map_err(|error| unwritten(path, error))?;
    npz::write(arrays, BufWriter::new(file)).map_err(|error| unwritten(path, error))
}

fn contents(path: &str) -> Result<Vec<u8>, Diagnostic> {
    // A device has no end; a pipe has.
    let is_device = fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_char_device());
    if is_device {
        return Err(wrong(path, "it is a device, not a file".into()));
    }
    fs::read(path).map_err(|error| wrong(path, error.to_string()))
}

fn wrong(path: &str, why: String) -> Diagnostic {
    Diagnostic::new(Code::E0601, format!("{path}: {why}"))
}

/// Returns the error of a file that cannot be written.
pub(crate) fn unwritten(path: &Path, error: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(Code::E0700, format!("{}: {error}", path.display()))
}
