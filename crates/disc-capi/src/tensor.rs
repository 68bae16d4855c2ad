//! Tensors as C sees them.

use crate::error::null;
use disc_ral::{DType, Error, Tensor, TensorRef, code};
use std::{ffi::c_void, mem::MaybeUninit, ptr, slice};

/// An element type. The numbers never change.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum disc_dtype {
    /// IEEE 754 half precision, 2 bytes.
    F16 = 1,
    /// The upper half of a float, 2 bytes.
    BF16 = 2,
    /// `float`.
    F32 = 3,
    /// `double`.
    F64 = 4,
    /// A truth value: one byte, 0 or 1.
    I1 = 5,
    /// `int8_t`.
    I8 = 6,
    /// `uint8_t`.
    U8 = 7,
    /// `int16_t`.
    I16 = 8,
    /// `uint16_t`.
    U16 = 9,
    /// `int32_t`.
    I32 = 10,
    /// `uint32_t`.
    U32 = 11,
    /// `int64_t`.
    I64 = 12,
    /// `uint64_t`.
    U64 = 13,
}

/// A tensor in host memory. An input is borrowed for a call. An output with `data` of NULL is
/// allocated by the call, which fills in the other fields; free it with `disc_tensor_free`.
#[repr(C)]
pub struct disc_tensor {
    /// The first element, aligned to its size. A call writes to an input only if the model does.
    pub data: *mut c_void,
    /// The size of each axis; may be NULL for rank 0.
    pub sizes: *const i64,
    /// The step from one element to the next of each axis, counted in elements; zero and negative
    /// ones are allowed. NULL for row-major order without gaps, which an output always has.
    pub strides: *const i64,
    /// The number of axes.
    pub rank: usize,
    /// The element type.
    // A caller may have written any number: it is checked before it is a `disc_dtype`.
    pub dtype: MaybeUninit<disc_dtype>,
    /// The memory of a tensor that disc allocated; NULL for memory of the caller.
    pub owner: *mut c_void,
}

/// Frees the memory of a tensor that disc allocated, and sets all its fields to 0. Memory of the
/// caller stays. NULL is allowed.
///
/// # Safety
/// `tensor` is NULL, zeroed, or a tensor with the `owner` that a call gave it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn disc_tensor_free(tensor: *mut disc_tensor) {
    // SAFETY: the caller's promise; the owner came from `allocated`.
    unsafe {
        if let Some(tensor) = tensor.as_mut() {
            crate::error::free(tensor.owner.cast::<Tensor<'static>>());
            *tensor = std::mem::zeroed();
        }
    }
}

/// Describes a tensor of disc to the caller, who owns it from now on.
pub(crate) fn allocated(tensor: Tensor<'static>) -> disc_tensor {
    let dtype = MaybeUninit::new(NAMES[usize::from(tensor.dtype().code()) - 1]);
    let owner = Box::new(tensor);
    // A tensor that owns its memory always shows it.
    let data = owner.bytes().map_or(ptr::null_mut(), |bytes| bytes.as_ptr().cast_mut().cast());
    let (sizes, rank) = (owner.sizes().as_ptr(), owner.sizes().len());
    disc_tensor { data, sizes, strides: ptr::null(), rank, dtype, owner: Box::into_raw(owner).cast() }
}

/// The element types in the order of their numbers.
const NAMES: [disc_dtype; 13] = {
    use disc_dtype::{BF16, F16, F32, F64, I1, I8, I16, I32, I64, U8, U16, U32, U64};
    [F16, BF16, F32, F64, I1, I8, U8, I16, U16, I32, U32, I64, U64]
};

impl disc_tensor {
    /// Returns the element type, unless the number is none.
    pub(crate) fn dtype(&self, what: &str) -> Result<DType, Error> {
        // SAFETY: four bytes that the caller wrote; every pattern is a number.
        let number = unsafe { self.dtype.as_ptr().cast::<u32>().read() };
        let dtype = u8::try_from(number).ok().and_then(DType::from_code);
        dtype.ok_or_else(|| bad(what, format!("no element type has the number {number}")))
    }

    /// Returns the sizes.
    ///
    /// # Safety
    /// `sizes` is null or has `rank` numbers, valid for `'a`.
    pub(crate) unsafe fn sizes<'a>(&self, what: &str) -> Result<&'a [i64], Error> {
        // SAFETY: the caller's promise.
        unsafe { axes(self.sizes, self.rank) }.ok_or_else(|| bad(what, "`sizes` is NULL".into()))
    }

    /// Borrows the tensor as an input.
    ///
    /// # Safety
    /// The tensor describes memory that is valid for `'a`.
    pub(crate) unsafe fn as_input<'a>(&self, what: &str) -> Result<TensorRef<'a>, Error> {
        let dtype = self.dtype(what)?;
        // SAFETY: the caller's promise.
        let sizes = unsafe { self.sizes(what) }?;
        // SAFETY: as above.
        let mut tensor = unsafe { TensorRef::from_raw(self.data, dtype, sizes) };
        if !self.strides.is_null() {
            // SAFETY: as above.
            tensor = tensor.strides(unsafe { axes(self.strides, self.rank) }.unwrap_or_default());
        }
        if sizes.iter().any(|&size| size < 0) {
            return Err(bad(what, format!("it has sizes {sizes:?}, which are negative")));
        }
        let is_empty = sizes.contains(&0);
        if !is_empty && self.data.is_null() {
            return Err(bad(what, "`data` is NULL".into()));
        }
        let fits = tensor.addresses().is_some_and(|range| range.start >= 0 && range.end <= isize::MAX as i128);
        if !is_empty && !fits {
            return Err(bad(what, format!("no memory has sizes {sizes:?} with these strides")));
        }
        Ok(tensor)
    }
}

/// Returns one number for each axis; `None` for a null pointer that must not be one.
///
/// # Safety
/// `numbers` is null or has `rank` numbers, valid for `'a`.
unsafe fn axes<'a>(numbers: *const i64, rank: usize) -> Option<&'a [i64]> {
    match rank {
        0 => Some(&[]),
        _ if numbers.is_null() => None,
        // SAFETY: the caller's promise.
        _ => Some(unsafe { slice::from_raw_parts(numbers, rank) }),
    }
}

pub(crate) fn bad(what: &str, message: String) -> Error {
    Error::new(code::BAD_INPUT, what, format!("{what}: {message}"))
}

/// Refuses a null argument for a list that is not empty.
///
/// # Safety
/// `items` is null or has `count` items, valid for `'a`.
pub(crate) unsafe fn list<'a, T>(items: *const T, count: usize, argument: &str) -> Result<&'a [T], Error> {
    match count {
        0 => Ok(&[]),
        _ if items.is_null() => Err(null(argument)),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { slice::from_raw_parts(items, count) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_type_has_its_number() {
        for dtype in DType::ALL {
            let tensor = allocated(Tensor::zeros(dtype, &[2, 3]).unwrap());
            assert_eq!(tensor.dtype("").unwrap(), dtype);
            let mut tensor = tensor;
            // SAFETY: a tensor of `allocated`; the second time it is zeroed.
            unsafe {
                assert_eq!(tensor.sizes("").unwrap(), [2, 3]);
                disc_tensor_free(&mut tensor);
                assert!(tensor.data.is_null() && tensor.owner.is_null());
                disc_tensor_free(&mut tensor);
                disc_tensor_free(ptr::null_mut());
            }
        }
    }
}
