//! Raises failures as exceptions of the package: `disc.Error` and its subclasses, each with code,
//! op, dims and help.
//!
//! The classes are public names of `disc`; this file maps each code to its class. Messages are
//! written where a failure is found.
//!
//! Invariant: nothing but an exception leaves the extension module. A panic is caught at each entry
//! and becomes a `CompileError`.
use disc_ir::{Code, Diagnostic};
use pyo3::{prelude::*, types::PyDict};
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// A failure that will be raised in Python.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) op: Option<String>,
    pub(crate) dims: Vec<String>,
    pub(crate) help: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: impl ToString, message: impl Into<String>) -> Self {
        Self { code: code.to_string(), message: message.into(), op: None, dims: Vec::new(), help: None }
    }

    pub(crate) fn in_op(mut self, op: impl Into<String>) -> Self {
        self.op = Some(op.into());
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// An argument of a function of this module that is not acceptable.
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new("E0700", message)
    }

    /// Several diagnostics in one: the first gives code and op.
    pub(crate) fn first_of(diagnostics: Vec<Diagnostic>) -> Self {
        let more: String = diagnostics.iter().skip(1).map(|d| format!("\n{d}")).collect();
        let mut failure = diagnostics
            .into_iter()
            .next()
            .map(Failure::from)
            .unwrap_or_else(|| Failure::new(Code::E0211, "a failure without a diagnostic"));
        failure.message.push_str(&more);
        failure
    }
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Self {
        let mut message = diagnostic.op.as_ref().map(|op| format!("`{op}`: ")).unwrap_or_default();
        message.push_str(&diagnostic.message);
        diagnostic.notes.iter().for_each(|note| message.push_str(&format!("\nnote: {note}")));
        Self { op: diagnostic.op, help: diagnostic.help, ..Failure::new(diagnostic.code, message) }
    }
}

/// Returns the name of the exception class for a code.
fn class_of(code: &str) -> &'static str {
    match code {
        "E0203" | "E0206" | "E0207" => "ShapeError",
        "E0212" | "E0403" | "E0602" | "E1006" => "DimError",
        "E0401" | "E0402" | "E1003" => "UnsupportedOp",
        "E0211" | "E0501" | "E0609" => "CompileError",
        "E0901" | "E0902" | "E0903" | "E0904" | "E0905" | "E0906" => "PackageError",
        _ => "Error",
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        Python::attach(|py| raised(py, failure).unwrap_or_else(|error| error))
    }
}

fn raised(py: Python<'_>, failure: Failure) -> PyResult<PyErr> {
    let fields = PyDict::new(py);
    fields.set_item("code", &failure.code)?;
    fields.set_item("op", failure.op.filter(|op| !op.is_empty()))?;
    fields.set_item("dims", (!failure.dims.is_empty()).then_some(failure.dims))?;
    fields.set_item("help", failure.help)?;
    let class = py.import("disc")?.getattr(class_of(&failure.code))?;
    Ok(PyErr::from_value(class.call((failure.message,), Some(&fields))?))
}

/// Runs the body of an entry; a panic in it is an error of disc, and the process goes on.
pub(crate) fn guarded<T>(body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(panicked(payload.as_ref()).into()))
}

fn panicked(payload: &(dyn Any + Send)) -> Failure {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    Failure::new(Code::E0211, format!("disc failed unexpectedly: {}", text.unwrap_or("no message")))
        .help("this is an error of disc: please report it, with the model or the IR text")
}
