//! Asks torch for the memory and the version of a tensor without Python: `TensorCell`.
//!
//! The functions are looked up in the library that the process has loaded. Where one is missing, or
//! a tensor is not where it is expected in its object, Python is asked instead.
use pyo3::{intern, prelude::*};
use std::{ffi::c_void, mem, sync::OnceLock};

/// `aoti_torch_get_data_ptr` of torch's stable interface: of an `at::Tensor`, with a status.
type Address = unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> i32;
/// `at::TensorBase::_version() const`.
type Version = unsafe extern "C" fn(*const c_void) -> i64;

const LIBRARY: &std::ffi::CStr = c"libtorch_cpu.so";
const ADDRESS: &std::ffi::CStr = c"aoti_torch_get_data_ptr";
const VERSION: &std::ffi::CStr = c"_ZNK2at10TensorBase8_versionEv";
/// The offsets of the `at::Tensor` in an object of Python: directly after the header, or after the
/// flag of a `c10::MaybeOwned` (before torch 2.10).
const OFFSETS: [usize; 2] = [16, 24];

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
        // SAFETY: a NUL-terminated name; nothing is loaded that is not there.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL | libc::RTLD_NOLOAD) };
        if library.is_null() {
            return None;
        }
        // SAFETY: an open library, and NUL-terminated names.
        let (address, version) = unsafe { (libc::dlsym(library, ADDRESS.as_ptr()), libc::dlsym(library, VERSION.as_ptr())) };
        if address.is_null() || version.is_null() {
            return None;
        }
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
        let implementation = object.getattr(intern!(object.py(), "_cdata")).ok()?.extract::<usize>().ok()?;
        OFFSETS.iter().find_map(|offset| {
            let at = object.as_ptr().expose_provenance() + offset;
            // SAFETY: objects of tensors are longer than this.
            let found = unsafe { std::ptr::with_exposed_provenance::<usize>(at).read() };
            (found == implementation).then_some(TensorCell { at, implementation, torch: self })
        })
    }
}

impl TensorCell {
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
