//! An entry that is mapped: its pages are those that the system keeps of the file, shared by all processes that use it.
//!
//! The header fills a page of the file, so that the payload is aligned.
//!
//! Invariant: nobody writes to a file once it has its name; one that is removed stays for those who have it mapped.
use super::{Key, content::digest, store::MAGIC};
use std::{fs::File, os::fd::AsRawFd, ptr::NonNull, slice};

/// Bytes of the header. Pages may be larger: the file is mapped from its start.
const START: usize = 4096;

/// The mapping of a whole file.
pub(super) struct Mapped {
    at: NonNull<u8>,
    length: usize,
}

// SAFETY: memory that is only read.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// The entry in a file, if it is whole, was stored for this key, and has so many bytes.
    pub(super) fn open(file: &File, key: &Key, bytes: usize, threads: usize) -> Option<Self> {
        let length = START.checked_add(bytes)?;
        if file.metadata().ok()?.len() != length as u64 {
            return None;
        }
        // SAFETY: a new mapping at an address of the system's choice.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return None;
        }
        let mapped = Self { at: NonNull::new(at.cast())?, length };
        // SAFETY: the file is as long as the mapping, and nobody writes to it.
        let whole = unsafe { slice::from_raw_parts(mapped.at.as_ptr(), length) };
        (whole[..START] == header(key, &whole[START..], threads)[..]).then_some(mapped)
    }

    pub(super) fn payload(&self) -> &[u8] {
        // SAFETY: as in `open`, which found the file to be that long.
        unsafe { slice::from_raw_parts(self.at.as_ptr().add(START), self.length - START) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping, which nothing uses any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.length) };
    }
}

pub(super) fn header(key: &Key, payload: &[u8], threads: usize) -> Vec<u8> {
    let checksum = digest(&[payload], threads);
    let mut header = [&MAGIC[..], &key.0, &(payload.len() as u64).to_le_bytes(), &checksum].concat();
    header.resize(START, 0);
    header
}
