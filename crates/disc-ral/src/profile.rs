//! Times single launches, for `disc bench` and reports. Off by default: a launch then costs one
//! branch more.

use crate::device::Launch;
use std::time::Instant;

/// One launch of a profiled session, in the order in which they happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchRecord {
    /// Address of the kernel's handle, on a CPU of its code: equal for launches of one kernel.
    pub kernel: usize,
    /// Units of work of the launch.
    pub units: i64,
    /// Estimated nanoseconds on one thread.
    pub cost: i64,
    /// Threads that took part.
    pub threads: u32,
    /// The moment of the launch.
    pub start: Instant,
    /// The time of the launch.
    pub nanoseconds: u64,
    /// A library computed the GEMM of this kernel; the epilogue has a record of its own.
    pub by_library: bool,
}

impl LaunchRecord {
    /// Records a launch that has just ended.
    pub(crate) fn new(launch: &Launch, threads: u32, start: Instant) -> Self {
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let kernel = launch.kernel.address();
        Self { kernel, units: launch.units, cost: launch.cost, threads, start, nanoseconds, by_library: false }
    }
}
