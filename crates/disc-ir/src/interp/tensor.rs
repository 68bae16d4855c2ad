//! Holds tensors with their elements, as inputs and outputs of the interpreter.
//!
//! Invariant: `bytes` holds the elements in row-major order, little-endian; a truth value is one
//! byte, 0 or 1.
use super::scalar::{Scalar, decode, encode, saturate};
use crate::{
    diag::{Code, Diagnostic},
    literal::Literal,
    types::DType,
};
use std::fmt;

/// A dense tensor with its elements.
#[derive(Clone, PartialEq, Eq)]
pub struct Tensor {
    dtype: DType,
    dims: Vec<i64>,
    bytes: Vec<u8>,
}

/// A Rust type that is an element type.
pub trait Element: Copy {
    const DTYPE: DType;
    fn write(self, bytes: &mut Vec<u8>);
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! element {
    ($($Rust:ty => $dtype:ident),* $(,)?) => { $(
        impl Element for $Rust {
            const DTYPE: DType = DType::$dtype;
            fn write(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("one element"))
            }
        }
    )* };
}

element! {
    half::f16 => F16, half::bf16 => BF16, f32 => F32, f64 => F64,
    i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
}

impl Element for bool {
    const DTYPE: DType = DType::I1;
    fn write(self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self));
    }
    fn read(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }
}

impl Tensor {
    /// Makes a tensor of these bytes.
    ///
    /// # Errors
    /// A negative size, or another number of bytes than the sizes give.
    pub fn new(dtype: DType, dims: Vec<i64>, bytes: Vec<u8>) -> Result<Self, Diagnostic> {
        let wanted = count(&dims).and_then(|n| n.checked_mul(dtype.size()));
        if wanted != Some(bytes.len()) {
            let message = format!("{} bytes for a tensor of {dtype} with sizes {dims:?}", bytes.len());
            return Err(Diagnostic::new(Code::E0601, message));
        }
        Ok(Self { dtype, dims, bytes })
    }

    /// Makes a tensor of these elements.
    ///
    /// # Errors
    /// Another number of elements than the sizes give.
    pub fn from_slice<T: Element>(dims: &[i64], elements: &[T]) -> Result<Self, Diagnostic> {
        let mut bytes = Vec::with_capacity(std::mem::size_of_val(elements));
        elements.iter().for_each(|element| element.write(&mut bytes));
        Self::new(T::DTYPE, dims.to_vec(), bytes)
    }

    /// A tensor of rank 0.
    pub fn scalar<T: Element>(element: T) -> Self {
        let mut bytes = Vec::new();
        element.write(&mut bytes);
        Self { dtype: T::DTYPE, dims: Vec::new(), bytes }
    }

    /// Makes a tensor of floats, rounded (for integers, truncated and saturated) to `dtype`.
    ///
    /// # Errors
    /// Another number of elements than the sizes give.
    pub fn from_f64s(dtype: DType, dims: &[i64], elements: &[f64]) -> Result<Self, Diagnostic> {
        let mut bytes = vec![0; elements.len() * dtype.size()];
        let chunks = bytes.chunks_exact_mut(dtype.size());
        chunks.zip(elements).for_each(|(chunk, &element)| encode(dtype, saturate(dtype, element), chunk));
        Self::new(dtype, dims.to_vec(), bytes)
    }

    /// Makes a tensor of integers, wrapped (for floats, rounded) to `dtype`.
    ///
    /// # Errors
    /// Another number of elements than the sizes give.
    pub fn from_i64s(dtype: DType, dims: &[i64], elements: &[i64]) -> Result<Self, Diagnostic> {
        let mut bytes = vec![0; elements.len() * dtype.size()];
        let chunks = bytes.chunks_exact_mut(dtype.size());
        chunks.zip(elements).for_each(|(chunk, &element)| encode(dtype, Scalar::Int(element.into()), chunk));
        Self::new(dtype, dims.to_vec(), bytes)
    }

    /// All elements zero. The sizes are >= 0 and their product fits.
    pub(super) fn zeros(dtype: DType, dims: Vec<i64>) -> Self {
        let bytes = vec![0; count(&dims).expect("sizes that were checked") * dtype.size()];
        Self { dtype, dims, bytes }
    }

    /// One element per index, from `element`.
    pub(super) fn from_fn(dtype: DType, dims: Vec<i64>, mut element: impl FnMut(usize) -> Scalar) -> Self {
        let mut tensor = Self::zeros(dtype, dims);
        (0..tensor.len()).for_each(|i| tensor.set(i, element(i)));
        tensor
    }

    pub(super) fn from_literal(literal: &Literal, dims: Vec<i64>) -> Self {
        let size = literal.dtype.size();
        let mut tensor = Self::zeros(literal.dtype, dims);
        for (i, chunk) in tensor.bytes.chunks_exact_mut(size).enumerate() {
            let at = if literal.splat { 0 } else { i };
            chunk.copy_from_slice(&literal.bytes[at * size..(at + 1) * size]);
        }
        tensor
    }

    pub fn dtype(&self) -> DType {
        self.dtype
    }

    pub fn dims(&self) -> &[i64] {
        &self.dims
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The elements, if this is their type.
    pub fn to_vec<T: Element>(&self) -> Option<Vec<T>> {
        (T::DTYPE == self.dtype).then(|| self.bytes.chunks_exact(self.dtype.size()).map(T::read).collect())
    }

    /// The elements as floats; integers beyond 53 bits lose digits.
    pub fn to_f64s(&self) -> Vec<f64> {
        (0..self.len()).map(|i| self.at(i).as_f64()).collect()
    }

    /// The elements as integers: floats are truncated and saturate, a `u64` beyond `i64::MAX` keeps
    /// its bits.
    pub fn to_i64s(&self) -> Vec<i64> {
        let of = |scalar: Scalar| match scalar {
            Scalar::Float(value) => value as i64,
            Scalar::Int(value) => value as i64,
        };
        (0..self.len()).map(|i| of(self.at(i))).collect()
    }

    pub(super) fn at(&self, index: usize) -> Scalar {
        decode(self.dtype, self.element(index))
    }

    /// Stores an element, rounded or wrapped.
    pub(super) fn set(&mut self, index: usize, value: Scalar) {
        let size = self.dtype.size();
        encode(self.dtype, value, &mut self.bytes[index * size..(index + 1) * size]);
    }

    pub(super) fn element(&self, index: usize) -> &[u8] {
        let size = self.dtype.size();
        &self.bytes[index * size..(index + 1) * size]
    }

    pub(super) fn set_element(&mut self, index: usize, bytes: &[u8]) {
        let size = self.dtype.size();
        self.bytes[index * size..(index + 1) * size].copy_from_slice(bytes);
    }

    /// The same bytes under another type with elements of the same size, or in another shape.
    pub(super) fn recast(self, dtype: DType, dims: Vec<i64>) -> Self {
        Self { dtype, dims, bytes: self.bytes }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: String = self.dims.iter().map(|d| format!("{d}x")).collect();
        write!(f, "{sizes}{} ", self.dtype)?;
        match self.dtype.is_float() {
            true => f.debug_list().entries(self.to_f64s()).finish(),
            false => f.debug_list().entries(self.to_i64s()).finish(),
        }
    }
}

/// Returns the number of elements of these sizes; `None` if one is negative, or if there are too
/// many.
pub(crate) fn count(dims: &[i64]) -> Option<usize> {
    if dims.contains(&0) {
        return dims.iter().all(|&d| d >= 0).then_some(0);
    }
    dims.iter().try_fold(1usize, |n, &d| n.checked_mul(usize::try_from(d).ok()?))
}
