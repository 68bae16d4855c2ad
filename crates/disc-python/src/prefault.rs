//! Prefaults memory while a module is captured: a Python context around a compilation.
use disc_ral::Prefault;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// `with MemoryAhead(bytes):` prefaults a block of about that size, on a thread of its own. Weights
/// that are prepared inside take it; otherwise it is freed at the end.
#[pyclass(frozen)]
pub(crate) struct MemoryAhead {
    bytes: usize,
    held: Mutex<Option<Prefault>>,
}

#[pymethods]
impl MemoryAhead {
    #[new]
    fn new(bytes: usize) -> Self {
        Self { bytes, held: Mutex::default() }
    }

    fn __enter__(&self) {
        self.hold(Prefault::start(self.bytes));
    }

    fn __exit__(&self, _kind: &Bound<'_, PyAny>, _error: &Bound<'_, PyAny>, _trace: &Bound<'_, PyAny>) {
        self.hold(None);
    }
}

impl MemoryAhead {
    fn hold(&self, prefault: Option<Prefault>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = prefault;
    }
}
