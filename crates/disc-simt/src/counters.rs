//! Counts what launches do: stands in for a profile where there is no GPU.
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// The sums over all launches of kernels of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelCounters {
    /// The name of the kernel.
    pub kernel: String,
    /// Launches.
    pub launches: u64,
    /// Sectors of 32 bytes that loads of warps asked for, and the least for so many bytes.
    pub load_sectors: u64,
    /// See `load_sectors`.
    pub least_load_sectors: u64,
    /// The same for stores.
    pub store_sectors: u64,
    /// See `store_sectors`.
    pub least_store_sectors: u64,
    /// Cycles that accesses to shared memory wait for banks.
    pub conflicts: u64,
    /// Bytes of global memory that threads read.
    pub bytes_read: u64,
    /// Bytes of global memory that threads wrote.
    pub bytes_written: u64,
    /// Barriers of blocks.
    pub barriers: u64,
    /// Branches that threads of one warp took differently.
    pub divergent: u64,
    /// Elements that ops computed.
    pub operations: u64,
}

impl KernelCounters {
    fn add(&mut self, other: &Self) {
        self.launches += other.launches;
        self.load_sectors += other.load_sectors;
        self.least_load_sectors += other.least_load_sectors;
        self.store_sectors += other.store_sectors;
        self.least_store_sectors += other.least_store_sectors;
        self.conflicts += other.conflicts;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.barriers += other.barriers;
        self.divergent += other.divergent;
        self.operations += other.operations;
    }
}

static COUNTERS: Mutex<BTreeMap<String, KernelCounters>> = Mutex::new(BTreeMap::new());

/// Adds the counters of a launch.
pub(crate) fn record(counters: &KernelCounters) {
    let mut all = COUNTERS.lock().unwrap_or_else(PoisonError::into_inner);
    match all.get_mut(&counters.kernel) {
        Some(sum) => sum.add(counters),
        None => drop(all.insert(counters.kernel.clone(), counters.clone())),
    }
}

/// Returns the counters of every kernel that was launched in the process, by name, and sets them to
/// zero if `reset`.
pub fn counters(reset: bool) -> Vec<KernelCounters> {
    let mut all = COUNTERS.lock().unwrap_or_else(PoisonError::into_inner);
    match reset {
        true => std::mem::take(&mut *all).into_values().collect(),
        false => all.values().cloned().collect(),
    }
}
