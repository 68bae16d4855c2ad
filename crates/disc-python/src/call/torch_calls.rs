//! Asks torch without Python if a call is plain: neither traced nor within autocast.
use super::torch_functions::{BASE, LIBRARY, symbol};
use pyo3::{intern, prelude::*};
use std::{
    ffi::{CStr, c_void},
    mem,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// `torch::jit::tracer::getTracingState()`: a reference to a `std::shared_ptr`.
type TracingState = unsafe extern "C" fn() -> *const *const c_void;
/// `c10::impl::tls_is_dispatch_keyset_excluded(c10::DispatchKeySet)`, of a set in one word.
type AreExcluded = unsafe extern "C" fn(u64) -> bool;

const TRACING_STATE: &CStr = c"_ZN5torch3jit6tracer15getTracingStateEv";
const ARE_EXCLUDED: &CStr = c"_ZN3c104impl31tls_is_dispatch_keyset_excludedENS_14DispatchKeySetE";

/// Keys that torch dispatched nothing to, in each state in which it said that no autocast is on.
/// Those of autocast are among them: it is on where they are not excluded.
static EXCLUDED: AtomicU64 = AtomicU64::new(0);

/// Functions of the loaded libraries.
pub(crate) struct PlainCalls {
    tracing_state: TracingState,
    are_excluded: AreExcluded,
}

impl PlainCalls {
    /// Returns the functions; `None` without one of them.
    #[inline]
    pub(crate) fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<PlainCalls>> = OnceLock::new();
        let find = || {
            let (tracing_state, are_excluded) = (symbol(LIBRARY, TRACING_STATE)?, symbol(BASE, ARE_EXCLUDED)?);
            // SAFETY: functions of these types by torch's headers.
            unsafe {
                Some(Self {
                    tracing_state: mem::transmute::<*mut c_void, TracingState>(tracing_state),
                    are_excluded: mem::transmute::<*mut c_void, AreExcluded>(are_excluded),
                })
            }
        };
        FOUND.get_or_init(find).as_ref()
    }

    /// Returns true if this thread neither traces nor is within autocast.
    #[inline]
    pub(crate) fn are_now(&self, py: Python<'_>) -> PyResult<bool> {
        // SAFETY: it returns the place of a pointer of the thread.
        if !unsafe { (self.tracing_state)().read() }.is_null() {
            return Ok(false);
        }
        let keys = EXCLUDED.load(Ordering::Relaxed);
        // SAFETY: it reads a state of the thread.
        if keys != 0 && unsafe { (self.are_excluded)(keys) } { Ok(true) } else { without_autocast(py) }
    }
}

/// Asks torch if no autocast is on, and notes the keys that are excluded then.
#[cold]
fn without_autocast(py: Python<'_>) -> PyResult<bool> {
    let torch = py.import("torch")?.getattr("_C")?;
    if torch.call_method0(intern!(py, "_is_any_autocast_enabled"))?.is_truthy()? {
        return Ok(false);
    }
    let excluded = || torch.call_method0(intern!(py, "_dispatch_tls_local_exclude_set"))?.call_method0(intern!(py, "raw_repr"));
    if let Some(now) = excluded().ok().and_then(|keys| keys.extract::<u64>().ok()) {
        let before = EXCLUDED.load(Ordering::Relaxed);
        EXCLUDED.store(if before == 0 { now } else { before & now }, Ordering::Relaxed);
    }
    Ok(true)
}
