//! One form of call that was served before, and the code that serves it: `WarmCall`.
use super::{
    arguments::{Arguments, Given, Inputs, is_of_base_class},
    result::Results,
};
use crate::{
    call::{Arguments as Tensors, PyExecutable, TorchFlags},
    errors::{Failure, guarded},
    watch::{PyModuleWatch, PyWeightWatch},
};
use pyo3::{
    PyTraverseError, PyVisit, intern,
    prelude::*,
    types::{PyDict, PyList},
};

/// A form of call, and the code that serves it.
#[pyclass(name = "WarmCall", module = "disc._disc", frozen)]
pub(crate) struct PyWarmCall {
    watch: Py<PyModuleWatch>,
    /// `None` where nobody watches weights.
    weights: Option<Py<PyWeightWatch>>,
    arguments: Arguments,
    questions: Questions,
    executable: Py<PyExecutable>,
    results: Results,
}

/// Questions of the model about the tensors of a call, beside their sizes and types.
#[derive(Default)]
struct Questions {
    /// Does one require a gradient, or is it a parameter?
    gradient: bool,
    /// Are they contiguous?
    layout: bool,
    /// Is one passed twice, or is it a parameter?
    identity: bool,
}

#[pymethods]
impl PyWarmCall {
    /// `positional`, `keywords`: patterns of the arguments, as `arguments.rs` reads them;
    /// `results`: a structure as `result.rs` reads it.
    #[new]
    #[pyo3(signature = (*, watch, weights, positional, keywords, questions, executable, results))]
    fn new(
        watch: Py<PyModuleWatch>,
        weights: Option<Py<PyWeightWatch>>,
        positional: &Bound<'_, PyList>,
        keywords: &Bound<'_, PyDict>,
        questions: Vec<String>,
        executable: Py<PyExecutable>,
        results: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        guarded(|| {
            let inputs = executable.get().meta().inputs.len();
            Ok(Self {
                arguments: Arguments::new(positional, keywords, inputs)?,
                questions: Questions::new(&questions)?,
                results: Results::new(results)?,
                watch,
                weights,
                executable,
            })
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.watch)?;
        visit.call(&self.weights)?;
        self.arguments.traverse(&visit)?;
        self.results.traverse(&visit)
    }
}

impl PyWarmCall {
    /// Serves a call. Returns `None` for one of another form, for another state of the module, and
    /// for one that fails: Python says why.
    pub(super) fn serve<'py>(&self, py: Python<'py>, given: &Given<'_, 'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(inputs) = self.arguments.take(py, given)? else { return Ok(None) };
        if !self.watch.get().serves(py, self.weights.as_ref().map(Py::get))? {
            return Ok(None);
        }
        let executable = self.executable.get();
        let mut tensors = Tensors::new();
        // What is read may be a copy (of a tensor of a GPU with gaps): the caller's are asked.
        let fits = executable.read(&mut tensors, inputs.iter().cloned()).unwrap_or(false);
        if !fits || are_negated(&inputs)? || self.questions.is_other(&inputs)? {
            return Ok(None);
        }
        let Ok(outputs) = executable.run_read(py, &tensors) else { return Ok(None) };
        self.results.build(py, outputs, &inputs).map(Some)
    }
}

/// Returns true if a tensor is a negated view, whose sign no memory has.
fn are_negated(inputs: &Inputs<'_>) -> PyResult<bool> {
    for object in inputs.iter().flatten() {
        if TorchFlags::is_negated(object)? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Questions {
    fn new(names: &[String]) -> PyResult<Self> {
        let mut found = Self::default();
        for name in names {
            match name.as_str() {
                "gradient" => found.gradient = true,
                "layout" => found.layout = true,
                "identity" => found.identity = true,
                other => return Err(Failure::argument(format!("there is no question {other:?}")).into()),
            }
        }
        Ok(found)
    }

    /// Returns true if a model that asks may be answered otherwise than in its trace.
    fn is_other(&self, inputs: &Inputs<'_>) -> PyResult<bool> {
        if !(self.gradient || self.layout || self.identity) {
            return Ok(false);
        }
        for (i, object) in inputs.iter().flatten().enumerate() {
            if (self.gradient || self.identity) && !is_of_base_class(object)? {
                return Ok(true);
            }
            if self.gradient && TorchFlags::requires_gradient(object)? {
                return Ok(true);
            }
            if self.identity && inputs[..i].iter().flatten().any(|other| other.is(object)) {
                return Ok(true);
            }
            if self.layout && !object.call_method0(intern!(object.py(), "is_contiguous"))?.is_truthy()? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
