//! Lists the chips whose limits the engine keeps.

/// The limits of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chip {
    /// The name of its device, `simt:NAME`.
    pub name: &'static str,
    /// Threads of a warp.
    pub warp: u32,
    /// Most threads of a block.
    pub threads: u32,
    /// Most bytes that the threads of a block share.
    pub shared: i64,
    /// Blocks of a persistent launch: few, so that each takes several parts.
    pub resident: i64,
}

const fn chip(name: &'static str, warp: u32, shared_kib: i64) -> Chip {
    Chip { name, warp, threads: 1024, shared: shared_kib << 10, resident: 4 }
}

/// Every chip, in the order of names.
pub const CHIPS: &[Chip] = &[
    chip("simt:gfx906", 64, 64),
    chip("simt:gfx90a", 64, 64),
    chip("simt:gfx942", 64, 64),
    chip("simt:gfx1030", 32, 64),
    chip("simt:gfx1100", 32, 64),
    chip("simt:sm_70", 32, 96),
    chip("simt:sm_75", 32, 64),
    chip("simt:sm_80", 32, 163),
    chip("simt:sm_86", 32, 99),
    chip("simt:sm_89", 32, 99),
    chip("simt:sm_90", 32, 227),
    chip("simt:sm_90a", 32, 227),
    chip("simt:sm_100", 32, 227),
    chip("simt:sm_120", 32, 99),
];
