//! Holds the words that a failed assertion of a kernel writes, in memory of the host that kernels
//! reach: to look at them needs no copy. Scalars that the host fetches have room after them.

use super::{context::Gpu, context::MAPPED, driver::CudaError};
use crate::device::Fault;
use disc_abi::KERNEL_VALUES;
use std::{ptr, sync::Arc};

/// The site of the first failure, 0 without one, and its values.
const WORDS: usize = 1 + KERNEL_VALUES;
/// Scalars that are fetched at once.
pub(super) const SCALARS: usize = 32;

/// The report of one queue.
pub(super) struct Report {
    gpu: Arc<Gpu>,
    words: *mut u64,
    /// The address of the words for kernels.
    pub(super) address: u64,
}

// SAFETY: the memory belongs only to this value and to kernels of its queue.
unsafe impl Send for Report {}

impl Report {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<Self, CudaError> {
        let (mut at, mut address) = (ptr::null_mut(), 0);
        gpu.call(|driver| {
            // SAFETY: each writes one address.
            unsafe {
                driver.alloc_host(&mut at, (WORDS + SCALARS) * 8, MAPPED)?;
                let found = driver.address_of_host(&mut address, at, 0);
                if found.is_err() {
                    // What failed is reported, not this.
                    let _ = driver.free_host(at);
                }
                found
            }
        })?;
        let report = Self { gpu: Arc::clone(gpu), words: at.cast(), address };
        report.clear();
        Ok(report)
    }

    fn clear(&self) {
        (0..WORDS).for_each(|word| {
            // SAFETY: memory of the report; kernels may write to it at the same time.
            unsafe { self.words.add(word).write_volatile(0) };
        });
    }

    /// Returns the address of a word that a scalar may be copied to; `number` is less than
    /// [`SCALARS`].
    pub(super) fn scalar(&self, number: usize) -> *mut u64 {
        debug_assert!(number < SCALARS, "the room has an end");
        self.words.wrapping_add(WORDS + number)
    }

    /// Returns true if a kernel has failed.
    pub(super) fn has_failure(&self) -> bool {
        // SAFETY: as above.
        unsafe { self.words.read_volatile() != 0 }
    }

    /// Returns the failure, and forgets it. All kernels that may write have ended.
    pub(super) fn take(&self) -> Option<Fault> {
        if !self.has_failure() {
            return None;
        }
        // SAFETY: as above.
        let word = |word: usize| unsafe { self.words.add(word).read_volatile() };
        let status = i32::try_from(word(0)).unwrap_or(i32::MAX);
        let mut values = [0; KERNEL_VALUES];
        values.iter_mut().zip(1..).for_each(|(value, at)| *value = word(at) as i64);
        self.clear();
        Some(Fault { status, values })
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        // SAFETY: memory of this report, which no kernel uses any more: its queue has waited. After
        // a failure that ended the context there is nothing to free.
        let _ = self.gpu.call(|driver| unsafe { driver.free_host(self.words.cast()) });
    }
}
