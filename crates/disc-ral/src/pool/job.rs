//! Distributes the units of one running launch over threads and records the first fault.
//!
//! Invariants: every unit is claimed exactly once, by a cursor per range; when the caller's `work`
//! returns, all units are claimed. After a fault, grains above it are skipped and grains below it
//! run, so the smallest failing unit wins.

use super::{MAX_THREADS, futex};
use crate::device::{Fault, Launch};
use disc_abi::STATUS_OK;
use std::{
    hint,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI64, AtomicU32, Ordering},
    },
    thread,
};

/// Pauses before a waiting thread yields, then yields before it sleeps: longer spins cost more than
/// they gain when two threads share a core.
pub(super) const SPINS: u32 = 400;
pub(super) const YIELDS: u32 = 16;

/// Nanoseconds of work of one grain, the part of a range that is claimed at once: large enough to
/// be invisible, small enough that a thread that lost its CPU leaves most of its range to others.
const GRAIN_COST: i64 = 50_000;
const MAX_GRAINS: i64 = 8;

/// Threads' scratch: part `i` starts at `at + i * step`.
#[derive(Clone, Copy)]
pub(crate) struct Scratch {
    pub(crate) at: *mut u8,
    pub(crate) step: usize,
}

/// One range of units. The next grain starts at `cursor`.
#[repr(align(128))]
pub(super) struct Slot {
    cursor: AtomicI64,
    end: i64,
    grain: i64,
}

/// The ranges of a launch; kept between launches.
#[derive(Default)]
pub(crate) struct Slots(Vec<Slot>);

impl Slots {
    /// Splits the units into `threads` contiguous ranges whose lengths differ by at most one.
    pub(super) fn split(&mut self, launch: &Launch, threads: usize) -> &[Slot] {
        let parts = threads as i64;
        let (base, rest) = (launch.units / parts, launch.units % parts);
        let grains = (launch.cost / parts / GRAIN_COST).clamp(1, MAX_GRAINS);
        self.0.clear();
        self.0.extend((0..parts).map(|part| {
            let begin = base * part + part.min(rest);
            let length = base + i64::from(part < rest);
            Slot { cursor: AtomicI64::new(begin), end: begin + length, grain: (length + grains - 1) / grains }
        }));
        &self.0
    }
}

/// Set in `finished` when the caller sleeps.
const WAITING: u32 = 1 << 31;

/// A launch that is running. It lives on the caller's stack; its alignment leaves the low byte of
/// its address to a slot number.
#[repr(align(256))]
pub(super) struct Job<'a> {
    launch: &'a Launch,
    slots: &'a [Slot],
    scratch: Scratch,
    /// Begin of the lowest grain that failed.
    failed: AtomicI64,
    fault: Mutex<Option<(i64, Fault)>>,
    /// Number of workers that have finished this job, and `WAITING`.
    finished: AtomicU32,
}

