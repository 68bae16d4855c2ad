//! Memory of the CPU device: cache-line aligned from the allocator, huge-page aligned mappings for large blocks.
//!
//! Invariants: a request over the machine's memory, or the process's share of it, is refused before the system is asked (an
//! overcommitting system would grant it and kill the process later); no failure aborts.

use super::{ahead, limit::machine_bytes};
use crate::error::AllocError;
use std::{
    alloc::{Layout, alloc, dealloc},
    ptr::NonNull,
};

/// From here on a block is a mapping of its own.
pub(super) const LARGE: usize = 4 << 20;
const HUGE_PAGE: usize = 2 << 20;

/// `bytes` is positive.
pub(super) fn allocate(bytes: usize) -> Result<NonNull<u8>, AllocError> {
    if bytes as u64 > machine_bytes() {
        return Err(AllocError::OverLimit(machine_bytes()));
    }
    if bytes < LARGE {
        return small(bytes);
    }
    let length = mapped(bytes);
    ahead::take(length).map_or_else(|| fresh(length), Ok)
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

/// Length of the mapping for a block: whole pages, whatever the page size of the system is.
pub(super) fn mapped(bytes: usize) -> usize {
    bytes.next_multiple_of(64 << 10)
}

/// Gives a mapping back, or its end.
///
/// # Safety
/// `at` and `length` are a mapping of [`fresh`], or whole pages at its end; nothing uses them any more.
pub(super) unsafe fn unmap(at: NonNull<u8>, length: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(at.as_ptr().cast(), length) };
}

/// A mapping of whole pages that starts at a huge page: one page more is mapped, and the ends are given back.
pub(super) fn fresh(length: usize) -> Result<NonNull<u8>, AllocError> {
    let whole = length.checked_add(HUGE_PAGE).ok_or(AllocError::Size)?;
    // SAFETY: an anonymous mapping at an address of the system's choice.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            whole,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(AllocError::System);
    }
    let start: *mut u8 = start.cast();
    let head = start.align_offset(HUGE_PAGE);
    let tail = whole - head - length;
    // SAFETY: all three ranges lie in the fresh mapping, at page boundaries; the ends are not used any more.
    unsafe {
        let at = start.add(head);
        if head > 0 {
            libc::munmap(start.cast(), head);
        }
        if tail > 0 {
            libc::munmap(at.add(length).cast(), tail);
        }
        // Advice: without huge pages the memory is as good.
        libc::madvise(at.cast(), length, libc::MADV_HUGEPAGE);
        Ok(NonNull::new_unchecked(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
