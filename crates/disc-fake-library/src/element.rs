//! Reads and writes elements of the types that the libraries have here.
use half::{bf16, f16};

/// The type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    F32,
    F16,
    BF16,
}

impl Element {
    /// Returns the bytes of an element.
    pub fn bytes(self) -> usize {
        if self == Self::F32 { 4 } else { 2 }
    }

    /// Returns the numbers that bytes hold.
    pub fn read(self, bytes: &[u8]) -> Vec<f32> {
        let halves = || bytes.as_chunks::<2>().0.iter();
        match self {
            Self::F32 => bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            Self::F16 => halves().map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect(),
            Self::BF16 => halves().map(|bytes| bf16::from_le_bytes(*bytes).to_f32()).collect(),
        }
    }

    /// Returns the bytes that hold numbers, each rounded to the nearest one.
    pub fn written(self, values: &[f32]) -> Vec<u8> {
        match self {
            Self::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Self::F16 => values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect(),
            Self::BF16 => values.iter().flat_map(|&value| bf16::from_f32(value).to_le_bytes()).collect(),
        }
    }
}
