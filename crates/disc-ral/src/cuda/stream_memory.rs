//! Allocates memory for the ops of one queue in the order of its stream: nothing waits for the GPU
//! when memory is freed, and what is freed serves the next allocation.
//!
//! The memory is that of a pool of this crate. The device's default pool is the process's: how much
//! it keeps is for others to say.
//!
//! Invariants:
//! - memory is allocated and freed in the queue's own stream, whatever stream its launches go to;
//!   an event orders the two streams. So the stream of a caller, which may be captured, allocates
//!   nothing;
//! - a graph of a queue names memory of the call that starts it, and starts before the memory is
//!   freed;
//! - once the queue is gone, memory is freed when everything on the GPU has ended.

use super::{context::Gpu, driver::CudaError, memory};
use crate::{device::QueueMemory, error::AllocError};
use cudarc::driver::sys::{
    CUdeviceptr, CUevent, CUmemAllocationType, CUmemLocationType, CUmemPool_attribute, CUmemPoolProps, CUmemoryPool, CUstream,
    CUstream_st, CUstreamCaptureStatus,
};
use std::{
    mem::MaybeUninit,
    ptr::{self, NonNull},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicPtr, Ordering},
    },
};

/// Bytes of free memory that a pool keeps when somebody waits for the GPU; what is above goes back
/// to the driver.
const KEPT: u64 = 256 << 20;

/// The pool of a GPU. It lives as long as the process.
pub(super) struct Pool(CUmemoryPool);

// SAFETY: a handle of the driver, which any thread may use.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

/// The memory of one queue.
pub(super) struct StreamMemory {
    gpu: Arc<Gpu>,
    /// The queue's own stream.
    own: CUstream,
    /// The stream that its launches go to.
    current: AtomicPtr<CUstream_st>,
    /// Orders the two.
    event: CUevent,
    /// The stream has allocated or freed memory since [`Self::take_ops`].
    has_ops: AtomicBool,
    /// The queue is gone, and its streams with it.
    is_closed: AtomicBool,
}

// SAFETY: handles of the driver, which any thread may use; one at a time uses a queue.
unsafe impl Send for StreamMemory {}
// SAFETY: as above.
unsafe impl Sync for StreamMemory {}

impl Gpu {
    /// Returns the pool of this GPU; `None` if it has none, or a driver without pools.
    fn pool(&self) -> Option<&Pool> {
        let made = self.pool.get_or_init(|| match self.has_pools {
            true => self
                .new_pool()
                .inspect_err(|error| tracing::info!("memory of {} is allocated without a pool: {error}", self.name))
                .ok(),
            false => None,
        });
        made.as_ref()
    }

    fn new_pool(&self) -> Result<Pool, CudaError> {
        let mut kept = KEPT;
        self.call(|driver| {
            let mut pool = ptr::null_mut();
            // SAFETY: all bytes may be zero; reserved ones have to be.
            let mut properties: CUmemPoolProps = unsafe { MaybeUninit::zeroed().assume_init() };
            properties.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
            properties.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
            properties.location.id = self.ordinal as i32;
            let threshold = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD as i32;
            // SAFETY: writes one handle; the attribute is a number of 64 bits.
            unsafe {
                driver.create_pool(&mut pool, &raw const properties)?;
                driver.set_pool_attribute(pool, threshold, (&raw mut kept).cast())?;
            }
            Ok(Pool(pool))
        })
    }

    /// Gives free memory of the pool back to the driver. Returns true if there is a pool.
    pub(super) fn trim_pool(&self) -> bool {
        let Some(Some(Pool(pool))) = self.pool.get() else { return false };
        // SAFETY: a pool of this GPU.
        self.call(|driver| unsafe { driver.trim_pool(*pool, 0) }).is_ok()
    }
}

impl StreamMemory {
    /// Returns the memory of a queue with a stream and an event of its own; `None` where there is
    /// no pool, or where a framework gives memory.
    pub(super) fn new(gpu: &Arc<Gpu>, own: CUstream, event: CUevent) -> Option<Arc<Self>> {
        gpu.pool().filter(|_| !memory::is_lent())?;
        let (current, is_closed) = (AtomicPtr::new(own), AtomicBool::new(false));
        let has_ops = AtomicBool::new(false);
        Some(Arc::new(Self { gpu: Arc::clone(gpu), own, current, event, has_ops, is_closed }))
    }

    /// Notes the stream that launches go to, which continues after the previous one.
    pub(super) fn move_to(&self, stream: CUstream) {
        self.current.store(stream, Ordering::Release);
    }

