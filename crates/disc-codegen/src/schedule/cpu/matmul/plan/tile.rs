//! The register block of a micro-kernel.
pub use crate::target::Tile;
use crate::target::{CpuModel, Target};
use disc_ir::DType;

/// Returns the register block for accumulators of `dtype` on a CPU.
///
/// # Panics
/// If the target is no CPU.
pub fn tile(target: &Target, dtype: DType) -> Tile {
    CpuModel::of(target).expect("a schedule of CPUs").tile(dtype)
}
