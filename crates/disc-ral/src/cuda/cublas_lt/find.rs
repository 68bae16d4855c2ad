//! Finds cuBLASLt: the copy that this process has loaded, that of an installed package, that of the
//! system.
//!
//! Invariant: where the process has loaded a copy, as a framework does, no other one is loaded.
use super::{
    super::shared_library::{SharedLibrary, in_packages},
    functions::Functions,
};
use std::path::{Path, PathBuf};

/// The major versions that are looked for, best first.
const MAJORS: [u32; 2] = [13, 12];
/// The folder of CUDA's libraries where it is installed for all users.
const SYSTEM: &str = "/usr/local/cuda/lib64";

/// Returns the library's functions, the first that `works`.
///
/// # Errors
/// The reason that there is none.
pub(super) fn first<T>(packages: &[PathBuf], works: impl Fn(Functions) -> Result<T, String>) -> Result<T, String> {
    let try_out = |library: SharedLibrary| Functions::of(library).ok_or_else(|| "it lacks functions".to_owned()).and_then(&works);
    let names = MAJORS.map(|major| format!("libcublasLt.so.{major}"));
    if let Some((name, library)) = names.iter().find_map(|name| Some((name, SharedLibrary::loaded(name)?))) {
        return try_out(library).map_err(|reason| format!("{name}, which this process has loaded: {reason}"));
    }
    let of_system = names.iter().flat_map(|name| [PathBuf::from(name), Path::new(SYSTEM).join(name)]);
    let mut refused = String::new();
    for path in in_packages(packages, &names).into_iter().chain(of_system) {
        match SharedLibrary::open(&path).and_then(try_out) {
            Ok(found) => return Ok(found),
            // A file that is there says more than one that is not.
            Err(reason) if refused.is_empty() || path.is_file() => refused = format!("{}: {reason}", path.display()),
            Err(_) => {}
        }
    }
    Err(refused)
}
