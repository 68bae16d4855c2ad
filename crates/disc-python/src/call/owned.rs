//! Gives a framework ownership of a tensor in our memory: DLPack's managed tensor, with sizes and
//! memory in one allocation beside it.
use super::{
    device_tensor::DeviceBlock,
    dlpack::{CPU, CUDA, DLTensor, Exchange, MAJOR, Managed, Unversioned, Version, data_type},
    memory::Block,
    place::Place,
    read::push_contiguous,
};
use disc_ral::{AllocError, DType, bytes_of};
use pyo3::{exceptions::PySystemError, ffi, prelude::*};
use smallvec::SmallVec;
use std::{
    ffi::{c_int, c_void},
    ptr,
    sync::Arc,
};

/// A contiguous tensor.
#[repr(C)]
pub(super) struct Owned {
    /// First, so that a pointer to it is one to the whole.
    managed: Managed,
    /// Sizes, then strides.
    extents: SmallVec<[i64; 12]>,
    _memory: Memory,
}

/// The memory of a tensor.
enum Memory {
    Own(#[expect(dead_code, reason = "it is freed with the tensor")] Block),
    /// Memory of a device, which other tensors may have too.
    Shared(#[expect(dead_code, reason = "it is freed with the last tensor")] Arc<DeviceBlock>),
}

// SAFETY: all pointers are into itself.
unsafe impl Send for Owned {}

impl Owned {
    pub(super) fn new(dtype: DType, sizes: &[i64]) -> Result<Box<Self>, AllocError> {
        let memory = Block::new(bytes_of(dtype, sizes).ok_or(AllocError::Size)?)?;
        let at = memory.at();
        Ok(Self::of(at, Memory::Own(memory), (dtype, sizes), Place::Host))
    }

    /// Makes a tensor in memory of a device, of at least its bytes.
    pub(super) fn shared(memory: &Arc<DeviceBlock>, dtype: DType, sizes: &[i64], place: Place) -> Box<Self> {
        Self::of(memory.at(), Memory::Shared(Arc::clone(memory)), (dtype, sizes), place)
    }

    fn of(data: *mut u8, memory: Memory, (dtype, sizes): (DType, &[i64]), place: Place) -> Box<Self> {
        let (device_type, device_id) = match place {
            Place::Host => (CPU, 0),
            Place::Cuda(number) => (CUDA, number),
        };
        let mut extents = SmallVec::from_slice(sizes);
        push_contiguous(&mut extents, 0, sizes.len());
        let tensor = DLTensor {
            data: data.cast(),
            device_type,
            device_id,
            rank: sizes.len() as c_int,
            dtype: data_type(dtype),
            sizes: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        let version = Version { major: MAJOR, minor: 0 };
        let managed = Managed { version, context: ptr::null_mut(), deleter: Some(delete), flags: 0, tensor };
        let mut owned = Box::new(Self { managed, extents, _memory: memory });
        // Inside the box, they no longer move.
        let at = owned.extents.as_mut_ptr();
        owned.managed.tensor.sizes = at;
        owned.managed.tensor.strides = at.wrapping_add(sizes.len());
        owned
    }

    pub(super) fn data(&self) -> *mut u8 {
        self.managed.tensor.data.cast()
    }

    /// Returns the framework's tensor, made by its exchange interface.
    pub(super) fn exchange<'py>(self: Box<Self>, py: Python<'py>, api: &Exchange) -> PyResult<Bound<'py, PyAny>> {
        let make = api.managed_to_python.expect("checked when the type was met");
        let mut made = ptr::null_mut();
        // SAFETY: a managed tensor that the function takes over, and room for the object, which is
        // a new reference.
        unsafe {
            match make(Box::into_raw(self).cast(), &raw mut made) {
                0 => Bound::from_owned_ptr_or_err(py, made),
                _ => Err(PyErr::take(py).unwrap_or_else(|| PySystemError::new_err("the framework made no tensor"))),
            }
        }
    }

    /// Returns a capsule named `dltensor`, which every framework with DLPack reads.
    pub(super) fn capsule(self: Box<Self>, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let tensor = self.managed.tensor;
        let context = Box::into_raw(self).cast::<c_void>();
        let unversioned = Box::into_raw(Box::new(Unversioned { tensor, context, deleter: Some(delete_unversioned) }));
        // SAFETY: a valid pointer, a name that lives for ever; the result is a new reference or
        // null.
        unsafe {
            let capsule = ffi::PyCapsule_New(unversioned.cast(), NAME.as_ptr(), Some(free_capsule));
            if capsule.is_null() {
                delete_unversioned(unversioned);
            }
            Bound::from_owned_ptr_or_err(py, capsule)
        }
    }
}

const NAME: &std::ffi::CStr = c"dltensor";

/// # Safety
/// The tensor is the first field of a boxed [`Owned`] that nobody uses any more.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(managed.cast::<Owned>()) });
}

/// # Safety
/// The tensor is one of [`Owned::capsule`] that nobody uses any more.
unsafe extern "C" fn delete_unversioned(unversioned: *mut Unversioned) {
    // SAFETY: the caller's promise.
    unsafe {
        let unversioned = Box::from_raw(unversioned);
        delete(unversioned.context.cast());
    }
}

/// A consumed capsule has another name; any other still owns its tensor.
unsafe extern "C" fn free_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule of `Owned::capsule`.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 1 {
            delete_unversioned(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        }
    }
}
