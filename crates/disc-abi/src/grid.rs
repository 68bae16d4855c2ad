//! Defines the launch of a grid of threads: on devices that are no CPU.
//!
//! The argument words of a launch are the parameters of the kernel: an address of device memory, an
//! `i64`, or the bits of another scalar in the low bytes, one each for the kernel's parameters,
//! then for the sizes that it uses, in order of their names. A driver takes them as they are.

/// There may be fewer blocks than `blocks`: each takes parts of the work until none is left.
pub const GRID_PERSISTENT: u32 = 1;
/// The kernel waits by itself for the launches before it, so that it may begin earlier.
pub const GRID_OVERLAPS: u32 = 2;

/// The blocks of a launch.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridLaunch {
    /// The number of blocks; not positive: nothing is run. For a persistent kernel, of parts.
    pub blocks: i64,
    /// Bytes of memory that the threads of a block share.
    pub shared: i64,
    /// Bytes of memory of each thread's own.
    pub scratch: i64,
    /// Threads of a block.
    pub threads: u32,
    /// [`GRID_PERSISTENT`] and [`GRID_OVERLAPS`].
    pub flags: u32,
}

const _: () = assert!(size_of::<GridLaunch>() == GridLaunch::WORDS * 8, "generated code writes words");

impl GridLaunch {
    /// Words of a [`GridLaunch`].
    pub const WORDS: usize = 4;
}
