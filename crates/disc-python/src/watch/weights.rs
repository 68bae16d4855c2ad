//! Notices changes of the weights that compiled code holds: `WeightWatch`.
use crate::{call::TensorWatch, errors::guarded};
use pyo3::{PyTraverseError, PyVisit, ffi, prelude::*, types::PyDict};

/// Weights as they were: which tensors, their versions, their memory, and a few elements of those
/// that were copied.
#[pyclass(name = "WeightWatch", module = "disc._disc", frozen)]
pub(crate) struct PyWeightWatch {
    /// Tables of modules, each with a key and the tensor there.
    held: Vec<(Py<PyDict>, Py<PyAny>, TensorWatch)>,
    /// Tensors that tensors of the tables are made of.
    parts: Vec<(Py<PyAny>, TensorWatch)>,
}

#[pymethods]
impl PyWeightWatch {
    /// Notes tensors by table and key, and tensors that belong to those; each with a flag whether
    /// its elements are compared.
    #[new]
    fn new(held: Vec<(Bound<'_, PyDict>, Bound<'_, PyAny>, bool)>, parts: Vec<(Bound<'_, PyAny>, bool)>) -> PyResult<Self> {
        guarded(|| {
            let in_table = |(table, key, compares): (Bound<'_, PyDict>, Bound<'_, PyAny>, bool)| {
                let tensor = table.as_any().get_item(&key)?;
                Ok((table.unbind(), key.unbind(), TensorWatch::new(&tensor, compares)?))
            };
            let part = |(tensor, compares): (Bound<'_, PyAny>, bool)| {
                let watch = TensorWatch::new(&tensor, compares)?;
                Ok((tensor.unbind(), watch))
            };
            Ok(Self {
                held: held.into_iter().map(in_table).collect::<PyResult<_>>()?,
                parts: parts.into_iter().map(part).collect::<PyResult<_>>()?,
            })
        })
    }

    /// Returns true if the weights are as they were.
    #[pyo3(name = "holds")]
    fn are_unchanged(&self, py: Python<'_>) -> PyResult<bool> {
        guarded(|| self.holds(py))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.held.iter().try_for_each(|(table, _, _)| visit.call(table))?;
        self.parts.iter().try_for_each(|(tensor, _)| visit.call(tensor))
    }
}

impl PyWeightWatch {
    pub(super) fn holds(&self, py: Python<'_>) -> PyResult<bool> {
        for (table, key, tensor) in &self.held {
            // SAFETY: the GIL is held, and a name can be hashed; the result is borrowed from the
            // table, which keeps it alive while no code of Python runs.
            let found = unsafe { ffi::PyDict_GetItemWithError(table.as_ptr(), key.as_ptr()) };
            if found.is_null() || found.addr() != tensor.object() {
                return Ok(false);
            }
            // SAFETY: as above.
            if !tensor.is_unchanged(unsafe { Borrowed::from_ptr(py, found) })? {
                return Ok(false);
            }
        }
        for (object, tensor) in &self.parts {
            if !tensor.is_unchanged(object.bind_borrowed(py))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
