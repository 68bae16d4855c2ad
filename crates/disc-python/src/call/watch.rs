//! Notices that weights among the arguments of a call were changed since they were prepared:
//! `Watch`.
use super::tensor_watch::TensorWatch;
use crate::errors::guarded;
use pyo3::{prelude::*, types::PyTuple};

/// Some arguments of a call, as they were: which objects, their versions, their memory, and a few
/// of their elements.
#[pyclass(name = "Watch", module = "disc._disc", frozen)]
pub(crate) struct PyWatch {
    /// Positions among the arguments, with what is there.
    weights: Vec<(usize, TensorWatch)>,
}

#[pymethods]
impl PyWatch {
    /// Notes the arguments at `positions`.
    #[new]
    fn new(arguments: &Bound<'_, PyTuple>, positions: Vec<usize>) -> PyResult<Self> {
        guarded(|| {
            let weight = |position: usize| Ok((position, TensorWatch::new(&arguments.get_item(position)?, true)?));
            Ok(Self { weights: positions.into_iter().map(weight).collect::<PyResult<_>>()? })
        })
    }

    /// Returns true if the arguments are the same objects and hold what they held.
    #[pyo3(name = "are_unchanged")]
    fn compare(&self, arguments: &Bound<'_, PyTuple>) -> PyResult<bool> {
        guarded(|| self.are_unchanged(arguments))
    }
}

impl PyWatch {
    pub(crate) fn are_unchanged(&self, arguments: &Bound<'_, PyTuple>) -> PyResult<bool> {
        for (position, weight) in &self.weights {
            if !weight.is_unchanged(arguments.get_borrowed_item(*position)?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
