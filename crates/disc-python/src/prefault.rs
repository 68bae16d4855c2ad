//! Memory that is asked for while a module is captured: a context of Python around a compilation.
use disc_ral::Prefault;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// `with MemoryAhead(bytes):` asks the system for a block of about that size, on a thread of its own. What prepares weights in between takes it;
/// at the end it is given back otherwise.
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