    /// Notes that the queue has waited, and has no stream from now on.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    /// Returns true if memory was allocated or freed in the stream since the last time.
    pub(super) fn take_ops(&self) -> bool {
        self.has_ops.swap(false, Ordering::AcqRel)
    }

    fn current(&self) -> CUstream {
        self.current.load(Ordering::Acquire)
    }

    /// Returns true if launches become a graph of the caller's instead of running.
    pub(super) fn is_captured(&self) -> bool {
        const NONE: u32 = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as u32;
        let (stream, mut status) = (self.current(), NONE);
        if stream == self.own {
            return false;
        }
        // SAFETY: writes one number.
        let asked = self.gpu.call(|driver| unsafe { driver.is_capturing(stream, &mut status) });
        // A stream that cannot be asked is not used.
        asked.is_err() || status != NONE
    }

    /// Lets a stream go on when another one has come as far as it is now.
    fn order(&self, first: CUstream, then: CUstream) -> Result<(), CudaError> {
        self.has_ops.store(true, Ordering::Release);
        if first == then {
            return Ok(());
        }
        self.gpu.call(|driver| {
            // SAFETY: an event and streams of the queue, and one of its caller.
            unsafe {
                driver.record_event(self.event, first)?;
                driver.wait_for_event(then, self.event, 0)
            }
        })
    }

    /// Allocates memory for what is launched from now on, at a multiple of 256 bytes.
    pub(super) fn alloc_at(&self, bytes: usize) -> Result<CUdeviceptr, AllocError> {
        if bytes > isize::MAX as usize {
            return Err(AllocError::Size);
        }
        let Some(Pool(pool)) = self.gpu.pool() else { return Err(AllocError::System) };
        let mut at = 0;
        // SAFETY: writes one address.
        let made = self.gpu.call(|driver| unsafe { driver.alloc_ordered(&mut at, bytes, *pool, self.own) });
        made.map_err(|error| memory::no_memory(&error))?;
        if let Err(error) = self.order(self.own, self.current()) {
            self.free_at(at);
            return Err(memory::no_memory(&error));
        }
        Ok(at)
    }

    /// Frees memory after everything that was launched so far.
    pub(super) fn free_at(&self, at: CUdeviceptr) {
        if self.is_closed.load(Ordering::Acquire) {
            return self.free_at_rest(at);
        }
        if self.is_captured() {
            // The caller's graph may name it for ever.
            tracing::warn!("memory that a captured call has used is not freed");
            return;
        }
        let freed = self.order(self.current(), self.own).and_then(|()| {
            // SAFETY: memory of the pool, freed once; its users are before this in the stream.
            self.gpu.call(|driver| unsafe { driver.free_ordered(at, self.own) })
        });
        if freed.is_err() {
            self.free_at_rest(at);
        }
    }

    /// Frees memory when everything on the GPU has ended.
    fn free_at_rest(&self, at: CUdeviceptr) {
        // SAFETY: as above. A context that has ended has no memory.
        let _ = self.gpu.call(|driver| unsafe {
            driver.synchronize_context()?;
            driver.free(at)
        });
    }
}

impl QueueMemory for StreamMemory {
    fn alloc(&self, bytes: usize) -> Result<NonNull<u8>, AllocError> {
        let at = self.alloc_at(bytes)?;
        NonNull::new(ptr::with_exposed_provenance_mut(at as usize)).ok_or(AllocError::System)
    }

    unsafe fn free(&self, at: NonNull<u8>) {
        self.free_at(at.as_ptr().expose_provenance() as CUdeviceptr);
    }
}

/// Memory that a queue keeps between launches: of its pool, or that of the GPU.
pub(super) struct KeptMemory {
    gpu: Arc<Gpu>,
    memory: Option<Arc<StreamMemory>>,
    pub(super) at: CUdeviceptr,
    pub(super) bytes: usize,
}

impl KeptMemory {
    pub(super) fn new(gpu: &Arc<Gpu>, memory: Option<Arc<StreamMemory>>, bytes: usize) -> Result<Self, AllocError> {
        let at = memory.as_ref().map_or_else(|| gpu.alloc(bytes), |memory| memory.alloc_at(bytes))?;
        Ok(Self { gpu: Arc::clone(gpu), memory, at, bytes })
    }
}

impl Drop for KeptMemory {
    fn drop(&mut self) {
        match &self.memory {
            Some(memory) => memory.free_at(self.at),
            None => self.gpu.free(self.at),
        }
    }
}
