//! Shows calls and kernels as ranges of torch's profiler while it runs.
//!
//! A range cannot be dated back, so each kernel opens its own under the GIL, which the call gives
//! up otherwise.
use super::{kind::loaded_torch, outputs::Framework};
use disc_ral::LaunchObserver;
use pyo3::{
    ffi, intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyString},
};

/// torch's own flag that a profiler runs, and its type of ranges.
struct Profiler {
    attributes: Py<PyDict>,
    flag: Py<PyString>,
    range: Py<PyAny>,
}

static PROFILER: PyOnceLock<Option<Profiler>> = PyOnceLock::new();

/// The open ranges of one party: of a call, or of its kernels.
pub(super) struct Ranges {
    range: Py<PyAny>,
    open: Option<Py<PyAny>>,
}

/// Returns true while a profiler of torch runs: a look-up in the dict of a module.
#[inline]
pub(super) fn runs(py: Python<'_>, framework: Framework) -> bool {
    match PROFILER.get(py) {
        Some(Some(found)) => found.runs(py),
        Some(None) => false,
        None => find(py, framework).is_some_and(|found| found.runs(py)),
    }
}

/// Looks for torch, which may be imported later, in a call with one of its tensors.
#[cold]
fn find(py: Python<'_>, framework: Framework) -> Option<&'static Profiler> {
    if let Some(found) = PROFILER.get(py) {
        return found.as_ref();
    }
    if matches!(framework, Framework::Numpy) {
        return None;
    }
    PROFILER.get_or_init(py, || profiler(py).ok().flatten()).as_ref()
}

impl Profiler {
    #[inline]
    fn runs(&self, _: Python<'_>) -> bool {
        // SAFETY: the GIL is held, and the dict and its key live; the result is borrowed, and
        // compared at once. A text can be hashed, so that nothing is raised.
        unsafe { ffi::PyDict_GetItemWithError(self.attributes.as_ptr(), self.flag.as_ptr()) == ffi::Py_True() }
    }
}

impl Ranges {
    /// Returns `None` unless a profiler of torch runs.
    pub(super) fn wanted(py: Python<'_>, framework: Framework) -> Option<Self> {
        let found = find(py, framework).filter(|found| found.runs(py))?;
        Some(Self { range: found.range.clone_ref(py), open: None })
    }

    /// Returns ranges that are opened while the GIL is not held.
    pub(super) fn of_kernels(&self) -> Self {
        Python::attach(|py| Self { range: self.range.clone_ref(py), open: None })
    }

    /// Opens a range. A failure concerns only torch, and leaves the call as it is.
    pub(super) fn open(&mut self, py: Python<'_>, name: &str) {
        let entered = self.range.call1(py, (name,)).and_then(|range| {
            range.call_method0(py, intern!(py, "__enter__"))?;
            Ok(range)
        });
        self.open = entered.ok();
    }

    pub(super) fn close(&mut self, py: Python<'_>) {
        if let Some(range) = self.open.take() {
            let none = py.None();
            let _ = range.call_method1(py, intern!(py, "__exit__"), (&none, &none, &none));
        }
    }
}

impl LaunchObserver for Ranges {
    fn begin(&mut self, name: &str) {
        Python::attach(|py| self.open(py, name));
    }

    fn end(&mut self) {
        Python::attach(|py| self.close(py));
    }
}

fn profiler(py: Python<'_>) -> PyResult<Option<Profiler>> {
    if loaded_torch(py)?.is_none() {
        return Ok(None);
    }
    let module = py.import("torch.autograd.profiler")?;
    let fast = py.import("torch._C._profiler").and_then(|native| native.getattr("_RecordFunctionFast"));
    let range = fast.or_else(|_| module.getattr("record_function"))?;
    let flag = intern!(py, "_is_profiler_enabled").clone().unbind();
    Ok(Some(Profiler { attributes: module.dict().unbind(), flag, range: range.unbind() }))
}
