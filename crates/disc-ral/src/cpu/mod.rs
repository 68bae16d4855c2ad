//! Implements the CPU device: host memory, and launches on the process's thread pool.

mod cache;
mod limit;
mod mapping;
mod memory;
mod prefault;
mod queue;

pub use prefault::Prefault;

use crate::{
    device::{Block, Device, Launch, Queue},
    error::AllocError,
    pool,
};
use disc_abi::{KERNEL_VALUES, STATUS_FAILED, STATUS_OK};
use std::{ptr::NonNull, sync::Arc};

/// The host's processors. It has no state of its own: the pool belongs to the process.
pub struct Cpu;

impl Cpu {
    /// Returns the device in the form that executables take.
    pub fn device() -> Arc<dyn Device> {
        Arc::new(Cpu)
    }
}

impl Device for Cpu {
    fn kind(&self) -> u8 {
        disc_abi::DEVICE_CPU
    }

    fn name(&self) -> &'static str {
        "cpu"
    }

    fn alloc(&self, bytes: usize) -> Result<NonNull<u8>, AllocError> {
        memory::allocate(bytes)
    }

    unsafe fn free(&self, at: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's promise is the same.
        unsafe { memory::free(at, bytes) }
    }

    fn nontemporal_bytes(&self) -> i64 {
        cache::nontemporal_bytes()
    }

    fn queue(&self) -> Box<dyn Queue> {
        Box::new(queue::CpuQueue::new(pool::default_threads()))
    }
}

/// Runs a launch by a kernel on the calling thread, with scratch of its own. Returns the kernel's
/// status.
///
/// # Safety
/// As [`Queue::launch`].
pub(crate) unsafe fn launch_nested(launch: &Launch) -> i32 {
    if launch.units <= 0 {
        return STATUS_OK;
    }
    let bytes = usize::try_from(launch.scratch_bytes).unwrap_or(usize::MAX).max(KERNEL_VALUES * size_of::<i64>());
    let Ok(scratch) = Block::new(&Cpu::device(), bytes) else { return STATUS_FAILED };
    // SAFETY: the caller's promise; the scratch is this launch's.
    unsafe { launch.kernel.function()(launch.args, 0, launch.units, scratch.at()) }
}
