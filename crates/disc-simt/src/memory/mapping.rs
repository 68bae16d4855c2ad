//! Reserves ranges of addresses from the system.
use std::ptr::NonNull;

/// A range of addresses, unmapped on drop. Its pages cost memory once they are written.
#[derive(Debug)]
pub(crate) struct Mapping {
    at: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    /// Reserves addresses: zeros that can be written, or memory that nobody may touch.
    pub(crate) fn new(bytes: usize, usable: bool) -> Option<Self> {
        let access = if usable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: an anonymous mapping at an address of the system's choice.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return None;
        }
        NonNull::new(at.cast()).map(|at| Self { at, bytes })
    }

    pub(crate) fn at(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// Gives the whole pages of a range back to the system: they are zeros again.
    ///
    /// # Safety
    /// Nothing else uses the range meanwhile.
    pub(crate) unsafe fn clear(&self, start: usize, bytes: usize) {
        const PAGE: usize = 64 << 10;
        let first = start.next_multiple_of(PAGE);
        let end = (start + bytes).min(self.bytes) / PAGE * PAGE;
        if first < end {
            // SAFETY: whole pages of the mapping.
            unsafe { libc::madvise(self.at().add(first).cast(), end - first, libc::MADV_DONTNEED) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's, and nothing uses it any more.
        unsafe { libc::munmap(self.at().cast(), self.bytes) };
    }
}

// SAFETY: addresses of memory that the owner hands out.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}
