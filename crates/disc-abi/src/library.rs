//! Defines a GEMM that a library of a GPU may compute in place of a group's kernels.

use crate::DType;

/// `result[b] = activation(left[b] * right[b] + bias)` for each of `batches` matrices, with sums in
/// f32. Every field is one word, so generated code writes it as an array.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LibraryGemm {
    /// Written by the runtime: 1 if a library computes the result, after all earlier launches; 0 if
    /// the kernels of the group have to.
    pub is_taken: u64,
    /// Code of the [`DType`] of operands, bias and result: f32, f16 or bf16.
    pub dtype: u64,
    /// The number of matrices.
    pub batches: i64,
    /// `[m, n, k]`: rows, columns, and terms of each sum.
    pub sizes: [i64; 3],
    /// Strides of `left` in elements: between matrices, rows and columns. A stride of matrices may
    /// be 0: they share one.
    pub left_strides: [i64; 3],
    /// The same of `right`.
    pub right_strides: [i64; 3],
    /// Code of the [`Activation`].
    pub activation: u64,
    /// [`LIBRARY_TF32`].
    pub flags: u64,
    /// The number of the first GPU kernel that computes it otherwise, for profiles.
    pub kernel: u64,
    pub left: *const u8,
    pub right: *const u8,
    /// As many elements as there are columns, added to each row; null: nothing is added.
    pub bias: *const u8,
    /// Contiguous.
    pub result: *mut u8,
}

/// Operands of f32 may be rounded to tf32, which has 10 bits after the point.
pub const LIBRARY_TF32: u64 = 1;

/// A function of each sum, once the bias is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// The sum itself.
    #[default]
    None,
    /// `max(x, 0)`.
    Relu,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))`.
    GeluTanh,
}

impl Activation {
    /// Every function, in the order of their codes.
    pub const ALL: [Self; 3] = [Self::None, Self::Relu, Self::GeluTanh];

    /// Returns the number of the function in [`LibraryGemm::activation`].
    pub const fn code(self) -> u64 {
        self as u64
    }

    /// Returns the function of a number.
    pub fn from_code(code: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|activation| activation.code() == code)
    }

    /// Returns the name in a host program.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Relu => "relu",
            Self::GeluTanh => "gelu_tanh",
        }
    }
}

const _: () = assert!(size_of::<LibraryGemm>() == LibraryGemm::WORDS * 8, "generated code writes words");

impl LibraryGemm {
    /// Words of a [`LibraryGemm`].
    pub const WORDS: usize = 19;

    /// Returns the element type, if a library may have it.
    pub fn element_type(&self) -> Option<DType> {
        element_type(self.dtype)
    }
}

/// Returns the element type of a code, if a library may have it.
pub(crate) fn element_type(code: u64) -> Option<DType> {
    let dtype = DType::from_code(u8::try_from(code).ok()?)?;
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16).then_some(dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_those_of_one_function() {
        for activation in Activation::ALL {
            assert_eq!(Activation::from_code(activation.code()), Some(activation));
            assert_eq!(Activation::ALL.iter().filter(|other| other.name() == activation.name()).count(), 1);
        }
        assert_eq!(Activation::from_code(3), None);
    }
}
