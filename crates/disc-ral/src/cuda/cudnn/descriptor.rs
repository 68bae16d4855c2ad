//! Holds a descriptor of the library, which is destroyed with its owner.
use super::functions::{CudnnError, Functions, Handle, ty};
use std::{ffi::c_int, ptr};

/// A descriptor that the library has made.
pub(super) struct Descriptor {
    pub(super) handle: Handle,
    functions: Functions,
}

// SAFETY: the library's descriptors are data that any thread may read, one at a time.
unsafe impl Send for Descriptor {}
// SAFETY: as above; attributes are only set before a descriptor is shared.
unsafe impl Sync for Descriptor {}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: made by the library, destroyed once. Nobody could act on a failure.
        let _ = unsafe { self.functions.destroy_descriptor(self.handle) };
    }
}

impl Descriptor {
    /// Makes a descriptor of a kind.
    pub(super) fn new(functions: Functions, kind: c_int) -> Result<Self, CudnnError> {
        let mut handle = ptr::null_mut();
        // SAFETY: writes a handle.
        unsafe { functions.create_descriptor(kind, &mut handle)? };
        Ok(Self { handle, functions })
    }

    /// Sets an attribute.
    ///
    /// # Safety
    /// `T` is what the header says of the type `ty`.
    pub(super) unsafe fn set<T>(&self, attribute: c_int, ty: c_int, values: &[T]) -> Result<(), CudnnError> {
        // SAFETY: the caller's promise; so many values.
        unsafe { self.functions.set_attribute(self.handle, attribute, ty, values.len() as i64, values.as_ptr().cast()) }
    }

    pub(super) fn set_integers(&self, attribute: c_int, values: &[i64]) -> Result<(), CudnnError> {
        // SAFETY: 64 bits.
        unsafe { self.set(attribute, ty::INT64, values) }
    }

    /// Sets a number of one of the library's enumerations, which is a type of its own.
    pub(super) fn set_word(&self, attribute: c_int, ty: c_int, value: c_int) -> Result<(), CudnnError> {
        // SAFETY: enumerations are numbers of 32 bits.
        unsafe { self.set(attribute, ty, &[value]) }
    }

    pub(super) fn set_float(&self, attribute: c_int, value: f32) -> Result<(), CudnnError> {
        // SAFETY: 32 bits.
        unsafe { self.set(attribute, ty::FLOAT, &[value]) }
    }

    pub(super) fn set_flag(&self, attribute: c_int, value: bool) -> Result<(), CudnnError> {
        // SAFETY: one byte.
        unsafe { self.set(attribute, ty::BOOLEAN, &[value]) }
    }

    pub(super) fn set_descriptors(&self, attribute: c_int, values: &[&Self]) -> Result<(), CudnnError> {
        let handles: Vec<Handle> = values.iter().map(|descriptor| descriptor.handle).collect();
        // SAFETY: live descriptors.
        unsafe { self.set(attribute, ty::DESCRIPTOR, &handles) }
    }

    /// Ends the attributes of a descriptor, which the library checks now.
    pub(super) fn finalized(self) -> Result<Self, CudnnError> {
        // SAFETY: a live descriptor.
        unsafe { self.functions.finalize(self.handle)? };
        Ok(self)
    }

    /// Reads at most as many values of an attribute as there is room for. Returns their number.
    ///
    /// # Safety
    /// `T` is what the header says of the type `ty`.
    pub(super) unsafe fn read<T>(&self, attribute: c_int, ty: c_int, values: &mut [T]) -> Result<usize, CudnnError> {
        let (wanted, mut count) = (values.len() as i64, 0);
        // SAFETY: the caller's promise; room for so many.
        unsafe { self.functions.get_attribute(self.handle, attribute, ty, wanted, &mut count, values.as_mut_ptr().cast())? };
        Ok(usize::try_from(count).unwrap_or(0).min(values.len()))
    }

    /// Returns the number of values of an attribute.
    pub(super) fn count(&self, attribute: c_int, ty: c_int) -> Result<usize, CudnnError> {
        let mut count = 0;
        // SAFETY: no value is written.
        unsafe { self.functions.get_attribute(self.handle, attribute, ty, 0, &mut count, ptr::null_mut())? };
        Ok(usize::try_from(count).unwrap_or(0))
    }
}
