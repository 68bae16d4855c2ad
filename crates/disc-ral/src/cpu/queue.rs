//! Launches kernels for one session on the CPU: chooses the number of threads and owns their
//! scratch.
//!
//! Invariants: no thread is woken for less than [`THREAD_COST`] of work; the number of ranges
//! depends only on units, cost and thread limit; scratch is allocated before a thread starts, so
//! running out of memory is an ordinary error.

use crate::{
    cpu::Cpu,
    device::{Block, Device, Launch, LaunchFailure, Queue, Threads},
    error::AllocError,
    pool::{self, Scratch, Slots},
};
use disc_abi::{KernelFn, KernelHandle, STATUS_OK};
use std::{ffi::c_void, sync::Arc};

/// Nanoseconds of work that justify waking a thread.
const THREAD_COST: i64 = 5_000;
/// Distance between the scratch of two threads: they share no cache line, nor its prefetched
/// neighbour.
const SCRATCH_STEP: usize = 128;
/// Launches with more units than this are refused: their sum must not overflow.
const MAX_UNITS: i64 = 1 << 60;

pub(super) struct CpuQueue {
    device: Arc<dyn Device>,
    limit: usize,
    slots: Slots,
    scratch: Option<Block>,
}

impl CpuQueue {
    pub(super) fn new(limit: usize) -> Self {
        Self { device: Cpu::device(), limit, slots: Slots::default(), scratch: None }
    }

    fn threads(&self, launch: &Launch) -> usize {
        let paying = usize::try_from(launch.cost / THREAD_COST).unwrap_or(0).max(1);
        let units = usize::try_from(launch.units).unwrap_or(usize::MAX);
        self.limit.min(paying).min(units)
    }

    /// Returns scratch of `bytes` for each of `threads`, kept between launches and grown on demand.
    fn scratch(&mut self, bytes: i64, threads: usize) -> Result<Scratch, AllocError> {
        let step = usize::try_from(bytes).map_err(|_| AllocError::Size)?.max(1);
        let step = step.checked_next_multiple_of(SCRATCH_STEP).ok_or(AllocError::Size)?;
        let total = step.checked_mul(threads).ok_or(AllocError::Size)?;
        match &self.scratch {
            Some(block) if block.bytes() >= total => Ok(Scratch { at: block.at(), step }),
            _ => {
                self.scratch = None;
                let block = self.scratch.insert(Block::new(&self.device, total)?);
                // So that reading a kernel's values is reading initialised memory, whatever the
                // kernel wrote. SAFETY: the block is ours and this large.
                unsafe { block.at().write_bytes(0, block.bytes()) };
                Ok(Scratch { at: block.at(), step })
            }
        }
    }
}

impl Queue for CpuQueue {
    fn limit_threads(&mut self, threads: usize) {
        self.limit = threads.clamp(1, pool::MAX_THREADS);
    }

    fn thread_limit(&self) -> usize {
        self.limit
    }

    unsafe fn launch(&mut self, launch: &Launch) -> Result<Threads, LaunchFailure> {
        if launch.units <= 0 {
            return Ok(0);
        }
        if launch.units > MAX_UNITS {
            return Err(LaunchFailure::Units(launch.units));
        }
        let threads = self.threads(launch);
        let scratch = self
            .scratch(launch.scratch_bytes, threads)
            .map_err(|cause| LaunchFailure::Scratch { bytes: launch.scratch_bytes, cause })?;
        if threads == 1 {
            // SAFETY: the caller's promise; only this launch uses the scratch.
            unsafe { pool::run_inline(launch, scratch.at) }.map(|()| 1).map_err(LaunchFailure::Fault)
        } else {
            // SAFETY: as above, for each thread's part.
            unsafe { pool::run(launch, threads, &mut self.slots, scratch) }.map_err(LaunchFailure::Fault)
        }
    }

    unsafe fn copy(&mut self, to: *mut u8, from: *const u8, bytes: usize) -> Result<(), LaunchFailure> {
        let args = [to.expose_provenance() as u64, from.expose_provenance() as u64, bytes as u64];
        let units = i64::try_from(bytes.div_ceil(COPY_UNIT)).map_err(|_| LaunchFailure::Units(i64::MAX))?;
        // About 10 bytes per nanosecond.
        let cost = i64::try_from(bytes / 10).unwrap_or(i64::MAX);
        let launch =
            Launch { kernel: KernelHandle::from(copy_units as KernelFn), args: args.as_ptr(), units, cost, scratch_bytes: 0 };
        // SAFETY: the kernel reads exactly these arguments, which outlive the launch.
        unsafe { self.launch(&launch) }.map(|_| ())
    }

    fn sync(&mut self) -> Result<(), LaunchFailure> {
        Ok(())
    }

    fn scratch_bytes(&self) -> usize {
        self.scratch.as_ref().map_or(0, Block::bytes)
    }
}

const COPY_UNIT: usize = 64 << 10;

/// Copies 64 KiB per unit. Arguments: to, from, bytes.
///
/// # Safety
/// The arguments describe valid ranges that do not overlap.
unsafe extern "C" fn copy_units(args: *const u64, begin: i64, end: i64, _scratch: *mut u8) -> i32 {
    // SAFETY: `copy` passes three arguments.
    let (to, from, bytes) = unsafe { (*args as usize, *args.add(1) as usize, *args.add(2) as usize) };
    let begin = begin as usize * COPY_UNIT;
    let end = (end as usize * COPY_UNIT).min(bytes);
    let to = std::ptr::with_exposed_provenance_mut::<c_void>(to).wrapping_byte_add(begin);
    let from = std::ptr::with_exposed_provenance::<c_void>(from).wrapping_byte_add(begin);
    // SAFETY: both ranges are in those given to `copy`, and units do not overlap.
    unsafe { libc::memcpy(to, from, end - begin) };
    STATUS_OK
}
