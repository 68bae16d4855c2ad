//! Reads and writes elements of the types that the library has here.
use half::{bf16, f16};

/// The type of elements, by the numbers of `cudaDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F32 = 0,
    F16 = 2,
    BF16 = 14,
}

impl Element {
    pub(crate) fn of(number: i32) -> Option<Self> {
        [Self::F32, Self::F16, Self::BF16].into_iter().find(|&element| element as i32 == number)
    }

    pub(crate) fn bytes(self) -> usize {
        if self == Self::F32 { 4 } else { 2 }
    }

    pub(crate) fn read(self, bytes: &[u8]) -> Vec<f32> {
        let halves = || bytes.as_chunks::<2>().0.iter();
        match self {
            Self::F32 => bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            Self::F16 => halves().map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect(),
            Self::BF16 => halves().map(|bytes| bf16::from_le_bytes(*bytes).to_f32()).collect(),
        }
    }

    pub(crate) fn written(self, values: &[f32]) -> Vec<u8> {
        match self {
            Self::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Self::F16 => values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect(),
            Self::BF16 => values.iter().flat_map(|&value| bf16::from_f32(value).to_le_bytes()).collect(),
        }
    }
}
