//! Holds the numbers about GPUs that the hardware sets, or that passes and schedules share.
use super::Target;
use disc_ir::DType;
use disc_passes::analysis::cost_model::CostModel;

/// NVIDIA's architectures from Volta on.
pub const NVIDIA: [u32; 14] = [70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 110, 120, 121];
/// Those of them that have instructions which later ones lack: `sm_90a`, and all after it.
pub const NVIDIA_SPECIFIC: [u32; 7] = [90, 100, 101, 103, 110, 120, 121];

/// The numbers about a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuModel {
    /// Threads that execute an op together.
    pub warp: u32,
    /// Bytes of memory that the threads of a block may share without asking for more.
    pub shared_bytes: i64,
    /// Copies to shared memory run beside other work (`cp.async`).
    pub has_async_copies: bool,
    /// Types of operands that a warp multiplies tile by tile (`mma.sync`).
    pub multiplied: &'static [DType],
}

impl GpuModel {
    /// Bytes of the widest access of one thread.
    pub const ACCESS_BYTES: u32 = 16;
    /// Threads of a block whose size nothing else decides.
    pub const THREADS: u32 = 256;
    /// Threads of the largest block.
    pub const MOST_THREADS: u32 = 1024;

    /// Returns the model of a target that is a GPU, or that interprets kernels for one.
    pub fn of(target: &Target) -> Option<Self> {
        match target {
            Target::Nvptx { sm, .. } => Some(Self::nvidia(*sm)),
            Target::Amdgpu { gfx } => Self::of_chip(gfx),
            Target::Simt { chip } => Self::of_chip(chip),
            Target::X86(_) | Target::AArch64(_) => None,
        }
    }

    /// Returns the model of a chip as its maker's compilers name it: `sm_90`, `gfx942`.
    pub fn of_chip(chip: &str) -> Option<Self> {
        if let Some((sm, _)) = nvidia_chip(chip) {
            return Some(Self::nvidia(sm));
        }
        let number = chip.strip_prefix("gfx")?;
        let is_plain = (3..=4).contains(&number.len()) && number.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        // Four digits are RDNA, whose waves have 32 threads; three are GCN and CDNA.
        let warp = if number.len() == 4 { 32 } else { 64 };
        is_plain.then_some(Self { warp, shared_bytes: 64 << 10, has_async_copies: false, multiplied: &[] })
    }

    fn nvidia(sm: u32) -> Self {
        let multiplied: &[DType] = match sm {
            80.. => &[DType::F16, DType::BF16, DType::F32, DType::I8, DType::U8],
            75.. => &[DType::F16],
            // The first ones have tiles of another layout.
            _ => &[],
        };
        Self { warp: 32, shared_bytes: 48 << 10, has_async_copies: sm >= 80, multiplied }
    }
}

/// Returns the number of a chip of NVIDIA, and true if its name ends in `a`: `sm_90a`.
pub(super) fn nvidia_chip(chip: &str) -> Option<(u32, bool)> {
    let number = chip.strip_prefix("sm_").filter(|number| !number.starts_with(['0', '+']))?;
    let (number, specific) = number.strip_suffix('a').map_or((number, false), |number| (number, true));
    let sm = number.parse().ok()?;
    let known = if specific { NVIDIA_SPECIFIC.contains(&sm) } else { NVIDIA.contains(&sm) };
    known.then_some((sm, specific))
}

/// Weights are read as they are stored, convolutions do not walk planes, and rows need not be cut
/// for a cache.
impl CostModel for GpuModel {
    fn most_tensors(&self) -> usize {
        24
    }

    fn unit_rows(&self) -> i64 {
        1
    }

    fn page_bytes(&self) -> i64 {
        4096
    }

    fn cache_ways(&self) -> i64 {
        4
    }

    fn line_bytes(&self) -> i64 {
        128
    }

    fn vector_columns(&self) -> i64 {
        i64::from(self.warp)
    }

    fn cached_elements(&self) -> i64 {
        1 << 20
    }

    /// A block has up to 128 columns of values, and computes the scores for them: twice is as cheap
    /// as scores in memory.
    fn most_value_columns(&self) -> Option<i64> {
        Some(256)
    }

    /// The blocks of a grid are split among them.
    fn joins_matmuls(&self) -> bool {
        true
    }
    fn converts_biases(&self) -> bool {
        true
    }

    fn walks_lists(&self) -> bool {
        false
    }

    fn converts_queries(&self) -> bool {
        true
    }

    fn shares_memory(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_have_the_warps_of_their_makers() {
        let warp = |chip: &str| GpuModel::of_chip(chip).map(|model| model.warp);
        assert_eq!(
            ["sm_70", "sm_90a", "gfx1100", "gfx942", "gfx90a"].map(warp),
            [Some(32), Some(32), Some(32), Some(64), Some(64)]
        );
        assert_eq!(["sm_60", "sm_", "sm_090", "sm_80a", "gfx", "gfx9;x", "sm90", ""].map(warp), [None; 8]);
        assert_eq!(GpuModel::of(&"x86-64-v3".parse().expect("a target")), None);
    }
}
