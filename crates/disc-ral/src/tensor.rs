//! Borrows tensors of the caller as inputs, and allocates outputs through the caller.

use crate::error::Error;
use disc_abi::{DEVICE_CPU, DType};
use std::{ffi::c_void, marker::PhantomData, ops::Range};

/// A tensor of the caller, borrowed for one call.
#[derive(Clone, Copy, Debug)]
pub struct TensorRef<'a> {
    data: *mut c_void,
    sizes: &'a [i64],
    strides: Option<&'a [i64]>,
    dtype: DType,
    device: u8,
    read_only: bool,
    memory: PhantomData<&'a [u8]>,
}

impl<'a> TensorRef<'a> {
    /// Borrows a contiguous tensor in host memory as read-only. `strides`, `on_device` and
    /// `writable` change that.
    ///
    /// # Safety
    /// For `'a`, every element that sizes and strides reach from `data` is valid memory of the
    /// dtype, and nobody writes to it (for a writable one: nobody else accesses it) during a call
    /// that gets it.
    pub unsafe fn from_raw(data: *mut c_void, dtype: DType, sizes: &'a [i64]) -> Self {
        Self { data, sizes, strides: None, dtype, device: DEVICE_CPU, read_only: true, memory: PhantomData }
    }

    /// Sets the strides in elements, one per size. They may be zero or negative.
    pub fn strides(self, strides: &'a [i64]) -> Self {
        Self { strides: Some(strides), ..self }
    }

    /// Sets the kind of device that the memory belongs to.
    pub fn on_device(self, device: u8) -> Self {
        Self { device, ..self }
    }

    /// Lets the entry write into it.
    pub fn writable(self) -> Self {
        Self { read_only: false, ..self }
    }

    /// Returns the address of the first element.
    pub fn data(&self) -> *mut c_void {
        self.data
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the size of each axis.
    pub fn sizes(&self) -> &'a [i64] {
        self.sizes
    }

    /// Returns the strides; `None` for a contiguous tensor.
    pub fn given_strides(&self) -> Option<&'a [i64]> {
        self.strides
    }

    /// Returns true if the tensor is row-major without gaps. One with a wrong number of strides
    /// counts as contiguous: a call refuses it.
    pub fn is_contiguous(&self) -> bool {
        self.strides.is_none_or(|strides| strides.len() != self.sizes.len() || is_contiguous(self.sizes, strides))
    }

    /// Returns the kind of device that the memory belongs to.
    pub fn device(&self) -> u8 {
        self.device
    }

    /// Returns the addresses from the first byte of its elements to the one after the last; `None`
    /// if it has no elements, or sizes that no memory holds.
    pub fn addresses(&self) -> Option<Range<i128>> {
        let size = self.dtype.size() as i128;
        if self.sizes.iter().any(|&size| size <= 0) {
            return None;
        }
        let (mut first, mut last, mut dense) = (0_i128, 0_i128, 1_i128);
        for (axis, &count) in self.sizes.iter().enumerate().rev() {
            let stride = self.strides.map_or(Some(dense), |strides| strides.get(axis).copied().map(i128::from))?;
            let reach = (i128::from(count) - 1).checked_mul(stride)?;
            (first, last) = (first.checked_add(reach.min(0))?, last.checked_add(reach.max(0))?);
            dense = dense.checked_mul(i128::from(count))?;
        }
        let start = self.data.addr() as i128;
        Some(start.checked_add(first.checked_mul(size)?)?..start.checked_add((last.checked_add(1)?).checked_mul(size)?)?)
    }

    /// Returns true if a call may not write to it.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }
}

/// Allocates an entry's outputs: by the framework's allocator, or out of buffers that the caller
/// has.
pub trait OutputAllocator {
    /// Returns memory for a contiguous output, aligned to its element size; it lives at least until
    /// the call ends. Called during the call, once for each fresh output, in any order.
    fn alloc(&mut self, index: usize, dtype: DType, sizes: &[i64]) -> Result<*mut u8, OutputError>;

    /// Reports that output `index` aliases the memory of input `input`, as `view` says. Called
    /// after a call that succeeded.
    fn alias(&mut self, index: usize, input: usize, view: TensorRef<'_>) -> Result<(), OutputError>;

    /// Returns true if outputs are in memory of the device even where all inputs are in that of the
    /// host.
    fn is_on_device(&self) -> bool {
        false
    }
}

/// The reason why an allocator gave no output.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OutputError(pub String);

impl From<OutputError> for Error {
    fn from(error: OutputError) -> Self {
        Error::new(crate::error::code::OUTPUT, "", error.0)
    }
}

/// Returns the bytes of a contiguous tensor; `None` if a size is negative or the product does not
/// fit in 63 bits.
pub fn bytes_of(dtype: DType, sizes: &[i64]) -> Option<usize> {
    if sizes.contains(&0) && sizes.iter().all(|&size| size >= 0) {
        return Some(0);
    }
    let bytes =
        sizes.iter().try_fold(dtype.size() as i64, |product, &size| if size < 0 { None } else { product.checked_mul(size) })?;
    usize::try_from(bytes).ok()
}

/// Returns true if strides describe a row-major contiguous tensor: strides of dimensions of size 1
/// are ignored, and an empty tensor is contiguous.
pub(crate) fn is_contiguous(sizes: &[i64], strides: &[i64]) -> bool {
    if sizes.contains(&0) {
        return true;
    }
    let mut expected = 1_i64;
    for (&size, &stride) in sizes.iter().zip(strides).rev() {
        if size != 1 && stride != expected {
            return false;
        }
        expected = expected.saturating_mul(size);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguity_ignores_ones_and_empty_tensors() {
        assert!(is_contiguous(&[2, 3], &[3, 1]));
        assert!(is_contiguous(&[1, 3], &[99, 1]));
        assert!(is_contiguous(&[2, 0], &[7, 7]));
        assert!(is_contiguous(&[], &[]));
        assert!(!is_contiguous(&[2, 3], &[1, 2]));
        assert!(!is_contiguous(&[2], &[0]));
        assert!(!is_contiguous(&[2, 3], &[-3, 1]));
    }

    #[test]
    fn sizes_that_do_not_fit_have_no_bytes() {
        assert_eq!(bytes_of(DType::F32, &[2, 3]), Some(24));
        assert_eq!(bytes_of(DType::F32, &[]), Some(4));
        assert_eq!(bytes_of(DType::F32, &[0, i64::MAX, i64::MAX]), Some(0));
        assert_eq!(bytes_of(DType::F32, &[-1]), None);
        assert_eq!(bytes_of(DType::F32, &[0, -1]), None);
        assert_eq!(bytes_of(DType::F64, &[1 << 60]), None);
        assert_eq!(bytes_of(DType::I8, &[1 << 32, 1 << 32]), None);
    }
}
