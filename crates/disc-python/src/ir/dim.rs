//! Exports symbolic size expressions: `Dim`.
//!
//! It is not `disc.Dim`, a user's declaration about an axis. Arithmetic and equality are those of
//! `disc_ir::Dim`: structural, without facts; `Builder.equal` and `Builder.less_equal` use the
//! facts of a function.
//!
//! Invariant: an operation with a constant result returns an `int`, so that known sizes are ints.
use crate::errors::{Failure, guarded};
use disc_ir::{Code, Dim, Facts, Solver};
use pyo3::{
    basic::CompareOp,
    exceptions::{PyTypeError, PyZeroDivisionError},
    prelude::*,
    types::{PyBool, PyInt, PyString, PyTuple},
};
use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

/// A symbolic size, such as `2*B+1`. It supports `+ - * // %`, `min`, `max`, and equality with dims
/// and ints.
#[pyclass(name = "Dim", module = "disc._disc", frozen)]
pub(crate) struct PyDim(pub(crate) Dim);

#[pymethods]
impl PyDim {
    #[new]
    fn new(expression: &Bound<'_, PyAny>) -> PyResult<Self> {
        guarded(|| read(expression).map(Self))
    }

    fn __add__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.combine(other, |a, b| a + b)
    }

    fn __radd__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.combine(other, |a, b| b + a)
    }

    fn __sub__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.combine(other, |a, b| a - b)
    }

    fn __rsub__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.combine(other, |a, b| b - a)
    }

    fn __mul__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.combine(other, |a, b| a * b)
    }

    fn __rmul__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.combine(other, |a, b| b * a)
    }

    fn __floordiv__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.divide(other, |a, b| (a, b), Dim::floor_div)
    }

    fn __rfloordiv__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.divide(other, |a, b| (b, a), Dim::floor_div)
    }

    fn __mod__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.divide(other, |a, b| (a, b), Dim::modulo)
    }

    fn __rmod__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.divide(other, |a, b| (b, a), Dim::modulo)
    }

    fn __neg__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        guarded(|| to_python(py, &-&self.0))
    }

    /// The least of this and other sizes.
    #[pyo3(signature = (*others))]
    fn min<'py>(&self, others: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        guarded(|| to_python(others.py(), &Dim::min_of(self.with(others)?).expect("at least this one")))
    }

    /// The greatest of this and other sizes.
    #[pyo3(signature = (*others))]
    fn max<'py>(&self, others: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        guarded(|| to_python(others.py(), &Dim::max_of(self.with(others)?).expect("at least this one")))
    }

    fn __richcmp__<'py>(&self, other: &Bound<'py, PyAny>, op: CompareOp) -> PyResult<Bound<'py, PyAny>> {
        guarded(|| {
            let py = other.py();
            let Some(other) = number_or_dim(other)? else { return Ok(not_implemented(py)) };
            let holds = match op {
                CompareOp::Eq => self.0 == other,
                CompareOp::Ne => self.0 != other,
                CompareOp::Lt => decide(&self.0, "<", &other, &(&self.0 + 1), &other)?,
                CompareOp::Le => decide(&self.0, "<=", &other, &self.0, &other)?,
                CompareOp::Gt => decide(&self.0, ">", &other, &(&other + 1), &self.0)?,
                CompareOp::Ge => decide(&self.0, ">=", &other, &other, &self.0)?,
            };
            Ok(PyBool::new(py, holds).to_owned().into_any())
        })
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        match self.0.as_const() {
            Some(value) => PyInt::new(py, value).hash(),
            None => {
                let mut hasher = DefaultHasher::new();
                self.0.hash(&mut hasher);
                Ok(hasher.finish() as isize)
            }
        }
    }

    fn __index__(&self) -> PyResult<i64> {
        self.0.as_const().ok_or_else(|| PyTypeError::new_err(format!("the size {} is not constant", self.0)))
    }

    fn __int__(&self) -> PyResult<i64> {
        self.__index__()
    }

    fn __bool__(&self) -> PyResult<bool> {
        self.__index__().map(|value| value != 0)
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyAny>, (String,)) {
        (py.get_type::<PyDim>().into_any(), (self.0.to_string(),))
    }

    #[getter]
    fn is_const(&self) -> bool {
        self.0.as_const().is_some()
    }

    /// The names in the expression, sorted.
    fn symbols(&self) -> Vec<String> {
        self.0.symbols().iter().map(|symbol| symbol.name().to_owned()).collect()
    }

    /// Returns the value for these values of the names; every name needs one.
    fn evaluate(&self, values: HashMap<String, i64>) -> PyResult<i64> {
        guarded(|| {
            let value = self.0.eval(&|symbol| values.get(symbol.name()).copied());
            value.map_err(|error| Failure::argument(format!("the value of {}: {error}", self.0)).into())
        })
    }
}

