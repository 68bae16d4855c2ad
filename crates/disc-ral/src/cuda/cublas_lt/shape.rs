//! Describes the matmuls that are computed alike, and says which of them the library computes.
//!
//! Invariant: the answer depends only on sizes, strides and alignment: it is the same in every
//! process.
use crate::gemm::{Matrix, matrix};
use disc_abi::{Activation, DType, LIBRARY_TF32, LibraryGemm};

/// With at most so many rows or columns the generated kernels read the other operand once, as fast
/// as memory gives it (`schedule/gpu/matmul/few_rows.rs` of disc-codegen).
const FEW: i64 = 8;
/// Alignments above this one make no difference to algorithms.
const MOST_ALIGNMENT: usize = 16;

/// An operand: matrices in rows, or in columns if `transposed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Operand {
    pub(super) transposed: bool,
    /// Elements between rows, or columns.
    pub(super) stride: i64,
    /// Elements between matrices; 0 if there is one.
    pub(super) batch: i64,
}

/// The key of matmuls that one algorithm computes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::cuda) struct Shape {
    /// Code of the element type.
    pub(super) dtype: u8,
    pub(super) batches: i64,
    /// Rows, columns, terms of each sum.
    pub(super) sizes: [i64; 3],
    pub(super) left: Operand,
    pub(super) right: Operand,
    pub(super) activation: Activation,
    pub(super) has_bias: bool,
    pub(super) allows_tf32: bool,
    /// The largest power of two that divides all addresses, at most [`MOST_ALIGNMENT`].
    pub(super) alignment: usize,
}

impl Shape {
    /// Returns the shape of a matmul; `None` if kernels compute it.
    pub(in crate::cuda) fn of(gemm: &LibraryGemm) -> Option<Self> {
        let dtype = gemm.element_type()?;
        let [rows, columns, sums] = gemm.sizes;
        let fits = |size: i64| (1..=i64::from(i32::MAX)).contains(&size);
        if ![rows, columns, sums, gemm.batches].into_iter().all(fits) || rows <= FEW || columns <= FEW {
            return None;
        }
        let operand = |[batch, row, column]: [i64; 3], sizes: [i64; 2]| {
            let Matrix { transposed, stride, .. } = matrix(std::ptr::null(), sizes, [row, column])?;
            let batch = if gemm.batches > 1 { batch } else { 0 };
            (batch >= 0 && fits(stride)).then_some(Operand { transposed, stride, batch })
        };
        let left = operand(gemm.left_strides, [rows, sums])?;
        let right = operand(gemm.right_strides, [sums, columns])?;
        let shape = Self {
            dtype: dtype.code(),
            batches: gemm.batches,
            sizes: gemm.sizes,
            left,
            right,
            activation: Activation::from_code(gemm.activation)?,
            has_bias: !gemm.bias.is_null(),
            allows_tf32: gemm.flags & LIBRARY_TF32 != 0 && dtype == DType::F32,
            alignment: alignment(gemm),
        };
        shape.is_apart(gemm, dtype.size() as i64)?.then_some(shape)
    }

    /// Returns true if the result has memory of its own; `None` if its bytes cannot be counted.
    fn is_apart(&self, gemm: &LibraryGemm, element: i64) -> Option<bool> {
        let [rows, columns, sums] = self.sizes;
        let last = |operand: Operand, [rows, columns]: [i64; 2]| {
            let [lines, length] = if operand.transposed { [columns, rows] } else { [rows, columns] };
            let within = (lines - 1).checked_mul(operand.stride)?.checked_add(length)?;
            (self.batches - 1).checked_mul(operand.batch)?.checked_add(within)
        };
        let result = self.batches.checked_mul(rows)?.checked_mul(columns)?;
        let parts = [(gemm.left, last(self.left, [rows, sums])?), (gemm.right, last(self.right, [sums, columns])?)];
        let bias = self.has_bias.then_some((gemm.bias, columns));
        let (start, end) = (gemm.result.addr(), ends(gemm.result, result, element)?);
        parts
            .into_iter()
            .chain(bias)
            .try_fold(true, |apart, (at, count)| Some(apart && (ends(at, count, element)? <= start || end <= at.addr())))
    }
}

