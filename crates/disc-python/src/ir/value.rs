//! Exports values, the operands and results of ops, with their types: `Value`.
use super::dim::to_python;
use crate::errors::{Failure, guarded};
use disc_ir::{TensorType, Type, Value};
use pyo3::{prelude::*, sync::PyOnceLock, types::PyTuple};

/// A value of the function that a builder makes.
#[pyclass(name = "Value", module = "disc._disc", frozen)]
pub(crate) struct PyValue {
    /// The builder it belongs to.
    pub(super) owner: u64,
    pub(super) value: Value,
    pub(super) ty: Type,
    shape: PyOnceLock<Py<PyTuple>>,
}

impl PyValue {
    pub(super) fn new(owner: u64, value: Value, ty: Type) -> Self {
        Self { owner, value, ty, shape: PyOnceLock::new() }
    }
}

#[pymethods]
impl PyValue {
    /// The sizes: ints where they are constant, else dims.
    #[getter]
    fn shape(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        guarded(|| {
            let made = self.shape.get_or_try_init(py, || {
                let dims = self.ty.shaped().map(|tensor| &tensor.dims[..]).unwrap_or_default();
                let sizes: Vec<_> = dims.iter().map(|dim| to_python(py, dim)).collect::<PyResult<_>>()?;
                PyTuple::new(py, sizes).map(Bound::unbind)
            });
            made.map(|shape| shape.clone_ref(py))
        })
    }

    /// The name of the element type, such as `f32`.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.ty.dtype().name()
    }

    #[getter]
    fn rank(&self) -> usize {
        self.ty.shaped().map_or(0, TensorType::rank)
    }

    /// The type as text, such as `tensor<[B]x768xf32>`.
    #[getter]
    fn r#type(&self) -> String {
        self.ty.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<value {} : {}>", self.value.index(), self.ty)
    }
}

/// Returns the value of a Python object, which must belong to the builder `owner`.
pub(super) fn read(object: &Bound<'_, PyAny>, owner: u64, what: impl FnOnce() -> String) -> PyResult<Value> {
    let Ok(value) = object.cast::<PyValue>() else {
        let came = crate::describe(object);
        return Err(Failure::argument(format!("{} is {came}, expected a value of the builder", what())).into());
    };
    let value = value.get();
    if value.owner != owner {
        return Err(Failure::argument(format!("{} is a value of another builder", what())).into());
    }
    Ok(value.value)
}
