//! Describes the sites in kernels that can fail.

/// A site at which a kernel can fail, and its message: `{0}`, `{1}` stand for the values that the
/// kernel reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    pub code: disc_ir::Code,
    pub op: String,
    pub message: String,
    /// The number of values that a kernel reports.
    pub kernel_values: usize,
}

impl Site {
    /// The type in which a kernel reports values, regardless of its index type.
    pub const VALUE: disc_ir::DType = disc_ir::DType::I64;
}
