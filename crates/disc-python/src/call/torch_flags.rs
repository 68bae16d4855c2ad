//! Asks torch without Python for flags of a tensor, and if gradients are recorded: `TorchFlags`.
//!
//! Python is asked instead if the loaded libraries lack a function, or a tensor is not where it is
//! expected in its object.
use super::torch_functions::{BASE, LIBRARY, OFFSETS, implementation_of, symbol};
use pyo3::{intern, prelude::*};
use std::{
    ffi::{CStr, c_void},
    mem,
    sync::OnceLock,
};

/// `aoti_torch_grad_mode_is_enabled` of torch's stable interface.
type GradMode = unsafe extern "C" fn() -> bool;
/// `c10::TensorImpl::requires_grad() const`, and `at::native::is_neg(const at::Tensor&)`.
type Flag = unsafe extern "C" fn(*const c_void) -> bool;

const GRAD_MODE: &CStr = c"aoti_torch_grad_mode_is_enabled";
const REQUIRES_GRADIENT: &CStr = c"_ZNK3c1010TensorImpl13requires_gradEv";
const IS_NEGATED: &CStr = c"_ZN2at6native6is_negERKNS_6TensorE";

/// Functions of the loaded libraries, for objects of torch's class of tensors.
pub(crate) struct TorchFlags {
    grad_mode: GradMode,
    requires_gradient: Flag,
    is_negated: Flag,
    /// The offset of the `at::Tensor` in an object.
    offset: usize,
}

impl TorchFlags {
    /// Returns true if a tensor of torch requires a gradient.
    #[inline]
    pub(crate) fn requires_gradient(object: &Bound<'_, PyAny>) -> PyResult<bool> {
        match Self::get(object) {
            // SAFETY: a live tensor, whose implementation is read where it was found to be.
            Some(torch) => Ok(unsafe { (torch.requires_gradient)(torch.tensor(object).cast::<*const c_void>().read()) }),
            None => object.getattr(intern!(object.py(), "requires_grad"))?.is_truthy(),
        }
    }

    /// Returns true if a tensor of torch is a negated view.
    #[inline]
    pub(crate) fn is_negated(object: &Bound<'_, PyAny>) -> PyResult<bool> {
        match Self::get(object) {
            // SAFETY: a live tensor.
            Some(torch) => Ok(unsafe { (torch.is_negated)(torch.tensor(object)) }),
            None => object.call_method0(intern!(object.py(), "is_neg"))?.is_truthy(),
        }
    }

    /// Returns true if operations on tensors, of which `object` is one, are recorded for
    /// gradients; `None` where torch has to be asked by Python.
    #[inline]
    pub(crate) fn records_gradients(object: &Bound<'_, PyAny>) -> Option<bool> {
        // SAFETY: it reads a state of the thread.
        Self::get(object).map(|torch| unsafe { (torch.grad_mode)() })
    }

    #[inline]
    fn get(object: &Bound<'_, PyAny>) -> Option<&'static Self> {
        static FOUND: OnceLock<Option<TorchFlags>> = OnceLock::new();
        FOUND.get_or_init(|| Self::find(object)).as_ref()
    }

    #[cold]
    fn find(object: &Bound<'_, PyAny>) -> Option<Self> {
        let grad_mode = symbol(LIBRARY, GRAD_MODE)?;
        let (requires_gradient, is_negated) = (symbol(BASE, REQUIRES_GRADIENT)?, symbol(LIBRARY, IS_NEGATED)?);
        let implementation = implementation_of(object)?;
        let offset = OFFSETS.into_iter().find(|offset| {
            let at = std::ptr::with_exposed_provenance::<usize>(object.as_ptr().expose_provenance() + offset);
            // SAFETY: objects of tensors are longer than this.
            implementation == unsafe { at.read() }
        })?;
        // SAFETY: functions of these types by torch's headers.
        unsafe {
            Some(Self {
                grad_mode: mem::transmute::<*mut c_void, GradMode>(grad_mode),
                requires_gradient: mem::transmute::<*mut c_void, Flag>(requires_gradient),
                is_negated: mem::transmute::<*mut c_void, Flag>(is_negated),
                offset,
            })
        }
    }

    #[inline]
    fn tensor(&self, object: &Bound<'_, PyAny>) -> *const c_void {
        object.as_ptr().cast_const().cast::<c_void>().wrapping_byte_add(self.offset)
    }
}
