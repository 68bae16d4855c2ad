//! The register block of a micro-kernel.
use crate::target::Target;
use disc_ir::DType;

/// The register block of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The most rows of a micro-kernel.
    pub rows: u32,
    /// Columns of a panel.
    pub columns: u32,
    pub lanes: u32,
}

/// Chooses the register block for accumulators of `dtype`: two vectors wide, as tall as the
/// registers allow with two for the panel, one for the left operand, and one to spare.
pub fn tile(target: &Target, dtype: DType) -> Tile {
    let lanes = target.vector_bytes() / dtype.size() as u32;
    Tile {
        rows: (target.vector_registers() - 4) / 2 - if target.vector_registers() > 16 { 2 } else { 0 },
        columns: 2 * lanes,
        lanes,
    }
}
