//! Gives a class a method `__call__` that is native for calls, and Python's function for whoever
//! looks it up: `CallMethod`.
use super::calls::PyWarmCalls;
use crate::errors::guarded;
use pyo3::{
    ffi, intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyTuple, PyType},
};
use std::ptr;

/// A method of a class, and the function that serves what the native code does not.
#[pyclass(name = "CallMethod", module = "disc._disc", frozen, subclass)]
struct PyCallMethod {
    function: Py<PyAny>,
}

#[pymethods]
impl PyCallMethod {
    #[new]
    fn new(function: Py<PyAny>) -> Self {
        Self { function }
    }

    /// Returns the function; bound to an instance, if there is one.
    fn __get__<'py>(
        &self,
        py: Python<'py>,
        instance: Option<&Bound<'py, PyAny>>,
        owner: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.function.bind(py).call_method1(intern!(py, "__get__"), (instance, owner))
    }

    /// Attributes of the function, such as its code, which tracers look at.
    fn __getattr__<'py>(&self, py: Python<'py>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.function.bind(py).getattr(name.cast::<pyo3::types::PyString>()?)
    }
}

/// Makes the method `__call__` of a class whose instances keep their warm calls in `_warm`, of the
/// function that serves all other calls.
#[pyfunction]
pub(crate) fn call_method<'py>(py: Python<'py>, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    guarded(|| kind(py)?.call1((function,)))
}

/// Returns the type of such methods. It derives from the type of this module in order to say that
/// its objects are called with the instance: Python then binds none.
fn kind(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static KIND: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let found = KIND.get_or_try_init(py, || {
        let call: ffi::ternaryfunc = call;
        let mut slots = [
            ffi::PyType_Slot { slot: ffi::Py_tp_call, pfunc: call as *mut _ },
            ffi::PyType_Slot { slot: 0, pfunc: ptr::null_mut() },
        ];
        let mut spec = ffi::PyType_Spec {
            name: c"disc._disc.NativeCallMethod".as_ptr(),
            basicsize: 0,
            itemsize: 0,
            flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_METHOD_DESCRIPTOR) as _,
            slots: slots.as_mut_ptr(),
        };
        let bases = PyTuple::new(py, [py.get_type::<PyCallMethod>()])?;
        // SAFETY: the description is complete, and copied; the result is a new reference or null.
        let made = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpecWithBases(&raw mut spec, bases.as_ptr()))? };
        Ok::<_, PyErr>(made.cast_into::<PyType>()?.unbind())
    })?;
    Ok(found.bind(py))
}

/// Calls a method: with the instance and the arguments.
///
/// # Safety
/// Python calls it, as the slot of its type.
unsafe extern "C" fn call(this: *mut ffi::PyObject, args: *mut ffi::PyObject, kwargs: *mut ffi::PyObject) -> *mut ffi::PyObject {
    Python::attach(|py| {
        let served = guarded(|| {
            // SAFETY: Python passes a tuple, and a dict or null.
            let (given, keywords) = unsafe {
                let keywords = (!kwargs.is_null()).then(|| Borrowed::from_ptr(py, kwargs).cast_unchecked::<PyDict>());
                (Borrowed::from_ptr(py, args).cast_unchecked::<PyTuple>(), keywords)
            };
            PyWarmCalls::serve(given, keywords)
        });
        match served {
            Ok(Some(result)) => result.into_ptr(),
            // SAFETY: the slot belongs to a type that derives from `PyCallMethod`; the arguments
            // are Python's.
            Ok(None) => unsafe {
                let method = Borrowed::from_ptr(py, this).cast_unchecked::<PyCallMethod>();
                ffi::PyObject_Call(method.get().function.as_ptr(), args, kwargs)
            },
            Err(error) => {
                error.restore(py);
                ptr::null_mut()
            }
        }
    })
}