/// Returns the address after so many elements.
fn ends(at: *const u8, count: i64, element: i64) -> Option<usize> {
    at.addr().checked_add(usize::try_from(count.checked_mul(element)?).ok()?)
}

fn alignment(gemm: &LibraryGemm) -> usize {
    let addresses = [gemm.left, gemm.right, gemm.bias, gemm.result.cast_const()].map(<*const u8>::addr);
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

    fn plain() -> LibraryGemm {
        LibraryGemm {
            is_taken: 0,
            dtype: DType::F16.code().into(),
            batches: 1,
            sizes: [16, 32, 64],
            left_strides: [0, 64, 1],
            right_strides: [0, 32, 1],
            activation: 0,
            flags: 0,
            kernel: 0,
            left: at(0x1000),
            right: at(0x2000),
            bias: ptr::null(),
            result: at(0x10_000),
        }
    }

    #[test]
    fn few_rows_or_columns_are_left_to_kernels() {
        let sized = |sizes, left, right| {
            Shape::of(&LibraryGemm { sizes, left_strides: [0, left, 1], right_strides: [0, right, 1], ..plain() }).is_some()
        };
        assert!(sized([16, 32, 64], 64, 32));
        assert!(sized([9, 9, 1], 1, 9));
        assert!(!sized([8, 32, 64], 64, 32) && !sized([32, 8, 64], 64, 8));
        assert!(!sized([16, 32, 0], 0, 32) && !sized([16, 0, 64], 64, 0) && !sized([1 << 40, 16, 16], 16, 16));
    }

    #[test]
    fn strides_are_rows_or_columns() {
        let of = |right_strides| Shape::of(&LibraryGemm { right_strides, ..plain() }).map(|shape| shape.right);
        assert_eq!(of([0, 40, 1]), Some(Operand { transposed: false, stride: 40, batch: 0 }));
        assert_eq!(of([0, 1, 64]), Some(Operand { transposed: true, stride: 64, batch: 0 }));
        assert_eq!(of([0, 64, 2]), None);
        // A row that all rows share.
        assert_eq!(of([0, 0, 1]), None);
        let batched = LibraryGemm { batches: 3, left_strides: [1024, 64, 1], ..plain() };
        let shape = Shape::of(&batched).unwrap();
        assert_eq!((shape.left.batch, shape.right.batch), (1024, 0));
    }

    #[test]
    fn the_alignment_is_that_of_every_address() {
        let of = |bias, left| Shape::of(&LibraryGemm { bias: at(bias), left: at(left), ..plain() }).unwrap().alignment;
        assert_eq!([of(0, 0x1000), of(0x5008, 0x1000), of(0x5008, 0x1002)], [16, 8, 2]);
    }

    #[test]
    fn a_result_over_an_operand_is_left_to_kernels() {
        let of = |result| Shape::of(&LibraryGemm { result: at(result), ..plain() }).is_some();
        // The left operand has 2,048 bytes from 0x1000 on, the right one 4,096 from 0x2000 on.
        assert!(of(0x3000) && of(0x1800 - 0x1000) && of(0x1800));
        assert!(!of(0x1000) && !of(0x17FE) && !of(0x2FFE) && !of(0xFFF));
    }

    #[test]
    fn tf32_is_of_f32() {
        let of = |dtype: DType| Shape::of(&LibraryGemm { dtype: dtype.code().into(), flags: LIBRARY_TF32, ..plain() });
        assert!(of(DType::F32).unwrap().allows_tf32 && !of(DType::BF16).unwrap().allows_tf32);
        assert!(of(DType::F64).is_none());
    }
}
