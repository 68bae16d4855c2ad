//! Counts the outcomes of the caches of this process.
use super::Level;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub hits: u64,
    pub misses: u64,
    /// Entries that were corrupt, truncated, or of another key: each is a miss too.
    pub rejected: u64,
    /// Entries that could not be written.
    pub unwritten: u64,
    /// Entries that were removed to make room.
    pub evicted: u64,
}

#[derive(Clone, Copy)]
pub(super) enum Event {
    Hit,
    Miss,
    Rejected,
    Unwritten,
    Evicted,
}

static COUNTS: [[AtomicU64; 5]; Level::ALL.len()] = [const { [const { AtomicU64::new(0) }; 5] }; Level::ALL.len()];

pub(super) fn count(level: Level, event: Event) {
    COUNTS[level as usize][event as usize].fetch_add(1, Ordering::Relaxed);
}

/// Returns the counts of this process so far.
pub fn counts(level: Level) -> Counts {
    let of = |event: Event| COUNTS[level as usize][event as usize].load(Ordering::Relaxed);
    Counts {
        hits: of(Event::Hit),
        misses: of(Event::Miss),
        rejected: of(Event::Rejected),
        unwritten: of(Event::Unwritten),
        evicted: of(Event::Evicted),
    }
}
