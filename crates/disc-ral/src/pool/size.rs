//! Chooses the number of threads for a process.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// Returns `DISC_NUM_THREADS`, else the number of CPUs that affinity mask and cgroup quota leave to
/// this process. Read once.
pub fn default_threads() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    match THREADS.load(Ordering::Relaxed) {
        0 => {
            let threads = decide(std::env::var("DISC_NUM_THREADS").ok().as_deref(), available());
            THREADS.store(threads, Ordering::Relaxed);
            threads
        }
        known => known,
    }
}

/// Reads the affinity mask and the quotas of cgroup v1 and v2, as the standard library does.
fn available() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn decide(wish: Option<&str>, available: usize) -> usize {
    let threads = match wish.map(|text| (text, text.trim().parse())) {
        Some((_, Ok(threads))) if threads > 0 => threads,
        Some((text, _)) => {
            tracing::warn!("DISC_NUM_THREADS is `{text}`, expected a positive number: ignored");
            available
        }
        None => available,
    };
    threads.clamp(1, super::MAX_THREADS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_wins_and_nonsense_is_ignored() {
        assert_eq!(decide(Some("3"), 2), 3);
        assert_eq!(decide(Some(" 1 "), 2), 1);
        assert_eq!(decide(Some("0"), 2), 2);
        assert_eq!(decide(Some("many"), 2), 2);
        assert_eq!(decide(Some("100000"), 2), super::super::MAX_THREADS);
        assert_eq!(decide(None, 0), 1);
    }

    #[test]
    fn a_thread_bound_to_one_cpu_counts_one() {
        // In a thread of its own, so that no other test sees the mask.
        thread::spawn(|| {
            // SAFETY: a zeroed set is empty, and CPU numbers are below its size.
            unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
                let first = (0..1024).find(|&cpu| libc::CPU_ISSET(cpu, &set)).unwrap();
                libc::CPU_ZERO(&mut set);
                libc::CPU_SET(first, &mut set);
                assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
            }
            assert_eq!(available(), 1);
        })
        .join()
        .unwrap();
    }
}
