//! Allocates outputs: aligned memory, and large blocks are kept for the next call.
//!
//! The system gives fresh large memory page by page, which costs more than many kernels; so a few
//! freed blocks are kept for a call of nearly the same size.
//!
//! Invariants: the kept blocks have at most [`MOST_KEPT`] bytes; nobody ever waits for the list
//! (another thread may hold it, also one that does not exist after a fork): a caller that does not
//! get it asks the system.
use disc_ral::{AllocError, Device, host_device};
use std::{
    alloc::{Layout, alloc, dealloc},
    ptr::NonNull,
    sync::{Arc, LazyLock, Mutex},
};

/// Smaller blocks are left to the allocator, which keeps them itself.
const LEAST_KEPT: usize = 1 << 20;
const MOST_KEPT: usize = 128 << 20;
/// Blocks of at most this many bytes waste some to be aligned.
const MOST_SMALL: usize = 1 << 10;
/// The alignment of blocks.
const ALIGN: usize = 64;
/// Large blocks have a multiple of this many bytes.
const GRAIN: usize = 64 << 10;

/// Outputs that no framework allocates are in the host's memory.
static DEVICE: LazyLock<Arc<dyn Device>> = LazyLock::new(host_device);
static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

struct Kept {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: memory that nobody uses.
unsafe impl Send for Kept {}

/// A block of memory, aligned to a cache line.
pub(super) struct Block {
    at: NonNull<u8>,
    bytes: usize,
    /// The allocation that a small block is in.
    allocation: Option<NonNull<u8>>,
}

// SAFETY: memory of its own.
unsafe impl Send for Block {}

impl Block {
    pub(super) fn new(bytes: usize) -> Result<Self, AllocError> {
        if bytes <= MOST_SMALL {
            return Self::small(bytes);
        }
        let wanted =
            if bytes < LEAST_KEPT { bytes.max(1) } else { bytes.checked_next_multiple_of(GRAIN).ok_or(AllocError::Size)? };
        if let Some(kept) = take(wanted) {
            return Ok(Self { at: kept.at, bytes: kept.bytes, allocation: None });
        }
        DEVICE.alloc(wanted).map(|at| Self { at, bytes: wanted, allocation: None })
    }

    /// Makes a block in an allocation of usual alignment, which leaves room for it: allocators keep
    /// freed ones of these at hand, and search for aligned ones each time.
    fn small(bytes: usize) -> Result<Self, AllocError> {
        // SAFETY: the layout has a positive size.
        let allocation = NonNull::new(unsafe { alloc(small_layout(bytes)) }).ok_or(AllocError::System)?;
        let skipped = allocation.addr().get().wrapping_neg() % ALIGN;
        // SAFETY: within the allocation, which is that much longer.
        let at = unsafe { allocation.add(skipped) };
        Ok(Self { at, bytes, allocation: Some(allocation) })
    }

    pub(super) fn at(&self) -> *mut u8 {
        self.at.as_ptr()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(allocation) = self.allocation {
            // SAFETY: allocated with this layout, and used by nobody any more.
            unsafe { dealloc(allocation.as_ptr(), small_layout(self.bytes)) };
            return;
        }
        for freed in keep(Kept { at: self.at, bytes: self.bytes }) {
            // SAFETY: allocated with this size, and used by nobody any more.
            unsafe { DEVICE.free(freed.at, freed.bytes) };
        }
    }
}

fn small_layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes + ALIGN, align_of::<u64>()).expect("small sizes make a layout")
}

/// Takes a kept block that is at most a quarter larger than wanted.
fn take(wanted: usize) -> Option<Kept> {
    if wanted < LEAST_KEPT {
        return None;
    }
    let mut kept = KEPT.try_lock().ok()?;
    let fits = kept.iter().enumerate().filter(|(_, block)| (wanted..=wanted + wanted / 4).contains(&block.bytes));
    let best = fits.min_by_key(|(_, block)| block.bytes).map(|(i, _)| i)?;
    Some(kept.remove(best))
}

/// Keeps a block. Returns the blocks that must be freed instead: itself, or the oldest ones.
fn keep(block: Kept) -> Vec<Kept> {
    if block.bytes < LEAST_KEPT || block.bytes > MOST_KEPT / 2 {
        return vec![block];
    }
    let Ok(mut kept) = KEPT.try_lock() else { return vec![block] };
    kept.push(block);
    let mut total: usize = kept.iter().map(|block| block.bytes).sum();
    let mut old = 0;
    while total > MOST_KEPT {
        total -= kept[old].bytes;
        old += 1;
    }
    kept.drain(..old).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept_bytes() -> usize {
        KEPT.lock().unwrap().iter().map(|block| block.bytes).sum()
    }

    // One test: the list is shared.
    #[test]
    fn large_blocks_are_reused_within_a_limit() {
        let first = Block::new(3 << 20).unwrap();
        let at = first.at();
        drop(first);
        assert_eq!(kept_bytes(), 3 << 20);
        let smaller = Block::new((3 << 20) - 100).unwrap();
        assert_eq!(smaller.at(), at);
        assert_eq!(kept_bytes(), 0);
        drop(smaller);
        assert_ne!(Block::new(2 << 20).unwrap().at(), at, "a third of the memory would be wasted");

        let many: Vec<Block> = (0..10).map(|_| Block::new(30 << 20).unwrap()).collect();
        drop(many);
        assert!(kept_bytes() <= MOST_KEPT && kept_bytes() > MOST_KEPT / 2);
        drop(Block::new(MOST_KEPT).unwrap());
        assert!(kept_bytes() <= MOST_KEPT);

        let small = Block::new(0).unwrap();
        assert!(small.at().addr().is_multiple_of(64));
        for bytes in [1, 63, 64, 1000, MOST_SMALL, MOST_SMALL + 1] {
            let block = Block::new(bytes).unwrap();
            assert!(block.at().addr().is_multiple_of(ALIGN));
            // SAFETY: memory of the block.
            unsafe { block.at().write_bytes(7, bytes) };
        }
        assert_eq!(Block::new(usize::MAX).err(), Some(AllocError::Size));
        assert!(matches!(Block::new(1 << 60), Err(AllocError::OverLimit(_))));
    }
}
