//! Notices that the elements of a list changed: `ListWatch`.
use pyo3::{PyTraverseError, PyVisit, ffi, prelude::*, types::PyList};

/// A list, and its elements as they were.
pub(super) struct ListWatch {
    list: Py<PyList>,
    noted: Py<PyList>,
}

impl ListWatch {
    pub(super) fn new(list: &Bound<'_, PyList>) -> Self {
        Self {
            list: list.clone().unbind(),
            noted: PyList::new(list.py(), list.iter()).map(Bound::unbind).expect("a list of what is in one"),
        }
    }

    /// Returns true if the elements are as they were. `same` compares elements that are other
    /// objects.
    pub(super) fn holds(&self, py: Python<'_>, same: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (list, noted) = (self.list.bind(py), self.noted.bind(py));
        if list.len() != noted.len() {
            return Ok(false);
        }
        for i in 0..noted.len() {
            // SAFETY: the GIL is held and `i` is below the length, which is asked anew after any
            // code of Python; the results are borrowed and compared.
            let is_same =
                unsafe { ffi::PyList_GetItem(list.as_ptr(), i as isize) == ffi::PyList_GetItem(noted.as_ptr(), i as isize) };
            if !is_same && (!same.call1((noted.get_item(i)?, list.get_item(i)?))?.is_truthy()? || list.len() != noted.len()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.list)?;
        visit.call(&self.noted)
    }

    /// Takes the present elements for those that it had.
    pub(super) fn accept(&self, py: Python<'_>) -> PyResult<()> {
        let noted = self.noted.bind(py);
        noted.set_slice(0, noted.len(), self.list.bind(py))
    }
}
