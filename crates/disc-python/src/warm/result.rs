//! Builds what a module returns out of the outputs of compiled code: `Results`.
use super::arguments::Inputs;
use crate::{call::Objects, errors::Failure};
use pyo3::{
    PyTraverseError, PyVisit, ffi, intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyList, PyString, PyTuple},
};
use smallvec::SmallVec;
use std::{
    ffi::{c_int, c_void},
    mem,
    sync::OnceLock,
};

/// The structure of what a module returns.
pub(super) enum Results {
    /// The output of this number.
    Output(usize),
    /// The input of this number.
    Input(usize),
    Constant(Py<PyAny>),
    Tuple(Vec<Results>),
    List(Vec<Results>),
    Dict(Vec<(Py<PyAny>, Results)>),
    Record(Record),
    /// A function of outputs and inputs builds them.
    Function(Py<PyAny>),
}

/// A dict-like dataclass, whose items are attributes too.
pub(super) struct Record {
    kind: Py<PyAny>,
    /// All attributes, in order: those without an item are None.
    names: Vec<Py<PyString>>,
    items: Vec<(Py<PyString>, Results)>,
}

type Parts<'py> = SmallVec<[Bound<'py, PyAny>; 4]>;

impl Results {
    /// Reads a structure: `("output" or "input", number)`, `("constant", value)`, `("tuple" or
    /// "list", parts)`, `("dict", pairs)`, `("record", (class, names, pairs))`, `("function", f)`.
    pub(super) fn new(row: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (kind, what) = row.extract::<(String, Bound<'_, PyAny>)>()?;
        let parts = || what.try_iter()?.map(|part| Self::new(&part?)).collect::<PyResult<_>>();
        Ok(match kind.as_str() {
            "output" => Results::Output(what.extract()?),
            "input" => Results::Input(what.extract()?),
            "constant" => Results::Constant(what.unbind()),
            "tuple" => Results::Tuple(parts()?),
            "list" => Results::List(parts()?),
            "dict" => Results::Dict(pairs(&what)?),
            "record" => {
                let (kind, names, items) = what.extract::<(Py<PyAny>, Vec<Py<PyString>>, Bound<'_, PyAny>)>()?;
                Results::Record(Record { kind, names, items: pairs(&items)? })
            }
            "function" => Results::Function(what.unbind()),
            other => return Err(Failure::argument(format!("there is no kind {other:?} of results")).into()),
        })
    }

    /// Builds the result of a call.
    pub(super) fn build<'py>(&self, py: Python<'py>, outputs: Objects<'py>, inputs: &Inputs<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Results::Function(function) = self {
            let inputs: Parts<'py> = inputs.iter().flatten().cloned().collect();
            return function.bind(py).call1((PyList::new(py, outputs)?, PyList::new(py, inputs)?));
        }
        self.of(py, &outputs, inputs)
    }

    fn of<'py>(&self, py: Python<'py>, outputs: &[Bound<'py, PyAny>], inputs: &Inputs<'py>) -> PyResult<Bound<'py, PyAny>> {
        let parts = |parts: &[Results]| parts.iter().map(|part| part.of(py, outputs, inputs)).collect::<PyResult<Parts<'py>>>();
        let missing = || Failure::new("E0211", "an output of compiled code is missing");
        match self {
            Results::Output(i) => Ok(outputs.get(*i).cloned().ok_or_else(missing)?),
            Results::Input(i) => Ok(inputs.get(*i).cloned().flatten().ok_or_else(missing)?),
            Results::Constant(value) => Ok(value.bind(py).clone()),
            Results::Tuple(held) => Ok(PyTuple::new(py, parts(held)?)?.into_any()),
            Results::List(held) => Ok(PyList::new(py, parts(held)?)?.into_any()),
            Results::Dict(held) => {
                let made = PyDict::new(py);
                held.iter().try_for_each(|(key, part)| made.set_item(key, part.of(py, outputs, inputs)?))?;
                Ok(made.into_any())
            }
            Results::Record(record) => record.of(py, outputs, inputs),
            Results::Function(_) => Err(Failure::new("E0211", "a function builds a part of a result").into()),
        }
    }

    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Results::Output(_) | Results::Input(_) => Ok(()),
            Results::Constant(value) | Results::Function(value) => visit.call(value),
            Results::Tuple(parts) | Results::List(parts) => parts.iter().try_for_each(|part| part.traverse(visit)),
            Results::Dict(pairs) => pairs.iter().try_for_each(|(key, part)| {
                visit.call(key)?;
                part.traverse(visit)
            }),
            Results::Record(record) => {
                visit.call(&record.kind)?;
                record.items.iter().try_for_each(|(_, part)| part.traverse(visit))
            }
        }
    }
}

impl Record {
    /// Makes a record without its constructor, as `Result` of Python does where both make the
    /// same.
    fn of<'py>(&self, py: Python<'py>, outputs: &[Bound<'py, PyAny>], inputs: &Inputs<'py>) -> PyResult<Bound<'py, PyAny>> {
        let kind = self.kind.bind(py);
        let made = kind.call_method1(intern!(py, "__new__"), (kind,))?;
        // SAFETY: a live object; the result is a new reference, or null with an exception.
        let held =
            unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyObject_GenericGetDict(made.as_ptr(), std::ptr::null_mut()))? };
        let held = held.cast_into::<PyDict>()?;
        for name in &self.names {
            held.set_item(name, py.None())?;
        }
        for (name, part) in &self.items {
            let value = part.of(py, outputs, inputs)?;
            held.set_item(name, &value)?;
            put_item(&made, name.bind(py), &value)?;
        }
        Ok(made)
    }
}

fn pairs<'py, K: for<'a> FromPyObject<'a, 'py>>(what: &Bound<'py, PyAny>) -> PyResult<Vec<(K, Results)>> {
    let pair = |pair: PyResult<Bound<'py, PyAny>>| {
        let (key, part) = pair?.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>()?;
        Ok((key.extract().map_err(Into::into)?, Results::new(&part)?))
    };
    what.try_iter()?.map(pair).collect()
}

/// Puts an item into an `OrderedDict`, past the class that derives from it.
fn put_item(record: &Bound<'_, PyAny>, name: &Bound<'_, PyString>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    static FUNCTION: OnceLock<Option<SetItem>> = OnceLock::new();
    static METHOD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = record.py();
    let find = || {
        // SAFETY: a name that ends; the interpreter has loaded what there is.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"PyODict_SetItem".as_ptr()) };
        // SAFETY: a function of this type by Python's headers; only the stable interface leaves it
        // out.
        (!found.is_null()).then(|| unsafe { mem::transmute::<*mut c_void, SetItem>(found) })
    };
    if let Some(set_item) = FUNCTION.get_or_init(find) {
        // SAFETY: live objects, the first of which is an `OrderedDict`.
        let status = unsafe { set_item(record.as_ptr(), name.as_ptr(), value.as_ptr()) };
        return if status == 0 { Ok(()) } else { Err(PyErr::fetch(py)) };
    }
    let method = METHOD
        .get_or_try_init(py, || py.import("collections")?.getattr("OrderedDict")?.getattr("__setitem__").map(Bound::unbind))?;
    method.bind(py).call1((record, name, value)).map(drop)
}

/// `PyODict_SetItem`.
type SetItem = unsafe extern "C" fn(*mut ffi::PyObject, *mut ffi::PyObject, *mut ffi::PyObject) -> c_int;
