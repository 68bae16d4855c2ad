//! Asks torch without Python: for the memory and the version of a tensor (`TensorCell`), and for
//! modes of the thread (`TorchModes`).
//!
//! The functions are looked up in the libraries that the process has loaded. Where one is missing,
//! or a tensor is not where it is expected in its object, Python is asked instead.
use pyo3::{intern, prelude::*};
use std::{
    ffi::{CStr, c_void},
    mem,
    sync::OnceLock,
};

/// `aoti_torch_get_data_ptr` of torch's stable interface: of an `at::Tensor`, with a status.
type Address = unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> i32;
/// `at::TensorBase::_version() const`.
type Version = unsafe extern "C" fn(*const c_void) -> i64;

/// `at::impl::PythonTorchFunctionTLS::stack_len()`, and the same of
/// `c10::impl::TorchDispatchModeTLS`.
type Count = unsafe extern "C" fn() -> i64;
/// `c10::get_default_dtype_as_scalartype()`.
type DefaultType = unsafe extern "C" fn() -> i8;

pub(super) const LIBRARY: &CStr = c"libtorch_cpu.so";
pub(super) const BASE: &CStr = c"libc10.so";
const FUNCTION_MODES: &CStr = c"_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv";
const DISPATCH_MODES: &CStr = c"_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv";
const DEFAULT_TYPE: &CStr = c"_ZN3c1031get_default_dtype_as_scalartypeEv";
const ADDRESS: &CStr = c"aoti_torch_get_data_ptr";
const VERSION: &CStr = c"_ZNK2at10TensorBase8_versionEv";
/// The offsets of the `at::Tensor` in an object of Python: directly after the header, or after the
/// flag of a `c10::MaybeOwned` (before torch 2.10).
pub(super) const OFFSETS: [usize; 2] = [16, 24];

/// The functions of the loaded library.
#[derive(Clone, Copy)]
pub(super) struct TorchFunctions {
    address: Address,
    version: Version,
}

/// The `at::Tensor` in an object of Python: one pointer, to the implementation.
pub(super) struct TensorCell {
    at: usize,
    implementation: usize,
    torch: TorchFunctions,
}

impl TorchFunctions {
    /// Returns the functions; `None` as long as torch is not loaded, or without them.
    pub(super) fn get() -> Option<Self> {
        static FOUND: OnceLock<TorchFunctions> = OnceLock::new();
        if let Some(found) = FOUND.get() {
            return Some(*found);
        }
        let found = Self::find()?;
        Some(*FOUND.get_or_init(|| found))
    }

    fn find() -> Option<Self> {
        let (address, version) = (symbol(LIBRARY, ADDRESS)?, symbol(LIBRARY, VERSION)?);
        // SAFETY: functions of these types by torch's headers.
        unsafe {
            Some(Self {
                address: mem::transmute::<*mut c_void, Address>(address),
                version: mem::transmute::<*mut c_void, Version>(version),
            })
        }
    }

    /// Finds the tensor in an object of Python.
    pub(super) fn cell(self, object: &Bound<'_, PyAny>) -> Option<TensorCell> {
        let implementation = implementation_of(object)?;
        OFFSETS.iter().find_map(|offset| {
            let at = object.as_ptr().expose_provenance() + offset;
            // SAFETY: objects of tensors are longer than this.
            let found = unsafe { std::ptr::with_exposed_provenance::<usize>(at).read() };
            (found == implementation).then_some(TensorCell { at, implementation, torch: self })
        })
    }
}

/// Returns the address of the implementation of a tensor, as Python says it.
pub(super) fn implementation_of(object: &Bound<'_, PyAny>) -> Option<usize> {
    object.getattr(intern!(object.py(), "_cdata")).ok()?.extract::<usize>().ok()
}

/// Returns the address of a function of a loaded library.
pub(super) fn symbol(library: &CStr, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: NUL-terminated names; nothing is loaded that is not there.
    unsafe {
        let library = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL | libc::RTLD_NOLOAD);
        let found = if library.is_null() { library } else { libc::dlsym(library, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }
}

/// Modes of torch of which calls ask each time.
#[derive(Clone, Copy)]
pub(crate) struct TorchModes {
    function_modes: Count,
    dispatch_modes: Count,
    default_type: DefaultType,
}

impl TorchModes {
    /// Returns the functions; `None` as long as torch is not loaded, or without one of them.
    pub(crate) fn get() -> Option<Self> {
        static FOUND: OnceLock<Option<TorchModes>> = OnceLock::new();
        TorchFunctions::get()?;
        *FOUND.get_or_init(|| {
            let function_modes = symbol(LIBRARY, FUNCTION_MODES)?;
            let (dispatch_modes, default_type) = (symbol(BASE, DISPATCH_MODES)?, symbol(BASE, DEFAULT_TYPE)?);
            // SAFETY: functions of these types by torch's headers.
            unsafe {
                Some(Self {
                    function_modes: mem::transmute::<*mut c_void, Count>(function_modes),
                    dispatch_modes: mem::transmute::<*mut c_void, Count>(dispatch_modes),
                    default_type: mem::transmute::<*mut c_void, DefaultType>(default_type),
                })
            }
        })
    }

    /// Returns true if no mode sees the functions or the ops of torch.
    #[inline]
    pub(crate) fn are_none(self) -> bool {
        // SAFETY: they read a state of the thread.
        unsafe { (self.function_modes)() == 0 && (self.dispatch_modes)() == 0 }
    }

    /// Returns the number of the type of tensors that are made without one.
    #[inline]
    pub(crate) fn default_type(self) -> i8 {
        // SAFETY: it reads a state of the process.
        unsafe { (self.default_type)() }
    }
}

impl TensorCell {
    /// Returns the address of the implementation.
    #[inline]
    pub(super) fn implementation(&self) -> usize {
        self.implementation
    }

    /// Returns true if the tensor has the memory and the version that it had. A tensor without a
    /// version (of inference mode) is not asked for one: torch would throw.
    ///
    /// # Safety
    /// The object is alive.
    #[inline]
    pub(super) unsafe fn is_unchanged(&self, address: usize, version: Option<i64>) -> bool {
        let tensor = std::ptr::with_exposed_provenance_mut::<c_void>(self.at);
        let mut data = std::ptr::null_mut();
        // SAFETY: the caller's promise: the object holds a defined `at::Tensor` there, which is one
        // pointer.
        unsafe {
            tensor.cast::<usize>().read() == self.implementation
                && (self.torch.address)(tensor, &raw mut data) == 0
                && data.addr() == address
                && version.is_none_or(|version| (self.torch.version)(tensor) == version)
        }
    }
}
