//! Describes the convolutions that are computed alike, and says which of them the library may
//! compute.
//!
//! Invariant: the answer depends only on sizes, strides and alignment: it is the same in every
//! process.
use disc_abi::{Activation, DType, LIBRARY_TF32, LibraryConvolution};

/// With at most so many places of the result, in all batches together, generated kernels read the
/// filter once, as fast as memory gives it.
const FEW: i64 = 8;
/// Alignments above this one make no difference to engines.
const MOST_ALIGNMENT: usize = 16;

/// Sizes and strides of a tensor: batch, features, height and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tensor {
    pub(super) sizes: [i64; 4],
    pub(super) strides: [i64; 4],
}

impl Tensor {
    /// Returns how many elements there are from the first to the last one; `None` if strides or
    /// sizes are none of memory, or the positions have more than 32 bits: engines count in 32.
    fn span(&self) -> Option<i64> {
        let fits = |&size: &i64| (1..=i64::from(i32::MAX)).contains(&size);
        if !self.sizes.iter().chain(&self.strides).all(fits) {
            return None;
        }
        let last = self.sizes.iter().zip(&self.strides).try_fold(0i64, |last, (size, stride)| {
            let along = (size - 1).checked_mul(*stride)?;
            last.checked_add(along)
        });
        last?.checked_add(1).filter(fits)
    }
}

/// The key of convolutions that one plan computes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::cuda) struct Shape {
    /// Codes of the element types of input and filter, of the result, and of the bias.
    pub(super) dtypes: [u8; 3],
    pub(super) input: Tensor,
    pub(super) filter: Tensor,
    pub(super) result: Tensor,
    pub(super) window_strides: [i64; 2],
    pub(super) dilations: [i64; 2],
    pub(super) padding_low: [i64; 2],
    pub(super) padding_high: [i64; 2],
    pub(super) activation: Activation,
    pub(super) has_bias: bool,
    pub(super) allows_tf32: bool,
    /// The largest power of two that divides all addresses, at most [`MOST_ALIGNMENT`].
    pub(super) alignment: usize,
}

impl Shape {
    /// Returns the shape of a convolution; `None` if kernels compute it.
    pub(in crate::cuda) fn of(convolution: &LibraryConvolution) -> Option<Self> {
        let c = convolution;
        let dtypes = c.element_types()?;
        let dtype = dtypes[0];
        let ([batch, channels, ..], [features, in_group, ..], [height, width]) = (c.input_sizes, c.filter_sizes, c.result_sizes);
        let result = Tensor { sizes: [batch, features, height, width], strides: c.result_strides };
        let mut shape = Self {
            dtypes: dtypes.map(DType::code),
            input: Tensor { sizes: c.input_sizes, strides: c.input_strides },
            filter: Tensor { sizes: c.filter_sizes, strides: c.filter_strides },
            result,
            window_strides: c.window_strides,
            dilations: c.dilations,
            padding_low: c.padding_low,
            padding_high: c.padding_high,
            activation: Activation::from_code(c.activation).filter(|&activation| activation != Activation::GeluTanh)?,
            has_bias: !c.bias.is_null(),
            allows_tf32: c.flags & LIBRARY_TF32 != 0 && dtype == DType::F32,
            alignment: alignment(c),
        };
        let is_apart = shape.is_apart(c, dtypes.map(DType::size))?;
        let in_groups = c.groups >= 1 && in_group.checked_mul(c.groups) == Some(channels) && features % c.groups == 0;
        let places = batch.checked_mul(height)?.checked_mul(width)?;
        let has_windows = (0..2).all(|axis| shape.even_padding(axis).is_some());
        (is_apart && in_groups && places > FEW && has_windows).then_some(shape)
    }

    /// Makes the padding after an axis the one before it, where as many windows fit: engines pad
    /// both sides alike. `None` if the sizes do not belong together.
    fn even_padding(&mut self, axis: usize) -> Option<()> {
        let (size, window, wanted) = (self.input.sizes[2 + axis], self.filter.sizes[2 + axis], self.result.sizes[2 + axis]);
        let (stride, dilation) = (self.window_strides[axis], self.dilations[axis]);
        let (low, high) = (self.padding_low[axis], self.padding_high[axis]);
        let fits = |number: i64, least: i64| (least..=i64::from(i32::MAX)).contains(&number);
        if !fits(stride, 1) || !fits(dilation, 1) || !fits(low, 0) || !fits(high, 0) {
            return None;
        }
        let count = |high: i64| {
            let room = size + low + high - ((window - 1).checked_mul(dilation)? + 1);
            (room >= 0).then(|| room / stride + 1)
        };
        if count(high)? != wanted {
            return None;
        }
        if count(low) == Some(wanted) {
            self.padding_high[axis] = low;
        }
        Some(())
    }

    /// Returns the bias as a tensor that every place of a result reads.
    pub(super) fn bias(&self) -> Tensor {
        let features = self.result.sizes[1];
        Tensor { sizes: [1, features, 1, 1], strides: [features, 1, features, features] }
    }

    /// Returns true if the result has memory of its own; `None` if a tensor is none of memory.
    fn is_apart(&self, convolution: &LibraryConvolution, [element, of_result, of_bias]: [usize; 3]) -> Option<bool> {
        let bytes = |count: i64, element: usize| usize::try_from(count).ok()?.checked_mul(element);
        let bias = if self.has_bias { bytes(self.result.sizes[1], of_bias)? } else { 0 };
        let read = [
            (convolution.input, bytes(self.input.span()?, element)?),
            (convolution.filter, bytes(self.filter.span()?, element)?),
            (convolution.bias, bias),
        ];
        let (start, length) = (convolution.result.addr(), bytes(self.result.span()?, of_result)?);
        let end = start.checked_add(length)?;
        read.into_iter().try_fold(true, |apart, (at, bytes)| {
            let is_empty = bytes == 0;
            Some(apart && (is_empty || at.addr().checked_add(bytes)? <= start || end <= at.addr()))
        })
    }
}

