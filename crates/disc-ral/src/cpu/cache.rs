//! Reads the size of the last-level cache and derives the threshold for non-temporal stores from
//! it.
//!
//! Invariant: CPUID, or what Linux says of another CPU, is read once; whatever it says, the size is
//! clamped to [`LEAST`] and [`MOST`].
use std::sync::OnceLock;

/// Kernels that read and write this many times the cache size use non-temporal stores. They write a
/// half or a third of that, so almost none of the result would still be cached when its consumer
/// reads it from the start.
const TIMES: i64 = 2;

/// Virtual machines may report too little, and non-temporal stores of results that fit in the cache
/// take up to three times as long.
const LEAST: i64 = disc_abi::LEAST_NONTEMPORAL_BYTES / TIMES;

/// A process gets only a part of a cache that many cores share.
const MOST: i64 = 256 << 20;

pub(super) fn nontemporal_bytes() -> i64 {
    static BYTES: OnceLock<i64> = OnceLock::new();
    *BYTES.get_or_init(|| TIMES * last_level().unwrap_or(LEAST).clamp(LEAST, MOST))
}

/// Returns the bytes of the largest cache, as CPUID describes it.
#[cfg(target_arch = "x86_64")]
fn last_level() -> Option<i64> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // The leaves of Intel and AMD have the same form; the other vendor's leaf describes no caches.
    let leaves = [(0, 4), (0x8000_0000, 0x8000_001d)].into_iter().filter(|&(range, leaf)| __cpuid(range).eax >= leaf);
    let sizes = leaves.flat_map(|(_, leaf)| (0..MOST_CACHES).map(move |number| __cpuid_count(leaf, number)));
    let caches = sizes.filter(|cache| cache.eax & 0x1f != NO_CACHE);
    caches.map(|cache| bytes(cache.ebx, cache.ecx)).max().filter(|&bytes| bytes > 0)
}

#[cfg(not(target_arch = "x86_64"))]
fn last_level() -> Option<i64> {
    described_by_linux()
}

/// Returns the bytes of the largest cache, as Linux describes it.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn described_by_linux() -> Option<i64> {
    let read = |index: u32| std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size"));
    let kib = |text: String| text.trim().strip_suffix('K').and_then(|kib| kib.parse::<i64>().ok());
    (0..MOST_CACHES).filter_map(|index| kib(read(index).ok()?)).max().map(|kib| kib << 10).filter(|&bytes| bytes > 0)
}

/// More than any CPU describes.
const MOST_CACHES: u32 = 8;
#[cfg(target_arch = "x86_64")]
const NO_CACHE: u32 = 0;

/// Returns the bytes of a cache from its geometry: line size, partitions and ways, each less one,
/// in 12, 10 and 10 bits of the first word; sets less one in the second.
#[cfg(target_arch = "x86_64")]
fn bytes(geometry: u32, sets: u32) -> i64 {
    let field = |from: u32, bits: u32| i64::from(geometry >> from & ((1 << bits) - 1)) + 1;
    (field(0, 12) * field(12, 10) * field(22, 10)).saturating_mul(i64::from(sets) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_within_bounds() {
        assert!((TIMES * LEAST..=TIMES * MOST).contains(&nontemporal_bytes()));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_cache_is_its_lines_times_ways_times_sets() {
        // 32 MiB in 16 ways of lines of 64 bytes, as an EPYC describes it.
        assert_eq!(bytes(15 << 22 | 63, 32767), 32 << 20);
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    fn the_size_is_what_the_system_says() {
        if let Some(bytes) = described_by_linux() {
            assert_eq!(last_level(), Some(bytes));
        }
    }
}
