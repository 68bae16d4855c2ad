//! Allocates memory of a GPU: from the framework of the process, if it has said so, else from the
//! driver.
//!
//! A framework keeps freed memory for itself. Temporary memory that comes from it is not missing
//! there, and its own is not missing here.

use super::{context::Gpu, driver::CudaError};
use crate::error::AllocError;
use cudarc::driver::sys::CUdeviceptr;
use std::sync::{OnceLock, PoisonError};

/// An allocator of a framework.
pub trait MemorySource: Send + Sync {
    /// Returns the address of memory of a GPU, by its number, at a multiple of 256 bytes; `None` if
    /// there is none. What the framework did with it before may still be under way.
    fn alloc(&self, gpu: u32, bytes: usize) -> Option<u64>;

    /// Takes memory back, which nothing uses any more.
    fn free(&self, gpu: u32, at: u64);
}

static SOURCE: OnceLock<Box<dyn MemorySource>> = OnceLock::new();

/// Lets the process's allocations from now on come from a framework; the first one that is set
/// stays.
pub fn set_memory_source(source: Box<dyn MemorySource>) {
    // A second one is of the same framework.
    let _ = SOURCE.set(source);
}

/// Returns true if a framework gives memory.
pub(super) fn is_lent() -> bool {
    SOURCE.get().is_some()
}

/// Describes a failed allocation.
pub(super) fn no_memory(error: &CudaError) -> AllocError {
    match error.is_out_of_memory() {
        true => AllocError::Device,
        false => AllocError::Driver(error.summary),
    }
}

impl Gpu {
    /// Allocates memory of the GPU that any stream may use, at a multiple of 256 bytes.
    pub(super) fn alloc(&self, bytes: usize) -> Result<CUdeviceptr, AllocError> {
        if bytes > isize::MAX as usize {
            return Err(AllocError::Size);
        }
        if let Some(source) = SOURCE.get() {
            let at = source.alloc(self.ordinal, bytes).ok_or(AllocError::Device)?;
            self.lent.lock().unwrap_or_else(PoisonError::into_inner).insert(at);
            // The framework orders uses of the memory after what its own stream did with it; the
            // stream that uses it here may be another one.
            // SAFETY: waits.
            if let Err(error) = self.call(|driver| unsafe { driver.synchronize_context() }) {
                self.free(at);
                return Err(AllocError::Driver(error.summary));
            }
            return Ok(at);
        }
        let mut at = 0;
        // SAFETY: writes one address.
        let mut made = || self.call(|driver| unsafe { driver.alloc(&mut at, bytes) });
        let first = made();
        let made = match &first {
            Err(error) if error.is_out_of_memory() && self.trim_pool() => made(),
            _ => first,
        };
        made.map(|()| at).map_err(|error| no_memory(&error))
    }

    /// Frees memory, once everything that was launched before has ended.
    pub(super) fn free(&self, at: CUdeviceptr) {
        let is_lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner).remove(&at);
        match SOURCE.get().filter(|_| is_lent) {
            Some(source) => {
                // The framework may give it to another stream. Where the context has ended, nothing
                // runs.
                // SAFETY: waits.
                let _ = self.call(|driver| unsafe { driver.synchronize_context() });
                source.free(self.ordinal, at);
            }
            None => {
                // SAFETY: memory of `alloc`, freed once. The driver waits for kernels; a context
                // that has ended has no memory.
                let _ = self.call(|driver| unsafe { driver.free(at) });
            }
        }
    }
}
