//! Sets the limits of the parser. Real programs stay far below; the limits keep hostile text from
//! costing memory, time or stack.
use super::super::types::DType;

/// Bytes of one text.
pub const MAX_TEXT: usize = 128 << 20;
/// Regions within regions.
pub const MAX_NESTING: usize = 64;
/// Ops of one module.
pub const MAX_OPS: usize = 500_000;
/// Values of one module.
pub const MAX_VALUES: usize = 1_000_000;
/// Functions of one module, and weights.
pub const MAX_FUNCTIONS: usize = 16_384;
/// Facts of one function.
pub const MAX_FACTS: usize = 4_096;
/// Dimensions of one type.
pub const MAX_RANK: usize = 16;
/// Elements of one literal.
pub const MAX_LITERAL: usize = 16 << 20;
/// Bytes of all literals of a module.
pub const MAX_LITERAL_BYTES: usize = 256 << 20;
/// Lanes of a vector.
pub const MAX_LANES: u32 = 4_096;
/// Bytes of a name.
pub const MAX_NAME: usize = 512;
/// A tensor's constant sizes, multiplied, and the bytes of an element: below this, sums and offsets
/// of such sizes fit 64 bits.
pub const MAX_TENSOR_BYTES: i128 = 1 << 62;

/// Returns true if the constant sizes of a tensor stay below [`MAX_TENSOR_BYTES`]; a size of 0
/// counts as 1, so that strides fit too.
pub fn fits(constant_sizes: impl IntoIterator<Item = i64>, dtype: DType) -> bool {
    let mut bytes = dtype.size() as i128;
    constant_sizes.into_iter().all(|size| {
        bytes *= i128::from(size.max(1));
        bytes < MAX_TENSOR_BYTES
    })
}
