//! Defines a convolution that a library of a GPU may compute in place of a group's kernels.

use crate::DType;

/// `result = activation(convolution(input, filter) + bias)` over two spatial dimensions, with sums
/// in f32 and zeros as padding; filters are not reversed. A convolution over one dimension has a
/// height of 1. Every field is one word, so generated code writes it as an array.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LibraryConvolution {
    /// Written by the runtime: 1 if a library computes the result, after all earlier launches; 0 if
    /// the kernels of the group have to.
    pub is_taken: u64,
    /// Code of the [`DType`] of input and filter: f32, f16 or bf16.
    pub dtype: u64,
    /// Code of the type of the result: that of the input, or f32.
    pub result_dtype: u64,
    /// Code of the type of the bias: that of the input, or f32.
    pub bias_dtype: u64,
    /// Batch, features, height and width of the input.
    pub input_sizes: [i64; 4],
    /// Features of the result, features of the input in each group, height and width.
    pub filter_sizes: [i64; 4],
    /// Height and width of the result, whose batch is the input's, and whose features are the
    /// filter's.
    pub result_sizes: [i64; 2],
    /// Elements between neighbours of each dimension of `input_sizes`.
    pub input_strides: [i64; 4],
    /// The same of the filter.
    pub filter_strides: [i64; 4],
    /// The same of the result: batch, features, height and width.
    pub result_strides: [i64; 4],
    /// Steps of the window, along height and width.
    pub window_strides: [i64; 2],
    /// Elements of the input between neighbours of a window.
    pub dilations: [i64; 2],
    /// Zeros before the input.
    pub padding_low: [i64; 2],
    /// Zeros after it.
    pub padding_high: [i64; 2],
    /// Groups of features: those of the result in one read the input's in the same one.
    pub groups: i64,
    /// Code of the [`Activation`](crate::Activation).
    pub activation: u64,
    /// [`LIBRARY_TF32`](crate::LIBRARY_TF32).
    pub flags: u64,
    /// The number of the first GPU kernel that computes it otherwise, for profiles.
    pub kernel: u64,
    pub input: *const u8,
    pub filter: *const u8,
    /// An element for each feature of the result, added to all of its places; null: nothing is
    /// added.
    pub bias: *const u8,
    pub result: *mut u8,
}

const _: () = assert!(size_of::<LibraryConvolution>() == LibraryConvolution::WORDS * 8, "generated code writes words");

impl LibraryConvolution {
    /// Words of a [`LibraryConvolution`].
    pub const WORDS: usize = 42;
    /// The sizes that generated code states, from `input_sizes` to `groups`.
    pub const SIZES: usize = 31;

    /// Returns the element types of input, result and bias, if a library may have them.
    pub fn element_types(&self) -> Option<[DType; 3]> {
        let [input, result, bias] = [self.dtype, self.result_dtype, self.bias_dtype].map(crate::library::element_type);
        let is_known = |dtype: &DType| Some(*dtype) == input || *dtype == DType::F32;
        Some([input?, result.filter(is_known)?, bias.filter(is_known)?])
    }
}
