//! Maps and unmaps whole pages, aligned to huge pages.
//!
//! Invariant: no failure aborts.

use crate::error::AllocError;
use std::ptr::NonNull;

/// Blocks of at least this size get a mapping of their own.
pub(super) const LARGE: usize = 4 << 20;
pub(super) const HUGE_PAGE: usize = 2 << 20;

/// Returns the length of the mapping for a block: whole pages, whatever the page size of the
/// system.
pub(super) fn mapped(bytes: usize) -> usize {
    bytes.next_multiple_of(64 << 10)
}

/// Unmaps a mapping, or its end.
///
/// # Safety
/// `at` and `length` are a mapping of [`fresh`], or whole pages at its end; nothing uses them any
/// more.
pub(super) unsafe fn unmap(at: NonNull<u8>, length: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(at.as_ptr().cast(), length) };
}

/// Maps whole pages that start at a huge-page boundary: one huge page more is mapped, and both ends
/// are unmapped.
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
    // SAFETY: all three ranges are in the fresh mapping, at page boundaries; the ends are not used
    // any more.
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
