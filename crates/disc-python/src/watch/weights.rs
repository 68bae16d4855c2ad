//! Notices changes of the weights that compiled code holds: `WeightWatch`.
use super::dict::Version;
use crate::{call::TensorWatch, errors::guarded};
use pyo3::{PyTraverseError, PyVisit, ffi, prelude::*, types::PyDict};

/// So many tensors ahead of the one that is compared are loaded.
const AHEAD: usize = 8;

/// Weights as they were: which tensors, their versions, their memory, and a few elements of those
/// that were copied.
#[pyclass(name = "WeightWatch", module = "disc._disc", frozen)]
pub(crate) struct PyWeightWatch {
    /// Tables of modules, each with a key and the tensor there.
    held: Vec<Held>,
    /// Tensors that tensors of the tables are made of.
    parts: Vec<(Py<PyAny>, TensorWatch)>,
}

/// A tensor of a table: while the table has its version, the tensor is there.
struct Held {
    version: Version,
    tensor: TensorWatch,
    table: Py<PyDict>,
    key: Py<PyAny>,
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
                Ok(Held {
                    version: Version::new(&table)?,
                    tensor: TensorWatch::new(&tensor, compares)?,
                    table: table.unbind(),
                    key: key.unbind(),
                })
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
        self.held.iter().try_for_each(|held| visit.call(&held.table))?;
        self.parts.iter().try_for_each(|(tensor, _)| visit.call(tensor))
    }
}

impl PyWeightWatch {
    pub(super) fn holds(&self, py: Python<'_>) -> PyResult<bool> {
        for (i, held) in self.held.iter().enumerate() {
            if let Some(next) = self.held.get(i + AHEAD) {
                next.tensor.prefetch();
            }
            // SAFETY: the table is alive.
            if !unsafe { held.version.holds() } && !held.is_in_place(py) {
                return Ok(false);
            }
            // SAFETY: the object is in its place in the table, which keeps it alive while no code
            // of Python runs.
            let tensor = unsafe { Borrowed::from_ptr(py, held.tensor.object_ptr()) };
            if !held.tensor.is_unchanged(tensor)? {
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

impl Held {
    #[cold]
    fn is_in_place(&self, _: Python<'_>) -> bool {
        // SAFETY: the GIL is held, and a name can be hashed; the result is borrowed and compared.
        let found = unsafe { ffi::PyDict_GetItemWithError(self.table.as_ptr(), self.key.as_ptr()) };
        found == self.tensor.object_ptr()
    }
}
