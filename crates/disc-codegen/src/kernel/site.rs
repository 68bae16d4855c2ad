//! The places in kernels that can fail.

/// Where a kernel can fail, and what the message says: `{0}`, `{1}` stand for the values that the kernel reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    pub code: disc_ir::Code,
    pub op: String,
    pub message: String,
    /// How many values a kernel reports.
    pub kernel_values: usize,
}

impl Site {
    /// The type in which a kernel reports values, whatever its positions are.
    pub const VALUE: disc_ir::DType = disc_ir::DType::I64;
}
