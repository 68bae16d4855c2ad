//! Implements the descriptions of matmuls, matrices, and of what is wanted of an algorithm.
use crate::status::{INVALID_VALUE, NOT_SUPPORTED};
use disc_fake_library::{Element, Status, library, made};
use std::ffi::{c_int, c_void};

/// An operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Matmul {
    pub(crate) transposed: [bool; 2],
    pub(crate) epilogue: u32,
    pub(crate) bias: u64,
    /// Operands are rounded to tf32.
    pub(crate) is_tf32: bool,
}

/// The layout of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) element: Element,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) stride: usize,
    pub(crate) batches: i32,
    pub(crate) batch_stride: i64,
}

/// The wishes for an algorithm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preference {
    pub(crate) workspace: usize,
    pub(crate) alignment: u32,
}

/// Gives a description to the caller.
unsafe fn give<T>(to: *mut *mut c_void, value: T) {
    made(1);
    // SAFETY: the caller's memory.
    unsafe { *to = Box::into_raw(Box::new(value)).cast() };
}

unsafe fn destroy<T>(handle: *mut c_void) {
    made(-1);
    // SAFETY: a description of this library, destroyed once.
    drop(unsafe { Box::from_raw(handle.cast::<T>()) });
}

/// Reads the value of an attribute.
unsafe fn value<T: Copy>(from: *const c_void, bytes: usize) -> Result<T, Status> {
    // SAFETY: the caller gives so many bytes.
    if bytes == size_of::<T>() { Ok(unsafe { from.cast::<T>().read_unaligned() }) } else { Err(INVALID_VALUE) }
}

/// Returns the type of elements by its number in `cudaDataType`.
fn element_of(number: c_int) -> Option<Element> {
    match number {
        0 => Some(Element::F32),
        2 => Some(Element::F16),
        14 => Some(Element::BF16),
        _ => None,
    }
}

library! {
    fn cublasLtMatmulDescCreate(matmul: *mut *mut c_void, compute: c_int, scale: c_int) {
        const F32: c_int = 68;
        const TF32: c_int = 77;
        if ![F32, TF32].contains(&compute) || scale != 0 {
            return Err(NOT_SUPPORTED);
        }
        // SAFETY: the caller's memory.
        unsafe { give(matmul, Matmul { epilogue: 1, is_tf32: compute == TF32, ..Matmul::default() }) };
        Ok(())
    }

    fn cublasLtMatmulDescSetAttribute(matmul: *mut c_void, attribute: c_int, from: *const c_void, bytes: usize) {
        // SAFETY: a live description, and the caller's value.
        unsafe {
            let matmul = &mut *matmul.cast::<Matmul>();
            match attribute {
                3 | 4 => matmul.transposed[attribute as usize - 3] = value::<c_int>(from, bytes)? == 1,
                7 => matmul.epilogue = value(from, bytes)?,
                8 => matmul.bias = value(from, bytes)?,
                _ => return Err(INVALID_VALUE),
            }
        }
        Ok(())
    }

    fn cublasLtMatmulDescDestroy(matmul: *mut c_void) {
        // SAFETY: a live description.
        unsafe { destroy::<Matmul>(matmul) };
        Ok(())
    }

    fn cublasLtMatrixLayoutCreate(layout: *mut *mut c_void, element: c_int, rows: u64, columns: u64, stride: i64) {
        let element = element_of(element).ok_or(NOT_SUPPORTED)?;
        let (rows, columns) = (rows as usize, columns as usize);
        let stride = usize::try_from(stride).ok().filter(|stride| *stride >= rows).ok_or(INVALID_VALUE)?;
        // SAFETY: the caller's memory.
        unsafe { give(layout, Layout { element, rows, columns, stride, batches: 1, batch_stride: 0 }) };
        Ok(())
    }

    fn cublasLtMatrixLayoutSetAttribute(layout: *mut c_void, attribute: c_int, from: *const c_void, bytes: usize) {
        // SAFETY: a live description, and the caller's value.
        unsafe {
            let layout = &mut *layout.cast::<Layout>();
            match attribute {
                5 => layout.batches = value(from, bytes)?,
                6 => layout.batch_stride = value(from, bytes)?,
                _ => return Err(INVALID_VALUE),
            }
        }
        Ok(())
    }

    fn cublasLtMatrixLayoutDestroy(layout: *mut c_void) {
        // SAFETY: a live description.
        unsafe { destroy::<Layout>(layout) };
        Ok(())
    }

    fn cublasLtMatmulPreferenceCreate(preference: *mut *mut c_void) {
        // SAFETY: the caller's memory.
        unsafe { give(preference, Preference { workspace: 0, alignment: 256 }) };
        Ok(())
    }

    fn cublasLtMatmulPreferenceSetAttribute(preference: *mut c_void, attribute: c_int, from: *const c_void, bytes: usize) {
        // SAFETY: a live description, and the caller's value.
        unsafe {
            let preference = &mut *preference.cast::<Preference>();
            match attribute {
                1 => preference.workspace = value(from, bytes)?,
                3 => _ = value::<u32>(from, bytes)?,
                5..=8 => preference.alignment = preference.alignment.min(value(from, bytes)?),
                _ => return Err(INVALID_VALUE),
            }
        }
        Ok(())
    }

    fn cublasLtMatmulPreferenceDestroy(preference: *mut c_void) {
        // SAFETY: a live description.
        unsafe { destroy::<Preference>(preference) };
        Ok(())
    }
}
