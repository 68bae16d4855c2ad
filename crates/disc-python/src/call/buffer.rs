//! Reads the buffer protocol: NumPy arrays, and other objects that lend their memory.
//!
//! The functions are declared here, because CPython lists them in its limited interface from 3.11
//! on only; they exist, with this layout, in every version that disc supports.
use disc_ral::DType;
use pyo3::{ffi::PyObject, prelude::*};
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr, slice,
};

/// `PyBUF_STRIDES | PyBUF_FORMAT`: any layout, read-only memory included.
const FLAGS: c_int = 0x18 | 0x04;

#[repr(C)]
struct PyBuffer {
    data: *mut c_void,
    owner: *mut PyObject,
    length: isize,
    item_size: isize,
    read_only: c_int,
    rank: c_int,
    format: *const c_char,
    sizes: *const isize,
    strides: *const isize,
    suboffsets: *const isize,
    internal: *mut c_void,
}

unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut PyObject, view: *mut PyBuffer, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut PyBuffer);
}

/// Memory that is lent, until this is dropped. Boxed: the lender may point into it.
pub(super) struct Buffer(Box<PyBuffer>);

// SAFETY: the view is plain data; it is released with Python's lock held.
unsafe impl Send for Buffer {}
// SAFETY: as above; nothing changes it.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub(super) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut view = Box::new(PyBuffer {
            data: ptr::null_mut(),
            owner: ptr::null_mut(),
            length: 0,
            item_size: 0,
            read_only: 0,
            rank: 0,
            format: ptr::null(),
            sizes: ptr::null(),
            strides: ptr::null(),
            suboffsets: ptr::null(),
            internal: ptr::null_mut(),
        });
        // SAFETY: a live object, and a view that stays where it is.
        match unsafe { PyObject_GetBuffer(object.as_ptr(), &raw mut *view, FLAGS) } {
            0 => Ok(Self(view)),
            _ => Err(PyErr::fetch(object.py())),
        }
    }

    pub(super) fn data(&self) -> *mut c_void {
        self.0.data
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.0.read_only != 0
    }

    pub(super) fn sizes(&self) -> &[isize] {
        self.array(self.0.sizes)
    }

    /// Strides in bytes; empty for a contiguous buffer of a lender that does not give them.
    pub(super) fn strides(&self) -> &[isize] {
        self.array(self.0.strides)
    }

    pub(super) fn item_size(&self) -> usize {
        self.0.item_size.max(1) as usize
    }

    fn array(&self, at: *const isize) -> &[isize] {
        if at.is_null() {
            return &[];
        }
        // SAFETY: the protocol: an array of `rank` values where it is not null, valid until the
        // release.
        unsafe { slice::from_raw_parts(at, self.0.rank.max(0) as usize) }
    }

    /// Returns the element type in the notation of the `struct` module.
    pub(super) fn format(&self) -> &[u8] {
        if self.0.format.is_null() {
            return b"B";
        }
        // SAFETY: the protocol: a NUL-terminated text, valid until the release.
        unsafe { CStr::from_ptr(self.0.format) }.to_bytes()
    }

    /// Returns our element type, if there is one and its bytes are in this machine's order.
    pub(super) fn dtype(&self) -> Option<DType> {
        let code = match self.format() {
            [code] | [b'@' | b'=' | b'<', code] => *code,
            [b'>' | b'!', code] if self.item_size() == 1 => *code,
            _ => return None,
        };
        Some(match (code, self.item_size()) {
            (b'?', 1) => DType::I1,
            (b'b', 1) => DType::I8,
            (b'B', 1) => DType::U8,
            (b'h', 2) => DType::I16,
            (b'H', 2) => DType::U16,
            (b'i' | b'l' | b'q' | b'n', 4) => DType::I32,
            (b'I' | b'L' | b'Q' | b'N', 4) => DType::U32,
            (b'i' | b'l' | b'q' | b'n', 8) => DType::I64,
            (b'I' | b'L' | b'Q' | b'N', 8) => DType::U64,
            (b'e', 2) => DType::F16,
            (b'f', 4) => DType::F32,
            (b'd', 8) => DType::F64,
            _ => return None,
        })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // At the end of the process, when Python is gone, nothing needs a release.
        Python::try_attach(|_| {
            // SAFETY: filled by `PyObject_GetBuffer`, released once.
            unsafe { PyBuffer_Release(&raw mut *self.0) };
        });
    }
}
