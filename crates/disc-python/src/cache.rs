//! Stores the Python side's entries in the cache on disk: captures, and bytecode that it read. The
//! compiler itself looks up and stores code.
use crate::{
    errors::guarded,
    facade::cache::{self, Cache, Key, Level},
};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyBytes, PyDict},
};
use std::path::PathBuf;

/// Parses a level and a key of the Python side. The level is `"capture"` or `"bytecode"`.
fn place(level: &str, bytes: &[u8]) -> PyResult<(Level, Key)> {
    let level = [Level::Capture, Level::Bytecode].into_iter().find(|known| known.name() == level);
    let level = level.ok_or_else(|| PyValueError::new_err("the level is `capture` or `bytecode`"))?;
    Ok((level, Key::of(&[level.name().as_bytes(), bytes])))
}

/// Returns the folder of the cache, if there is one: `DISC_CACHE_DIR`, else the user's folder for
/// caches; `DISC_CACHE=0` is none.
#[pyfunction]
pub(crate) fn cache_directory() -> Option<PathBuf> {
    cache::directory()
}

/// Returns the payload of a key, if there is one.
#[pyfunction]
pub(crate) fn cache_get<'py>(
    py: Python<'py>,
    directory: PathBuf,
    level: &str,
    key: &[u8],
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let (level, key) = place(level, key)?;
    let found = guarded(|| Ok(py.detach(|| Cache::new(directory).get(level, &key))))?;
    Ok(found.map(|found| PyBytes::new(py, &found)))
}

/// Returns true if the folder is not used because others may write to it.
#[pyfunction]
pub(crate) fn cache_is_shared(directory: PathBuf) -> bool {
    Cache::new(directory).is_shared()
}

/// Returns true if the cache holds weights of about this many bytes in prepared form, these or
/// others.
#[pyfunction]
pub(crate) fn cache_may_hold_weights(directory: PathBuf, bytes: u64) -> bool {
    Cache::new(directory).may_hold_weights(bytes)
}

/// Stores an entry.
#[pyfunction]
pub(crate) fn cache_put(py: Python<'_>, directory: PathBuf, level: &str, key: &[u8], payload: &[u8]) -> PyResult<()> {
    let (level, key) = place(level, key)?;
    guarded(|| {
        py.detach(|| Cache::new(directory).put(level, &key, payload));
        Ok(())
    })
}

/// Removes all entries of all levels. Returns their number.
#[pyfunction]
pub(crate) fn cache_clear(py: Python<'_>, directory: PathBuf) -> PyResult<usize> {
    guarded(|| Ok(py.detach(|| Cache::new(directory).clear())))
}

/// Writes prepared weights that are not on disk yet.
#[pyfunction]
pub(crate) fn cache_write_out(py: Python<'_>) {
    py.detach(|| cache::write_out(|| true));
}

/// Returns the counts of this process: a dict for each level.
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
