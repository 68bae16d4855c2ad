//! Allocates memory of the CPU device: small blocks from the allocator, aligned to cache lines,
//! large ones as mappings aligned to huge pages.
//!
//! Invariants: a request over the machine's memory, or the process's share of it, is refused before
//! the system is asked (an overcommitting system would grant it and kill the process later); no
//! failure aborts.

use super::{
    limit::machine_bytes,
    mapping::{LARGE, fresh, mapped, unmap},
    prefault,
};
use crate::error::AllocError;
use std::{
    alloc::{Layout, alloc, dealloc},
    ptr::NonNull,
};

/// `bytes` is positive.
pub(super) fn allocate(bytes: usize) -> Result<NonNull<u8>, AllocError> {
    if bytes as u64 > machine_bytes() {
        return Err(AllocError::OverLimit(machine_bytes()));
    }
    if bytes < LARGE {
        return small(bytes);
    }
    let length = mapped(bytes);
    prefault::take(length).map_or_else(|| fresh(length), Ok)
}

/// # Safety
/// `at` came from `allocate(bytes)` and is not used any more.
pub(super) unsafe fn free(at: NonNull<u8>, bytes: usize) {
    if bytes >= LARGE {
        // SAFETY: exactly the mapping that `allocate` got.
        unsafe { unmap(at, mapped(bytes)) };
    } else {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(at.as_ptr(), layout(bytes)) };
    }
}

fn small(bytes: usize) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: the layout has a positive size.
    NonNull::new(unsafe { alloc(layout(bytes)) }).ok_or(AllocError::System)
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, disc_abi::ALIGN).expect("small sizes make a layout")
}

#[cfg(test)]
mod tests {
    use super::{super::mapping::HUGE_PAGE, *};

    #[test]
    fn blocks_of_all_sizes_are_aligned_and_writable() {
        for bytes in [64, 4096, LARGE - 64, LARGE, LARGE + 64, 3 * LARGE + 12_345] {
            let at = allocate(bytes).unwrap();
            assert!(at.addr().get().is_multiple_of(if bytes >= LARGE { HUGE_PAGE } else { disc_abi::ALIGN }));
            // SAFETY: freshly allocated, freed once.
            unsafe {
                at.as_ptr().write_bytes(7, bytes);
                assert_eq!(at.as_ptr().add(bytes - 1).read(), 7);
                free(at, bytes);
            }
        }
    }

    #[test]
    fn a_request_over_the_machines_memory_is_an_error() {
        assert_eq!(allocate(1 << 60), Err(AllocError::OverLimit(machine_bytes())));
        assert_eq!(allocate(usize::MAX - 63), Err(AllocError::OverLimit(machine_bytes())));
    }
}
