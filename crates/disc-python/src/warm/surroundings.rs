//! Looks at what decides about a call around a compiled module: its hooks and those of all
//! modules, and whether calls are recorded or differentiated forward.
use crate::watch::Version;
use pyo3::{
    PyTraverseError, PyVisit, ffi, intern,
    prelude::*,
    types::{PyDict, PyList, PyString},
};

/// The hooks of a module for which `torch.nn.Module` calls it.
const HOOKS: [&str; 4] = ["_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"];
/// The hooks of all modules that are no part of what is compiled.
const GLOBAL_HOOKS: [&str; 2] = ["_global_backward_hooks", "_global_backward_pre_hooks"];
/// The level of forward-mode differentiation.
const LEVEL: &str = "_current_level";

/// All that takes part in the calls of one module, beside compiled code.
pub(super) struct Surroundings {
    /// The tables of hooks of the module, in its attributes.
    own: Tables,
    /// Those of all modules, among the globals of a module of torch.
    of_all: Tables,
    /// The globals of forward-mode differentiation, and the number of no level.
    forward: Py<PyDict>,
    level: Py<PyString>,
    no_level: Py<PyAny>,
    /// The recordings of calls that are open.
    recordings: Py<PyList>,
}

/// Tables in a dict, all of which have to be empty.
struct Tables {
    dict: Py<PyDict>,
    names: Vec<Py<PyString>>,
    version: Version,
    /// The tables that the dict had in this version.
    found: Vec<Py<PyDict>>,
}

impl Surroundings {
    /// `own`: the attributes of the module; `of_all`, `forward`: globals of
    /// `torch.nn.modules.module` and `torch.autograd.forward_ad`.
    pub(super) fn new(
        own: &Bound<'_, PyDict>,
        of_all: &Bound<'_, PyDict>,
        forward: &Bound<'_, PyDict>,
        recordings: &Bound<'_, PyList>,
    ) -> PyResult<Self> {
        let py = own.py();
        Ok(Self {
            own: Tables::new(own, &HOOKS)?,
            of_all: Tables::new(of_all, &GLOBAL_HOOKS)?,
            forward: forward.clone().unbind(),
            level: PyString::intern(py, LEVEL).unbind(),
            no_level: (-1_i32).into_pyobject(py)?.into_any().unbind(),
            recordings: recordings.clone().unbind(),
        })
    }

    /// Returns true if nobody but the compiled code takes part in a call of `module`.
    pub(super) fn are_plain(&self, module: Borrowed<'_, '_, PyAny>) -> PyResult<bool> {
        let py = module.py();
        if !self.recordings.bind(py).is_empty() || !self.own.are_empty(py)? || !self.of_all.are_empty(py)? {
            return Ok(false);
        }
        if !module.getattr(intern!(py, "_compiled_call_impl"))?.is_none() {
            return Ok(false);
        }
        // SAFETY: a dict and a text that live; the result is borrowed and compared. Small numbers
        // are one object each; another object is for Python to look at.
        let level = unsafe { ffi::PyDict_GetItemWithError(self.forward.as_ptr(), self.level.as_ptr()) };
        Ok(level == self.no_level.as_ptr())
    }

    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.own.found.iter().try_for_each(|table| visit.call(table))?;
        visit.call(&self.own.dict)
    }
}

impl Tables {
    fn new(dict: &Bound<'_, PyDict>, names: &[&str]) -> PyResult<Self> {
        let py = dict.py();
        let version = Version::new(dict)?;
        let found = names.iter().map(|name| Ok(dict.as_any().get_item(name)?.cast_into::<PyDict>()?.unbind()));
        Ok(Self {
            found: found.collect::<PyResult<_>>()?,
            names: names.iter().map(|name| PyString::intern(py, name).unbind()).collect(),
            version,
            dict: dict.clone().unbind(),
        })
    }

    #[inline]
    fn are_empty(&self, py: Python<'_>) -> PyResult<bool> {
        // SAFETY: the dict is alive.
        if unsafe { self.version.holds() } {
            return Ok(self.found.iter().all(|table| table.bind(py).is_empty()));
        }
        self.are_empty_now(py)
    }

    #[cold]
    fn are_empty_now(&self, py: Python<'_>) -> PyResult<bool> {
        let dict = self.dict.bind(py);
        let mut are_same = true;
        for (name, found) in self.names.iter().zip(&self.found) {
            let Some(table) = dict.get_item(name)? else { return Ok(false) };
            let Ok(table) = table.cast_into::<PyDict>() else { return Ok(false) };
            if !table.is_empty() {
                return Ok(false);
            }
            are_same &= table.is(found);
        }
        if are_same {
            self.version.note(dict);
        }
        Ok(true)
    }
}
