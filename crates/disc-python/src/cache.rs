//! The cache on disk for what the Python side keeps: captures. Code is found and kept by the compiler itself.
use crate::{
    errors::guarded,
    facade::cache::{self, Cache, Key, Level},
};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict},
};
use std::path::PathBuf;

fn key(bytes: &[u8]) -> Key {
    Key::of(&[b"capture", bytes])
}

/// Where the cache lies, if there is one: `DISC_CACHE_DIR`, else the user's folder for caches; `DISC_CACHE=0` is none.
#[pyfunction]
pub(crate) fn cache_directory() -> Option<PathBuf> {
    cache::directory()
}

/// The capture that was stored for a key, if any.
#[pyfunction]
pub(crate) fn cache_get<'py>(py: Python<'py>, directory: PathBuf, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let found = guarded(|| Ok(py.detach(|| Cache::new(directory).get(Level::Capture, &self::key(key)))))?;
    Ok(found.map(|found| PyBytes::new(py, &found)))
}

/// Whether the folder is not used, since others may write to it.
#[pyfunction]
pub(crate) fn cache_is_shared(directory: PathBuf) -> bool {
    Cache::new(directory).is_shared()
}

/// Stores a capture.
#[pyfunction]
pub(crate) fn cache_put(py: Python<'_>, directory: PathBuf, key: &[u8], payload: &[u8]) -> PyResult<()> {
    guarded(|| {
        py.detach(|| Cache::new(directory).put(Level::Capture, &self::key(key), payload));
        Ok(())
    })
}

/// Removes all entries of both levels; how many went.
#[pyfunction]
pub(crate) fn cache_clear(py: Python<'_>, directory: PathBuf) -> PyResult<usize> {
    guarded(|| Ok(py.detach(|| Cache::new(directory).clear())))
}

/// What the cache did in this process: for each level a dict of counts.
#[pyfunction]
pub(crate) fn cache_counts(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for level in Level::ALL {
        let (counts, dict) = (cache::counts(level), PyDict::new(py));
        for (name, value) in [
            ("hits", counts.hits),
            ("misses", counts.misses),
            ("rejected", counts.rejected),
            ("unwritten", counts.unwritten),
            ("evicted", counts.evicted),
        ] {
            dict.set_item(name, value)?;
        }
        all.set_item(level.name(), dict)?;
    }
    Ok(all)
}