fn alignment(convolution: &LibraryConvolution) -> usize {
    let LibraryConvolution { input, filter, bias, result, .. } = convolution;
    let addresses = [*input, *filter, *bias, result.cast_const()].map(<*const u8>::addr);
    let bits = addresses.into_iter().fold(MOST_ALIGNMENT, |all, address| all | address);
    bits & bits.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    fn at(address: usize) -> *mut u8 {
        ptr::without_provenance_mut(address)
    }

    /// A window of 3 by 3 elements over 2 images of 4 features and 8 by 8 elements.
    fn plain() -> LibraryConvolution {
        LibraryConvolution {
            is_taken: 0,
            dtype: DType::F16.code().into(),
            result_dtype: DType::F16.code().into(),
            bias_dtype: DType::F16.code().into(),
            input_sizes: [2, 4, 8, 8],
            filter_sizes: [6, 4, 3, 3],
            result_sizes: [8, 8],
            input_strides: [256, 64, 8, 1],
            filter_strides: [36, 9, 3, 1],
            result_strides: [384, 64, 8, 1],
            window_strides: [1, 1],
            dilations: [1, 1],
            padding_low: [1, 1],
            padding_high: [1, 1],
            groups: 1,
            activation: 0,
            flags: 0,
            kernel: 0,
            input: at(0x1000),
            filter: at(0x3000),
            bias: ptr::null(),
            result: at(0x10_000),
        }
    }

    #[test]
    fn few_places_are_left_to_kernels() {
        let of = |batch, size| {
            let sizes = [batch, 4, size, size];
            Shape::of(&LibraryConvolution { input_sizes: sizes, result_sizes: [size, size], ..plain() }).is_some()
        };
        assert!(of(2, 8) && of(1, 3));
        assert!(!of(2, 2) && !of(1, 1) && !of(0, 8) && !of(2, 0) && !of(1 << 40, 8));
    }

    #[test]
    fn positions_have_32_bits() {
        let of = |batch| {
            let large = LibraryConvolution { input_sizes: [batch, 4, 8, 8], filter: at(1 << 40), result: at(1 << 41), ..plain() };
            Shape::of(&large).is_some()
        };
        // The result has 384 elements for each of the batch.
        assert!(of(5_592_405) && !of(5_592_406));
    }

    #[test]
    fn sizes_have_to_belong_together() {
        let is_taken = |change: fn(&mut LibraryConvolution)| {
            let mut convolution = plain();
            change(&mut convolution);
            Shape::of(&convolution).is_some()
        };
        assert!(is_taken(|_| {}));
        assert!(!is_taken(|c| c.result_sizes = [8, 7]));
        assert!(!is_taken(|c| c.groups = 2));
        assert!(is_taken(|c| (c.groups, c.filter_sizes) = (2, [6, 2, 3, 3])));
        assert!(!is_taken(|c| (c.groups, c.filter_sizes) = (4, [6, 1, 3, 3])));
        assert!(!is_taken(|c| c.input_strides[2] = 0));
        assert!(!is_taken(|c| c.padding_low[0] = -1));
        assert!(!is_taken(|c| c.activation = Activation::GeluTanh.code()));
        assert!(!is_taken(|c| c.dtype = DType::F64.code().into()));
        assert!(is_taken(|c| (c.result_dtype, c.bias_dtype) = (DType::F32.code().into(), DType::F32.code().into())));
        assert!(!is_taken(|c| c.result_dtype = DType::BF16.code().into()));
    }

    #[test]
    fn padding_behind_is_that_in_front_where_as_many_windows_fit() {
        let of = |low: [i64; 2], high: [i64; 2], result: [i64; 2]| {
            let strided = LibraryConvolution {
                window_strides: [2, 2],
                padding_low: low,
                padding_high: high,
                result_sizes: result,
                result_strides: [96, 16, result[1], 1],
                ..plain()
            };
            Shape::of(&strided).map(|shape| (shape.padding_low, shape.padding_high))
        };
        // 8 elements, windows of 3 at steps of 2: padding of 0 and 1 makes 4, and so does 1 and 0.
        assert_eq!(of([1, 1], [0, 0], [4, 4]), Some(([1, 1], [1, 1])));
        assert_eq!(of([0, 0], [1, 1], [4, 4]), Some(([0, 0], [1, 1])));
    }

    #[test]
    fn a_result_over_what_is_read_is_left_to_kernels() {
        let of = |result| Shape::of(&LibraryConvolution { result: at(result), ..plain() }).is_some();
        // The input has 1,024 bytes from 0x1000 on, the filter 432 from 0x3000 on.
        assert!(of(0x1400) && of(0x4000));
        assert!(!of(0x1000) && !of(0x13FE) && !of(0x3000) && !of(0x2FFE));
    }

    #[test]
    fn the_alignment_is_that_of_every_address() {
        let of = |bias, input| Shape::of(&LibraryConvolution { bias: at(bias), input: at(input), ..plain() }).unwrap().alignment;
        assert_eq!([of(0, 0x1000), of(0x5008, 0x1000), of(0x5008, 0x1002)], [16, 8, 2]);
    }
}
