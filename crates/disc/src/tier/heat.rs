//! Accumulates the time of calls by shape: a small table that threads share without waiting.
//!
//! It is not exact: two shapes may fall into one row, where the more expensive one evicts the
//! other, and an update may be lost to another thread's. Decisions based on it may come later for
//! that, and are right all the same.
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Rows of the table.
const ROWS: usize = 64;

/// Accumulated calls of one shape since it entered the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Warmth {
    pub(super) calls: u32,
    pub(super) nanoseconds: u64,
}

#[derive(Default)]
struct Row {
    key: AtomicU64,
    calls: AtomicU32,
    nanoseconds: AtomicU64,
}

pub(super) struct Heat {
    rows: Box<[Row]>,
}

impl Default for Heat {
    fn default() -> Self {
        Self { rows: (0..ROWS).map(|_| Row::default()).collect() }
    }
}

impl Heat {
    /// Adds a call of the shape with this key. Returns the total of its calls so far.
    pub(super) fn add(&self, key: u64, nanoseconds: u64) -> Warmth {
        let row = &self.rows[(key % ROWS as u64) as usize];
        let before = row.nanoseconds.load(Relaxed);
        if row.key.load(Relaxed) != key {
            if before > nanoseconds {
                row.nanoseconds.store(before - nanoseconds, Relaxed);
                return Warmth { calls: 1, nanoseconds };
            }
            row.key.store(key, Relaxed);
            row.calls.store(1, Relaxed);
            row.nanoseconds.store(nanoseconds, Relaxed);
            return Warmth { calls: 1, nanoseconds };
        }
        let calls = row.calls.load(Relaxed).saturating_add(1);
        let nanoseconds = before.saturating_add(nanoseconds);
        row.calls.store(calls, Relaxed);
        row.nanoseconds.store(nanoseconds, Relaxed);
        Warmth { calls, nanoseconds }
    }

    /// Resets the shape with this key.
    pub(super) fn cool(&self, key: u64) {
        let row = &self.rows[(key % ROWS as u64) as usize];
        if row.key.load(Relaxed) == key {
            row.calls.store(0, Relaxed);
            row.nanoseconds.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_adds_up_and_cools() {
        let heat = Heat::default();
        assert_eq!(heat.add(7, 100), Warmth { calls: 1, nanoseconds: 100 });
        assert_eq!(heat.add(7, 50), Warmth { calls: 2, nanoseconds: 150 });
        heat.cool(7);
        assert_eq!(heat.add(7, 5), Warmth { calls: 1, nanoseconds: 5 });
    }

    #[test]
    fn the_shape_that_costs_more_keeps_the_row() {
        let (heat, other) = (Heat::default(), 7 + ROWS as u64);
        heat.add(7, 100);
        assert_eq!(heat.add(other, 60).calls, 1);
        assert_eq!(heat.add(7, 1).nanoseconds, 41);
        assert_eq!(heat.add(other, 60), Warmth { calls: 1, nanoseconds: 60 });
        assert_eq!(heat.add(other, 60).calls, 2);
        assert_eq!(heat.add(7, 1).calls, 1);
    }
}
