//! Models the memory of a device: addresses that the host cannot touch, with the bytes elsewhere
//! and a shadow that knows who wrote and read them.
//!
//! Invariants:
//! - The addresses of a device are a window without access: host code that uses one crashes.
//! - The bytes of an address are at a constant distance in a mapping of their own.
//! - Allocations are at least [`RED`] bytes apart, and nobody writes between them.
mod mapping;

pub(crate) use mapping::Mapping;

use crate::shadow::{Cell, Cells};
use disc_ral::AllocError;
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Bytes between two allocations.
const RED: u64 = 128;
/// Sizes of the window, of which the first one that the system grants is taken.
const WINDOWS: [u64; 4] = [64 << 30, 16 << 30, 4 << 30, 1 << 30];
/// Freed memory of this size goes back to the system.
const LARGE: u64 = 1 << 20;

/// The memory of one device.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Addresses without access.
    window: Mapping,
    bytes: Mapping,
    /// Readers and writers of each word, and of each byte of words that were accessed in parts.
    words: Mapping,
    parts: Mapping,
    /// A bit for each byte that was written.
    written: Mapping,
    size: u64,
    ranges: Mutex<Ranges>,
}

/// The allocations: first offset and bytes.
#[derive(Debug)]
struct Ranges {
    used: BTreeMap<u64, u64>,
    free: BTreeMap<u64, u64>,
}

impl Memory {
    pub(crate) fn new() -> Option<Self> {
        WINDOWS.into_iter().find_map(Self::of_size)
    }

    fn of_size(size: u64) -> Option<Self> {
        let length = size as usize;
        let free = BTreeMap::from([(RED, size - RED)]);
        Some(Self {
            window: Mapping::new(length, false)?,
            bytes: Mapping::new(length, true)?,
            words: Mapping::new(length / 4 * size_of::<Cell>(), true)?,
            parts: Mapping::new(length * size_of::<Cell>(), true)?,
            written: Mapping::new(length / 8, true)?,
            size,
            ranges: Mutex::new(Ranges { used: BTreeMap::new(), free }),
        })
    }

    fn ranges(&self) -> MutexGuard<'_, Ranges> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the address of the start of the window.
    pub(crate) fn base(&self) -> u64 {
        self.window.at().expose_provenance() as u64
    }

    /// Allocates bytes that nobody has written. Returns their address.
    pub(crate) fn alloc(&self, bytes: usize) -> Result<*mut u8, AllocError> {
        let wanted = (bytes as u64).max(1).checked_next_multiple_of(disc_abi::ALIGN as u64).ok_or(AllocError::Size)?;
        if wanted >= self.size {
            return Err(AllocError::OverLimit(self.size));
        }
        let mut ranges = self.ranges();
        let found = ranges.free.iter().find(|&(_, &length)| length >= wanted + RED).map(|(&at, &length)| (at, length));
        let (at, length) = found.ok_or(AllocError::OverLimit(self.size))?;
        ranges.free.remove(&at);
        if length > wanted + RED {
            ranges.free.insert(at + wanted + RED, length - wanted - RED);
        }
        ranges.used.insert(at, bytes as u64);
        drop(ranges);
        self.cells().forget(at, wanted);
        Ok(self.window.at().wrapping_add(at as usize))
    }

    /// Frees an allocation.
    pub(crate) fn free(&self, at: *mut u8) {
        let offset = (at.addr() as u64).wrapping_sub(self.base());
        let mut ranges = self.ranges();
        let Some(bytes) = ranges.used.remove(&offset) else { return };
        let wanted = bytes.max(1).next_multiple_of(disc_abi::ALIGN as u64);
        self.cells().forget(offset, wanted);
        if wanted >= LARGE {
            let (start, length) = (offset as usize, wanted as usize);
            // SAFETY: whole pages of an allocation that nobody uses any more.
            unsafe {
                self.bytes.clear(start, length);
                self.words.clear(start / 4 * size_of::<Cell>(), length / 4 * size_of::<Cell>());
                self.parts.clear(start * size_of::<Cell>(), length * size_of::<Cell>());
            }
        }
        let (mut start, mut end) = (offset, offset + wanted + RED);
        if let Some(length) = ranges.free.remove(&end) {
            end += length;
        }
        if let Some((&before, &length)) = ranges.free.range(..start).next_back()
            && before + length == start
        {
            start = before;
        }
        ranges.free.insert(start, end - start);
    }

    /// Returns the offsets of the allocation that an address is in, and the address's own.
    pub(crate) fn allocation(&self, address: u64) -> Option<(u64, Range<u64>)> {
        let offset = address.checked_sub(self.base()).filter(|&offset| offset < self.size)?;
        let ranges = self.ranges();
        let (&at, &bytes) = ranges.used.range(..=offset).next_back()?;
        (offset <= at + bytes).then_some((offset, at..at + bytes))
    }

    /// Returns the bytes at an offset.
    pub(crate) fn at(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset <= self.size);
        self.bytes.at().wrapping_add(offset as usize)
    }

    pub(crate) fn cells(&self) -> Cells<'_> {
        // SAFETY: the mappings have a cell for each word and byte of the window and a bit for each
        // byte, and live as long as this.
        unsafe { Cells::new(self.words.at().cast(), self.parts.at().cast(), self.written.at().cast(), self.size) }
    }

    /// Forgets readers and writers: the numbers of launches start anew. The caller sees to it that
    /// no launch runs.
    pub(crate) fn forget_accesses(&self) {
        let length = self.size as usize;
        // SAFETY: no launch runs, and nothing else uses cells.
        unsafe {
            self.words.clear(0, length / 4 * size_of::<Cell>());
            self.parts.clear(0, length * size_of::<Cell>());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_apart_aligned_and_found_by_their_addresses() {
        let memory = Memory::of_size(1 << 30).unwrap();
        let blocks: Vec<_> = [1, 64, 65, 4096, 5 << 20].map(|bytes| (memory.alloc(bytes).unwrap(), bytes)).into();
        for (i, &(at, bytes)) in blocks.iter().enumerate() {
            let address = at.addr() as u64;
            assert!(address.is_multiple_of(disc_abi::ALIGN as u64));
            let (offset, range) = memory.allocation(address + 1).unwrap();
            assert_eq!((offset, range.end - range.start), (range.start + 1, bytes as u64));
            assert!(i == 0 || address >= blocks[i - 1].0.addr() as u64 + blocks[i - 1].1 as u64 + RED - 64);
            assert!(memory.allocation(address + bytes as u64 + 1).is_none());
        }
        blocks.iter().for_each(|&(at, _)| memory.free(at));
        let ranges = memory.ranges();
        assert_eq!((ranges.used.len(), ranges.free.clone()), (0, BTreeMap::from([(RED, (1 << 30) - RED)])));
    }

    #[test]
    fn a_request_over_the_window_is_an_error() {
        let memory = Memory::of_size(1 << 30).unwrap();
        assert_eq!(memory.alloc(1 << 30), Err(AllocError::OverLimit(1 << 30)));
        assert_eq!(memory.alloc(usize::MAX - 5), Err(AllocError::Size));
        assert!(memory.alloc((1 << 30) - 4096).is_ok());
        assert_eq!(memory.alloc(4096), Err(AllocError::OverLimit(1 << 30)));
    }
}
