//! Owns tensors in host memory, for Rust programs and tests that have no framework.

use crate::{
    device::Block,
    devices::host_device,
    error::{AllocError, Error},
    tensor::{OutputAllocator, OutputError, TensorRef, bytes_of},
};
use disc_abi::DType;
use std::slice;

/// A contiguous tensor in host memory, aligned to [`disc_abi::ALIGN`].
pub struct HostTensor {
    dtype: DType,
    sizes: Vec<i64>,
    memory: Block,
    bytes: usize,
}

/// A Rust type that is one element of a dtype.
///
/// # Safety
/// The type has the size and alignment of `DTYPE`, and every bit pattern is a value.
pub unsafe trait Element: Copy {
    /// The element type.
    const DTYPE: DType;
}

macro_rules! element {
    ($($rust:ty => $dtype:ident),*) => {$(
        // SAFETY: a primitive number of this size.
        unsafe impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}
element!(f32 => F32, f64 => F64, i8 => I8, u8 => U8, i16 => I16, u16 => U16, i32 => I32, u32 => U32, i64 => I64, u64 => U64);

impl HostTensor {
    /// Makes a tensor of zeros.
    pub fn zeros(dtype: DType, sizes: &[i64]) -> Result<Self, Error> {
        let fail = |cause| Error::out_of_memory("a host tensor", format_args!("{sizes:?} {dtype}"), &cause);
        let bytes = bytes_of(dtype, sizes).ok_or(AllocError::Size).map_err(fail)?;
        let memory = Block::new(&host_device(), bytes).map_err(fail)?;
        // SAFETY: fresh memory of this size.
        unsafe { memory.at().write_bytes(0, memory.bytes()) };
        Ok(Self { dtype, sizes: sizes.to_vec(), memory, bytes })
    }

    /// Makes a tensor of these elements, in row-major order; their number must be that of `sizes`.
    pub fn new<T: Element>(sizes: &[i64], elements: &[T]) -> Result<Self, Error> {
        let mut tensor = Self::zeros(T::DTYPE, sizes)?;
        if tensor.bytes != size_of_val(elements) {
            let message = format!("{} elements for a tensor of sizes {sizes:?}", elements.len());
            return Err(Error::new(crate::error::code::BAD_INPUT, "a host tensor", message));
        }
        tensor.elements_mut()?.copy_from_slice(elements);
        Ok(tensor)
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the size of each axis.
    pub fn sizes(&self) -> &[i64] {
        &self.sizes
    }

    /// Returns the elements as bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: initialised memory of this size, borrowed with the tensor.
        unsafe { slice::from_raw_parts(self.memory.at(), self.bytes) }
    }

    /// Returns the elements as bytes to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.memory.at(), self.bytes) }
    }

    /// Returns the elements in row-major order; an error for another dtype.
    pub fn elements<T: Element>(&self) -> Result<&[T], Error> {
        self.check_dtype::<T>()?;
        // SAFETY: initialised, aligned memory of this many elements; `Element` admits every bit
        // pattern.
        Ok(unsafe { slice::from_raw_parts(self.memory.at().cast(), self.bytes / size_of::<T>()) })
    }

    /// Returns the elements in row-major order to be written; an error for another dtype.
    pub fn elements_mut<T: Element>(&mut self) -> Result<&mut [T], Error> {
        self.check_dtype::<T>()?;
        // SAFETY: as above, borrowed mutably.
        Ok(unsafe { slice::from_raw_parts_mut(self.memory.at().cast(), self.bytes / size_of::<T>()) })
    }

    /// Borrows it as a read-only input.
    pub fn as_input(&self) -> TensorRef<'_> {
        // SAFETY: the memory is borrowed with the result, and as read-only.
        unsafe { TensorRef::from_raw(self.memory.at().cast(), self.dtype, &self.sizes) }
    }

    /// Borrows it as an input that the entry may write into.
    pub fn as_written_input(&mut self) -> TensorRef<'_> {
        // SAFETY: the memory is borrowed mutably with the result.
        unsafe { TensorRef::from_raw(self.memory.at().cast(), self.dtype, &self.sizes) }.writable()
    }

    /// Makes it a tensor of this type if its memory suffices, with undefined elements.
    fn resize(&mut self, dtype: DType, sizes: &[i64]) -> bool {
        let Some(bytes) = bytes_of(dtype, sizes).filter(|&bytes| bytes <= self.memory.bytes()) else { return false };
        self.dtype = dtype;
        self.bytes = bytes;
        self.sizes.clear();
        self.sizes.extend_from_slice(sizes);
        true
    }

    fn check_dtype<T: Element>(&self) -> Result<(), Error> {
        if T::DTYPE == self.dtype {
            return Ok(());
        }
        let message = format!("the tensor has dtype {}, not {}", self.dtype, T::DTYPE);
        Err(Error::new(crate::error::code::BAD_INPUT, "a host tensor", message))
    }
}

/// Outputs in host memory, in the order of the entry. Memory is reused from call to call.
#[derive(Default)]
pub struct HostOutputs {
    outputs: Vec<Option<HostOutput>>,
}

/// One output of a call.
pub enum HostOutput {
    /// A tensor that the call made.
    Fresh(HostTensor),
    /// A view of this input's memory: its address, its sizes, and its strides unless
    /// contiguous.
    Alias {
        /// The position of the input.
        input: usize,
        /// The element type.
        dtype: DType,
        /// The first element.
        data: *mut u8,
        /// The size of each axis.
        sizes: Vec<i64>,
        /// The stride of each axis; `None` if contiguous.
        strides: Option<Vec<i64>>,
    },
}

impl HostOutputs {
    /// Returns no outputs; a call makes them.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the outputs; `None` for one that was not made (the call failed).
    pub fn take(&mut self) -> Vec<Option<HostOutput>> {
        std::mem::take(&mut self.outputs)
    }

    /// Returns output `index`, if it owns its memory.
    pub fn tensor(&self, index: usize) -> Option<&HostTensor> {
        match self.outputs.get(index) {
            Some(Some(HostOutput::Fresh(tensor))) => Some(tensor),
            _ => None,
        }
    }

    /// Returns output `index`.
    pub fn get(&self, index: usize) -> Option<&HostOutput> {
        self.outputs.get(index)?.as_ref()
    }

    fn put(&mut self, index: usize, output: HostOutput) {
        if self.outputs.len() <= index {
            self.outputs.resize_with(index + 1, || None);
        }
        self.outputs[index] = Some(output);
    }
}

impl OutputAllocator for HostOutputs {
    fn alloc(&mut self, index: usize, dtype: DType, sizes: &[i64]) -> Result<*mut u8, OutputError> {
        if let Some(Some(HostOutput::Fresh(tensor))) = self.outputs.get_mut(index)
            && tensor.resize(dtype, sizes)
        {
            return Ok(tensor.memory.at());
        }
        let tensor = HostTensor::zeros(dtype, sizes).map_err(|error| OutputError(error.message))?;
        let data = tensor.memory.at();
        self.put(index, HostOutput::Fresh(tensor));
        Ok(data)
    }

    fn alias(&mut self, index: usize, input: usize, view: TensorRef<'_>) -> Result<(), OutputError> {
        let strides = view.given_strides().map(<[i64]>::to_vec);
        self.put(
            index,
            HostOutput::Alias { input, dtype: view.dtype(), data: view.data().cast(), sizes: view.sizes().to_vec(), strides },
        );
        Ok(())
    }
}
