//! Describes the matrices of a GEMM in the form that BLAS libraries take.
use super::GemmKey;
use disc_abi::{DType, Gemm};

/// A matrix in memory: `data[row * stride + column]`, or `data[column * stride + row]` if it is
/// transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// The first element.
    pub data: *const u8,
    /// The elements of a column, not of a row, are adjacent.
    pub transposed: bool,
    /// Elements between rows, or between columns if transposed; at least the length of a row, or of
    /// a column.
    pub stride: i64,
}

/// `result = left * right`, with sizes of at least 1.
#[derive(Clone, Copy, Debug)]
pub struct GemmMatrices {
    /// The element type of all matrices.
    pub dtype: DType,
    /// The rows of the left operand and of the result.
    pub rows: i64,
    /// The columns of the right operand and of the result.
    pub columns: i64,
    /// The columns of the left operand and the rows of the right one.
    pub sums: i64,
    /// The left operand.
    pub left: Matrix,
    /// The right operand.
    pub right: Matrix,
    /// Row-major without gaps.
    pub result: *mut u8,
}

impl GemmMatrices {
    /// Returns the matrices of a GEMM; `None` if no library takes it. Operands that are not in
    /// memory yet are null: a right operand that is packed in panels, and a result that an epilogue
    /// reads.
    pub(super) fn of(product: &Gemm) -> Option<Self> {
        let [rows, columns, sums] = product.sizes;
        let dtype = DType::from_code(u8::try_from(product.dtype).ok()?)?;
        let [left_row, left_column, right_row, right_column] = product.strides;
        let right = match product.panel {
            0 => matrix(product.right, [sums, columns], [right_row, right_column])?,
            _ => Matrix { data: std::ptr::null(), transposed: false, stride: columns },
        };
        let left = matrix(product.left, [rows, sums], [left_row, left_column])?;
        let positive = rows > 0 && columns > 0 && sums > 0;
        positive.then_some(Self { dtype, rows, columns, sums, left, right, result: product.result })
    }
}

/// Returns the class of a GEMM for this many threads.
pub(super) fn key(product: &Gemm, threads: usize) -> GemmKey {
    let [rows, columns, sums] = product.sizes;
    let flag = |of: bool, bit: u8| u8::from(of) << bit;
    let along = flag(product.strides[1] == 1, 0) | flag(product.strides[3] == 1, 1);
    let form = along | flag(product.panel > 0, 2) | flag(product.rest.is_some(), 3);
    // The largest power of two must fit.
    let rows = rows.clamp(1, 1 << 62) as u64;
    let threads = u32::try_from(threads).unwrap_or(u32::MAX);
    GemmKey { rows: rows.next_power_of_two() as i64, columns, sums, dtype: product.dtype as u8, threads, form }
}

/// Returns a matrix of these sizes and strides, if its rows or its columns are contiguous and do
/// not overlap.
pub(crate) fn matrix(data: *const u8, [rows, columns]: [i64; 2], [row, column]: [i64; 2]) -> Option<Matrix> {
    let lies = |count: i64, stride: i64, length: i64, step: i64| (length <= 1 || step == 1) && (count <= 1 || stride >= length);
    if lies(rows, row, columns, column) {
        return Some(Matrix { data, transposed: false, stride: row.max(columns) });
    }
    lies(columns, column, rows, row).then_some(Matrix { data, transposed: true, stride: column.max(rows) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_or_columns_have_to_be_contiguous() {
        let of = |sizes, strides| matrix(std::ptr::null(), sizes, strides).map(|m| (m.transposed, m.stride));
        assert_eq!(of([3, 4], [4, 1]), Some((false, 4)));
        assert_eq!(of([3, 4], [9, 1]), Some((false, 9)));
        assert_eq!(of([3, 4], [1, 3]), Some((true, 3)));
        assert_eq!(of([3, 4], [8, 2]), None);
        // A broadcast row.
        assert_eq!(of([3, 4], [0, 1]), None);
        assert_eq!(of([1, 4], [0, 1]), Some((false, 4)));
        assert_eq!(of([1, 1], [0, 0]), Some((false, 1)));
        assert_eq!(of([5, 1], [1, 0]), Some((false, 1)));
        assert_eq!(of([1, 5], [0, 7]), Some((true, 7)));
    }
}
