//! Runs launches on the process's thread pool: one launch is one job, split into contiguous ranges
//! of units.
//!
//! It does not schedule tasks. A caller hands its job to workers that are idle at that moment,
//! works itself as thread 0, takes over ranges that nobody has begun, and takes back the job from
//! workers that never saw it.
//!
//! Invariants:
//! - a caller waits only for threads that are inside one of its kernels, so it can always finish
//!   its job without help, even if workers are busy, descheduled, or could not be started;
//!   concurrent callers never wait for each other's jobs;
//! - the split of a launch depends on units, cost and thread limit, never on timing; the assignment
//!   of parts to threads does depend on timing;
//! - the reported fault is that of the smallest failing unit, whatever the split;
//! - workers are started when they are first needed, and a forked child starts its own.

mod futex;
mod job;
mod size;
mod worker;

pub(crate) use job::{Scratch, Slots, run_inline};
pub use size::default_threads;

use crate::device::{Fault, Launch, Threads};
use job::Job;
use std::{
    ptr,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
};
use worker::Worker;

/// The most threads of one launch, the caller included.
pub const MAX_THREADS: usize = 256;

/// Pins each worker, from its next job on, to one CPU of the process's affinity mask. Callers are
/// never moved.
pub fn pin_workers() {
    PIN.store(true, Ordering::Relaxed);
}

/// Returns the number of workers that this process has started.
pub fn started_workers() -> usize {
    pool().workers.iter().filter(|worker| worker.is_started()).count()
}

static PIN: AtomicBool = AtomicBool::new(false);
static POOL: AtomicPtr<Pool> = AtomicPtr::new(ptr::null_mut());

struct Pool {
    workers: Box<[Worker]>,
    /// Number of workers that may be used: one less than the largest number of threads that a
    /// launch was ever allowed. Thus many sessions at once share the workers of one instead of
    /// starting their own.
    usable: AtomicUsize,
}

/// Runs a job on up to `threads` threads, at least 2.
///
/// # Safety
/// As [`crate::device::Queue::launch`]; `scratch` has room for `threads` parts.
pub(crate) unsafe fn run(launch: &Launch, threads: usize, slots: &mut Slots, scratch: Scratch) -> Result<Threads, Fault> {
    debug_assert!((2..=MAX_THREADS).contains(&threads), "an inline launch has a path of its own");
    let pool = pool();
    if pool.usable.load(Ordering::Relaxed) < threads - 1 {
        pool.usable.fetch_max(threads - 1, Ordering::Relaxed);
    }
    let job = Job::new(launch, slots.split(launch, threads), scratch);
    let mut claimed = Claimed::default();
    pool.claim(&job, threads, &mut claimed);
    // SAFETY: the caller's promise; slot 0 is nobody else's.
    unsafe { job.work(0) };
    let taken = claimed.take_back(pool, &job);
    job.wait(taken);
    job.into_result().map(|()| taken + 1)
}

impl Pool {
    fn new() -> Self {
        Self { workers: (0..MAX_THREADS - 1).map(|_| Worker::new()).collect(), usable: AtomicUsize::new(0) }
    }

    /// Gives slots 1.. of the job to idle workers. Slot `i` tends to go to the same worker at each
    /// launch, whose caches hold its part.
    fn claim(&'static self, job: &Job<'_>, threads: usize, claimed: &mut Claimed) {
        let usable = self.usable.load(Ordering::Relaxed);
        for (index, worker) in self.workers[..usable].iter().enumerate() {
            let slot = claimed.count + 1;
            if slot == threads {
                break;
            }
            if worker.offer(job.address(slot), index) {
                claimed.workers[claimed.count] = index as u8;
                claimed.count += 1;
            }
        }
    }
}

/// The workers that one job was offered to: the one at position `i` got slot `i + 1`.
struct Claimed {
    workers: [u8; MAX_THREADS],
    count: usize,
}

impl Default for Claimed {
    fn default() -> Self {
        Self { workers: [0; MAX_THREADS], count: 0 }
    }
}

impl Claimed {
    /// Takes the job back from workers that have not begun. Returns the number of those that have.
    fn take_back(&self, pool: &Pool, job: &Job<'_>) -> u32 {
        let begun = |(position, index): (usize, &u8)| !pool.workers[usize::from(*index)].take_back(job.address(position + 1));
        self.workers[..self.count].iter().enumerate().filter(|entry| begun(*entry)).count() as u32
    }
}

/// Returns the pool of this process.
fn pool() -> &'static Pool {
    let present = POOL.load(Ordering::Acquire);
    // SAFETY: a pool is never freed.
    if present.is_null() { create() } else { unsafe { &*present } }
}

#[cold]
fn create() -> &'static Pool {
    static WATCHES_FORK: AtomicBool = AtomicBool::new(false);
    if !WATCHES_FORK.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler only stores to an atomic, which is allowed in a forked child. Without
        // it (out of memory) a forked child would only find no idle workers, and its callers do the
        // work.
        unsafe { libc::pthread_atfork(None, None, Some(forget)) };
    }
    let fresh = Box::into_raw(Box::new(Pool::new()));
    match POOL.compare_exchange(ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: leaked just now.
        Ok(_) => unsafe { &*fresh },
        Err(other) => {
            // SAFETY: `fresh` was seen by nobody; `other` is never freed.
            unsafe {
                drop(Box::from_raw(fresh));
                &*other
            }
        }
    }
}

/// Drops the pool in a forked child, where no worker lives; a new one starts with the first launch.
extern "C" fn forget() {
    POOL.store(ptr::null_mut(), Ordering::Release);
}
