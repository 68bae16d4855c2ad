//! Keeps the forms of call that a module was called with of late, the last one first: `WarmCalls`.
//!
//! Invariant: who is asked first here is who Python asks first (`last`), so that a call has the
//! same code whoever serves it.
use super::{arguments::Given, call::PyWarmCall, surroundings::Surroundings};
use crate::errors::guarded;
use pyo3::{
    PyTraverseError, PyVisit, ffi, intern,
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Forms that are kept.
const MOST: usize = 4;

/// The forms of call of one module that were served of late.
#[pyclass(name = "WarmCalls", module = "disc._disc", frozen)]
pub(crate) struct PyWarmCalls {
    surroundings: Surroundings,
    held: Mutex<Vec<Warm>>,
}

/// A form, and what served it.
struct Warm {
    /// Tells forms apart.
    form: Py<PyAny>,
    /// The code that Python asks first.
    last: Py<PyAny>,
    /// None where only Python serves the form.
    call: Option<Py<PyWarmCall>>,
    /// It may serve calls after those of another form: it is what Python would find for it.
    stays: bool,
}

#[pymethods]
impl PyWarmCalls {
    /// `own`: the attributes of the module; `of_all`, `forward`: globals of
    /// `torch.nn.modules.module` and `torch.autograd.forward_ad`; `recordings`: the list of open
    /// ones.
    #[new]
    fn new(
        own: &Bound<'_, PyDict>,
        of_all: &Bound<'_, PyDict>,
        forward: &Bound<'_, PyDict>,
        recordings: &Bound<'_, PyList>,
    ) -> PyResult<Self> {
        guarded(|| Ok(Self { surroundings: Surroundings::new(own, of_all, forward, recordings)?, held: Mutex::default() }))
    }

    /// The code that served the last call and is asked first; None without one.
    #[getter]
    fn last(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.held().first().map(|warm| warm.last.clone_ref(py))
    }

    /// Asks `last`, which served a call of `form`, first from here on; natively by `call`, if there
    /// is one. Only what `stays` is asked after those of other forms.
    #[pyo3(signature = (form, last, call, stays))]
    fn remember(&self, form: Py<PyAny>, last: Py<PyAny>, call: Option<Py<PyWarmCall>>, stays: bool) {
        let mut held = self.held();
        let (kept, gone): (Vec<_>, Vec<_>) = held.drain(..).partition(|warm| warm.stays && !warm.form.is(&form));
        held.push(Warm { form, last, call, stays });
        held.extend(kept);
        let beyond = if held.len() > MOST { held.pop() } else { None };
        drop(held);
        // Python may run now.
        drop((gone, beyond));
    }

    /// Asks nobody first from here on.
    fn forget(&self) {
        let held = std::mem::take(&mut *self.held());
        drop(held);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.surroundings.traverse(&visit)?;
        let Ok(held) = self.held.try_lock() else { return Ok(()) };
        for warm in &*held {
            visit.call(&warm.form)?;
            visit.call(&warm.last)?;
            visit.call(&warm.call)?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        self.forget();
    }
}

impl PyWarmCalls {
    /// Serves a call: of the module and the arguments in a tuple, and keywords. Returns `None` for
    /// one that Python serves.
    pub(super) fn serve<'py>(
        given: Borrowed<'_, 'py, PyTuple>,
        keywords: Option<Borrowed<'_, 'py, PyDict>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = given.py();
        let Ok(module) = given.get_borrowed_item(0) else { return Ok(None) };
        // SAFETY: a live object; the result is a new reference, or null with an exception.
        let attributes =
            unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyObject_GenericGetDict(module.as_ptr(), std::ptr::null_mut()))? };
        // SAFETY: a dict, and a text that can be hashed; the result is borrowed from the dict.
        let found = unsafe { ffi::PyDict_GetItemWithError(attributes.as_ptr(), intern!(py, "_warm").as_ptr()) };
        if found.is_null() {
            return Ok(None);
        }
        // SAFETY: as above.
        let Ok(warm) = unsafe { Borrowed::from_ptr(py, found) }.cast::<Self>().map(Borrowed::to_owned) else {
            return Ok(None);
        };
        warm.get().serve_of(module, &Given { arguments: given, keywords })
    }

    fn serve_of<'py>(&self, module: Borrowed<'_, 'py, PyAny>, given: &Given<'_, 'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = module.py();
        let Some(call) = self.call(py, 0) else { return Ok(None) };
        if !self.surroundings.are_plain(module)? {
            return Ok(None);
        }
        if let Some(result) = call.get().serve(py, given)? {
            return Ok(Some(result));
        }
        for i in 1..MOST {
            let Some(call) = self.call(py, i) else { break };
            if let Some(result) = call.get().serve(py, given)? {
                self.move_first(&call);
                return Ok(Some(result));
            }
        }
        Ok(None)
    }

    /// Returns the call at a place.
    fn call(&self, py: Python<'_>, place: usize) -> Option<Py<PyWarmCall>> {
        self.held().get(place)?.call.as_ref().map(|call| call.clone_ref(py))
    }

    /// Asks the form of a call first from here on.
    fn move_first(&self, call: &Py<PyWarmCall>) {
        let mut held = self.held();
        let Some(place) = held.iter().position(|warm| warm.call.as_ref().is_some_and(|other| other.is(call))) else { return };
        let warm = held.remove(place);
        held.insert(0, warm);
        let gone = if held.get(1).is_some_and(|second| !second.stays) { Some(held.remove(1)) } else { None };
        drop(held);
        drop(gone);
    }

    fn held(&self) -> MutexGuard<'_, Vec<Warm>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
