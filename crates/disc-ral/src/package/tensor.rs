//! Tensors of a Rust program: borrowed from it, or owned results.

use crate::{
    error::{Error, code},
    host::{Element, HostTensor},
    strided::Strided,
    tensor::{TensorRef, bytes_of},
};
use disc_abi::DType;
use std::{borrow::Cow, fmt, marker::PhantomData, slice};

/// A contiguous tensor in host memory, in row-major order.
///
/// ```
/// # use disc_ral::{DType, Tensor};
/// let tensor = Tensor::new(&[2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// assert_eq!((tensor.dtype(), tensor.sizes()), (DType::F32, &[2, 3][..]));
/// assert_eq!(tensor.elements::<f32>()?[4], 5.0);
/// # Ok::<(), disc_ral::Error>(())
/// ```
pub struct Tensor<'a> {
    dtype: DType,
    sizes: Cow<'a, [i64]>,
    memory: Memory<'a>,
}

enum Memory<'a> {
    Shared(&'a [u8]),
    /// Written to by calls, so that nobody else may look meanwhile: its address and its bytes.
    Exclusive(*mut u8, usize, PhantomData<&'a mut [u8]>),
    Owned(HostTensor),
}

// SAFETY: borrowed memory is that of a slice, which may be sent. It is not `Sync`: a call writes to
// exclusive memory through a shared reference.
unsafe impl Send for Tensor<'_> {}

impl<'a> Tensor<'a> {
    /// Borrows elements as a tensor of these sizes.
    ///
    /// # Errors
    /// Another number of elements than the sizes have.
    pub fn new<T: Element>(sizes: &'a [i64], elements: &'a [T]) -> Result<Self, Error> {
        // SAFETY: the bytes of a slice of numbers.
        let bytes = unsafe { slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) };
        check(T::DTYPE, sizes, bytes.len())?;
        Ok(Self { dtype: T::DTYPE, sizes: sizes.into(), memory: Memory::Shared(bytes) })
    }

    /// Borrows elements that a call may write to: an input that the model changes, or memory for a
    /// result.
    ///
    /// # Errors
    /// As [`Tensor::new`].
    pub fn new_mut<T: Element>(sizes: &'a [i64], elements: &'a mut [T]) -> Result<Self, Error> {
        let bytes = size_of_val(elements);
        check(T::DTYPE, sizes, bytes)?;
        let memory = Memory::Exclusive(elements.as_mut_ptr().cast(), bytes, PhantomData);
        Ok(Self { dtype: T::DTYPE, sizes: sizes.into(), memory })
    }

    /// Borrows bytes as a tensor of any element type; a truth value is one byte, 0 or 1.
    ///
    /// # Errors
    /// Another number of bytes than the sizes have, or memory that is not aligned to an element.
    pub fn from_bytes(dtype: DType, sizes: &'a [i64], bytes: &'a [u8]) -> Result<Self, Error> {
        check(dtype, sizes, bytes.len())?;
        check_alignment(dtype, bytes.as_ptr())?;
        Ok(Self { dtype, sizes: sizes.into(), memory: Memory::Shared(bytes) })
    }

    /// Borrows memory of another language that a call may write to; it need not be initialised
    /// before.
    ///
    /// # Errors
    /// Sizes that are negative or fit into no memory, or memory that is not aligned to an element.
    ///
    /// # Safety
    /// For `'a`, `data` is valid memory of these sizes, and nobody else accesses it.
    pub unsafe fn from_raw_mut(dtype: DType, sizes: &'a [i64], data: *mut u8) -> Result<Self, Error> {
        let bytes = bytes_of(dtype, sizes).ok_or_else(|| bad(format!("no memory has sizes {sizes:?} of {dtype}")))?;
        check_alignment(dtype, data)?;
        Ok(Self { dtype, sizes: sizes.into(), memory: Memory::Exclusive(data, bytes, PhantomData) })
    }

    /// Makes a tensor of zeros that owns its memory.
    ///
    /// # Errors
    /// No memory.
    pub fn zeros(dtype: DType, sizes: &[i64]) -> Result<Tensor<'static>, Error> {
        HostTensor::zeros(dtype, sizes).map(Tensor::from)
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the size of each axis.
    pub fn sizes(&self) -> &[i64] {
        &self.sizes
    }

    /// Returns the elements in row-major order.
    ///
    /// # Errors
    /// The elements are of another type, or the memory is borrowed by [`Tensor::new_mut`]: read the
    /// slice itself.
    pub fn elements<T: Element>(&self) -> Result<&[T], Error> {
        if T::DTYPE != self.dtype {
            return Err(bad(format!("the tensor has element type {}, not {}", self.dtype, T::DTYPE)));
        }
        let bytes = self.bytes()?;
        // SAFETY: initialised, aligned memory of this many elements; `Element` admits every bit
        // pattern.
        Ok(unsafe { slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) })
    }

    /// Returns the elements as bytes.
    ///
    /// # Errors
    /// The memory is borrowed by [`Tensor::new_mut`].
    pub fn bytes(&self) -> Result<&[u8], Error> {
        match &self.memory {
            Memory::Shared(bytes) => Ok(bytes),
            Memory::Owned(tensor) => Ok(tensor.bytes()),
            Memory::Exclusive(..) => Err(bad("the tensor borrows memory to write to: read the slice itself".into())),
        }
    }

    /// Returns a tensor that owns its memory: this one, or a copy if it borrows.
    ///
    /// # Errors
    /// No memory.
    pub fn into_owned(self) -> Result<Tensor<'static>, Error> {
        match self.memory {
            Memory::Owned(tensor) => Ok(tensor.into()),
            _ => Ok(Strided::of(&self.as_input()).to_contiguous()?.into()),
        }
    }

    /// Borrows it as the input of a call.
    pub(super) fn as_input(&self) -> TensorRef<'_> {
        let (data, is_written) = match &self.memory {
            Memory::Shared(bytes) => (bytes.as_ptr().cast_mut(), false),
            Memory::Owned(tensor) => (tensor.bytes().as_ptr().cast_mut(), false),
            Memory::Exclusive(data, ..) => (*data, true),
        };
        // SAFETY: memory of these sizes, borrowed with `self`; it is written to only if it was
        // borrowed for that.
        let tensor = unsafe { TensorRef::from_raw(data.cast(), self.dtype, &self.sizes) };
        if is_written { tensor.writable() } else { tensor }
    }

    /// Returns address and bytes of memory for a result; `None` if it may not be written to.
    pub(super) fn memory_mut(&mut self) -> Option<(*mut u8, usize)> {
        match &mut self.memory {
            Memory::Shared(_) => None,
            Memory::Exclusive(data, bytes, _) => Some((*data, *bytes)),
            Memory::Owned(tensor) => Some((tensor.bytes_mut().as_mut_ptr(), tensor.bytes().len())),
        }
    }

    /// Gives the tensor the sizes of a result that was written to its memory.
    pub(super) fn set_sizes(&mut self, sizes: &[i64]) {
        if *self.sizes != *sizes {
            self.sizes = sizes.to_vec().into();
        }
    }
}

impl From<HostTensor> for Tensor<'static> {
    fn from(tensor: HostTensor) -> Self {
        Self { dtype: tensor.dtype(), sizes: tensor.sizes().to_vec().into(), memory: Memory::Owned(tensor) }
    }
}

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({} {:?})", self.dtype, self.sizes)
    }
}

fn check(dtype: DType, sizes: &[i64], bytes: usize) -> Result<(), Error> {
    if bytes_of(dtype, sizes) == Some(bytes) {
        return Ok(());
    }
    Err(bad(format!("{bytes} bytes for a tensor of {dtype} of sizes {sizes:?}")))
}

fn check_alignment(dtype: DType, data: *const u8) -> Result<(), Error> {
    if data.addr().is_multiple_of(dtype.size()) {
        return Ok(());
    }
    Err(bad(format!("the memory of a tensor of {dtype} is aligned to {} bytes", dtype.size())))
}

fn bad(message: String) -> Error {
    Error::new(code::BAD_INPUT, "", message)
}