impl PyDim {
    fn combine<'py>(&self, other: &Bound<'py, PyAny>, f: impl FnOnce(&Dim, &Dim) -> Dim) -> PyResult<Bound<'py, PyAny>> {
        guarded(|| match number_or_dim(other)? {
            Some(dim) => to_python(other.py(), &f(&self.0, &dim)),
            None => Ok(not_implemented(other.py())),
        })
    }

    fn divide<'py>(
        &self,
        other: &Bound<'py, PyAny>,
        order: impl for<'d> FnOnce(&'d Dim, &'d Dim) -> (&'d Dim, &'d Dim),
        f: impl FnOnce(&Dim, &Dim) -> Dim,
    ) -> PyResult<Bound<'py, PyAny>> {
        guarded(|| {
            let Some(other_dim) = number_or_dim(other)? else { return Ok(not_implemented(other.py())) };
            let (a, b) = order(&self.0, &other_dim);
            if b.is_const(0) {
                return Err(PyZeroDivisionError::new_err(format!("{a} divided by 0")));
            }
            to_python(other.py(), &f(a, b))
        })
    }

    fn with(&self, others: &Bound<'_, PyTuple>) -> PyResult<Vec<Dim>> {
        let mut dims = vec![self.0.clone()];
        for other in others {
            dims.push(read(&other)?);
        }
        Ok(dims)
    }
}

/// Returns true if `low <= high` for all sizes; an error if that depends on the sizes.
fn decide(a: &Dim, sign: &str, b: &Dim, low: &Dim, high: &Dim) -> PyResult<bool> {
    let solver = Solver::new(&Facts::default());
    if solver.less_equal(low, high) {
        return Ok(true);
    }
    if solver.less_equal(&(high + 1), low) {
        return Ok(false);
    }
    let failure = Failure::argument(format!("whether {a} {sign} {b} depends on the sizes"));
    Err(failure.help("ask `Builder.less_equal`, which knows the facts").into())
}

/// Reads a number or a dim; `None` for other objects.
fn number_or_dim(object: &Bound<'_, PyAny>) -> PyResult<Option<Dim>> {
    if let Ok(dim) = object.cast::<PyDim>() {
        return Ok(Some(dim.get().0.clone()));
    }
    if object.is_instance_of::<PyBool>() || !object.is_instance_of::<PyInt>() {
        return Ok(None);
    }
    match object.extract::<i64>() {
        Ok(value) => Ok(Some(Dim::constant(value))),
        Err(_) => Err(Failure::new(Code::E0105, format!("the size {object} does not fit in 64 bits")).into()),
    }
}

/// Reads a size argument: a dim, an int (or an object with `__index__`), or the text of an
/// expression.
pub(crate) fn read(object: &Bound<'_, PyAny>) -> PyResult<Dim> {
    if let Some(dim) = number_or_dim(object)? {
        return Ok(dim);
    }
    if let Ok(text) = object.cast::<PyString>() {
        let text = text.to_cow()?;
        let failure = |error: &dyn std::fmt::Display| Failure::new(Code::E0101, format!("the size `{text}`: {error}"));
        return Dim::parse(&text).map_err(|error| failure(&error).into());
    }
    if !object.is_instance_of::<PyBool>()
        && let Ok(value) = object.extract::<i64>()
    {
        return Ok(Dim::constant(value));
    }
    let came = crate::describe(object);
    Err(Failure::argument(format!("a size is {came}, expected an int, a Dim or the text of an expression")).into())
}

/// The sizes of a shape.
pub(crate) fn read_all(object: &Bound<'_, PyAny>) -> PyResult<Vec<Dim>> {
    if object.is_instance_of::<PyString>() {
        return Err(Failure::argument("a shape is a str, expected a sequence of sizes").into());
    }
    object.try_iter()?.map(|item| read(&item?)).collect()
}

/// Returns an int if it is constant, else a `Dim`; an error if it is too large.
pub(crate) fn to_python<'py>(py: Python<'py>, dim: &Dim) -> PyResult<Bound<'py, PyAny>> {
    if let Some(defect) = dim.defect() {
        return Err(Failure::new(Code::E0105, format!("a size expression cannot be represented: {defect}")).into());
    }
    match dim.as_const() {
        Some(value) => Ok(PyInt::new(py, value).into_any()),
        None => Ok(Bound::new(py, PyDim(dim.clone()))?.into_any()),
    }
}

fn not_implemented(py: Python<'_>) -> Bound<'_, PyAny> {
    py.NotImplemented().into_bound(py)
}