const _: () = assert!(align_of::<Job<'_>>() >= MAX_THREADS, "a slot number fits below the address");

impl<'a> Job<'a> {
    pub(super) fn new(launch: &'a Launch, slots: &'a [Slot], scratch: Scratch) -> Self {
        let (failed, finished) = (AtomicI64::new(i64::MAX), AtomicU32::new(0));
        Self { launch, slots, scratch, failed, fault: Mutex::new(None), finished }
    }

    /// Returns the address of the job with a slot number in its low byte.
    pub(super) fn address(&self, slot: usize) -> *mut u8 {
        (&raw const *self).cast::<u8>().cast_mut().wrapping_add(slot)
    }

    /// Undoes `address`.
    pub(super) fn from_address(address: *mut u8) -> (*const Job<'static>, usize) {
        let slot = address.addr() % align_of::<Job<'_>>();
        (address.wrapping_sub(slot).cast(), slot)
    }

    /// Runs the grains of this slot, then the remaining grains of the others.
    ///
    /// # Safety
    /// The kernel keeps its contract; no other thread works with this slot number.
    pub(super) unsafe fn work(&self, slot: usize) {
        let scratch = self.scratch.at.wrapping_add(slot * self.scratch.step);
        let (before, from) = self.slots.split_at(slot);
        for range in from.iter().chain(before) {
            // SAFETY: the caller's promise; this thread's own scratch.
            unsafe { self.drain(range, scratch) };
        }
    }

    /// # Safety
    /// As `work`; `scratch` is this thread's.
    unsafe fn drain(&self, range: &Slot, scratch: *mut u8) {
        // The load before the claim bounds the cursor: each thread overshoots at most once.
        while range.cursor.load(Ordering::Relaxed) < range.end {
            let begin = range.cursor.fetch_add(range.grain, Ordering::Relaxed);
            if begin >= range.end || begin > self.failed.load(Ordering::Relaxed) {
                break;
            }
            let end = range.end.min(begin + range.grain);
            // SAFETY: the caller's promise; a claimed grain is nobody else's.
            let status = unsafe { self.launch.kernel.function()(self.launch.args, begin, end, scratch) };
            if status != STATUS_OK {
                self.failed.fetch_min(begin, Ordering::Relaxed);
                // SAFETY: scratch holds at least the values.
                self.record(begin, unsafe { fault(status, scratch) });
            }
        }
    }

    #[cold]
    fn record(&self, begin: i64, fault: Fault) {
        let mut first = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none_or(|(at, _)| begin < at) {
            *first = Some((begin, fault));
        }
    }

    /// A worker's last act on a job: afterwards the caller may return, and the job is gone.
    ///
    /// # Safety
    /// The job is alive, and this worker was counted by the caller and finishes once.
    pub(super) unsafe fn finish(job: *const Self) {
        // SAFETY: alive until the count is complete, which this call makes it at the earliest.
        let (word, before) = unsafe { (&raw const (*job).finished, (*job).finished.fetch_add(1, Ordering::Release)) };
        if before & WAITING != 0 {
            futex::wake(word);
        }
    }

    /// Returns when `workers` workers have finished.
    pub(super) fn wait(&self, workers: u32) {
        let done = || self.finished.load(Ordering::Acquire) & !WAITING == workers;
        if wait_awake(done) {
            return;
        }
        loop {
            let before = self.finished.fetch_or(WAITING, Ordering::Acquire);
            if before & !WAITING == workers {
                return;
            }
            futex::wait(&self.finished, before | WAITING);
        }
    }

    pub(super) fn into_result(self) -> Result<(), Fault> {
        match self.fault.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((_, fault)) => Err(fault),
            None => Ok(()),
        }
    }
}

/// Spins, then yields, until `done`. Returns false when it is time to sleep.
pub(super) fn wait_awake(mut done: impl FnMut() -> bool) -> bool {
    for _ in 0..SPINS {
        if done() {
            return true;
        }
        hint::spin_loop();
    }
    for _ in 0..YIELDS {
        thread::yield_now();
        if done() {
            return true;
        }
    }
    false
}

/// Runs a whole launch on this thread.
///
/// # Safety
/// The kernel keeps its contract; `scratch` is large enough, and only this launch uses it.
pub(crate) unsafe fn run_inline(launch: &Launch, scratch: *mut u8) -> Result<(), Fault> {
    // SAFETY: the caller's promise.
    match unsafe { launch.kernel.function()(launch.args, 0, launch.units, scratch) } {
        STATUS_OK => Ok(()),
        // SAFETY: scratch holds at least the values.
        status => Err(unsafe { fault(status, scratch) }),
    }
}

/// # Safety
/// `scratch` is aligned and at least as large as the values of a kernel.
unsafe fn fault(status: i32, scratch: *const u8) -> Fault {
    // SAFETY: the caller's promise. Where the kernel wrote nothing the values are unspecified and
    // no message uses them.
    Fault { status, values: unsafe { scratch.cast::<[i64; disc_abi::KERNEL_VALUES]>().read_volatile() } }
}
