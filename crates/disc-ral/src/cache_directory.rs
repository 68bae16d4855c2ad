//! Finds the folder that disc's caches are in, and checks that it is the user's own.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Returns the folder of the caches on disk: `DISC_CACHE_DIR`, else `disc` in the user's folder for
/// caches. `None` with `DISC_CACHE=0`, or if there is no such folder.
pub fn cache_directory() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if variable("DISC_CACHE").is_some_and(|value| value == "0") {
        return None;
    }
    if let Some(directory) = variable("DISC_CACHE_DIR") {
        return Some(directory.into());
    }
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let caches = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or_else(home)?;
    Some(caches.join("disc"))
}

/// Returns true if a folder belongs to this user and nobody else may write to it.
pub fn is_private(directory: &Path) -> bool {
    // SAFETY: it has no preconditions.
    let user = unsafe { libc::geteuid() };
    fs::metadata(directory).is_ok_and(|meta| meta.is_dir() && meta.uid() == user && meta.mode() & 0o022 == 0)
}
