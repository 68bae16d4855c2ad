//! Runs one worker thread, which gets its jobs through a mailbox.
//!
//! The mailbox is null (idle), the address of a job with a slot number (offered, not yet seen), or
//! `BUSY`. The caller offers and takes back, the worker takes; each is one compare-exchange, so an
//! offer is either taken or taken back. A worker is idle again *before* it reports a job as
//! finished: the caller's next launch finds it.

use super::job::{Job, wait_awake};
use super::{PIN, futex};
use std::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering},
    thread,
};

#[repr(align(128))]
pub(super) struct Worker {
    mailbox: AtomicPtr<u8>,
    /// 1 while the thread sleeps, or is about to.
    parked: AtomicU32,
    state: AtomicU8,
}

const NEW: u8 = 0;
const STARTED: u8 = 1;
/// The system refused a thread: callers go on without.
const REFUSED: u8 = 2;

const IDLE: *mut u8 = ptr::null_mut();
/// No job has this address: jobs are aligned.
const BUSY: *mut u8 = ptr::without_provenance_mut(1);

/// Kernels keep large data in scratch, not on the stack.
const STACK_BYTES: usize = 2 << 20;

impl Worker {
    pub(super) fn new() -> Self {
        Self { mailbox: AtomicPtr::new(IDLE), parked: AtomicU32::new(0), state: AtomicU8::new(NEW) }
    }

    pub(super) fn is_started(&self) -> bool {
        self.state.load(Ordering::Relaxed) == STARTED
    }

    /// Offers a job. Returns false if the worker is not idle or cannot be started.
    pub(super) fn offer(&'static self, job: *mut u8, index: usize) -> bool {
        if self.mailbox.load(Ordering::Relaxed) != IDLE || self.state.load(Ordering::Relaxed) == REFUSED {
            return false;
        }
        // Sequentially consistent with the worker's `parked`: either it sees the offer, or we see
        // that it sleeps.
        if self.mailbox.compare_exchange(IDLE, job, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return false;
        }
        // Only the caller whose offer is open reaches this, so a thread is started once.
        if self.state.load(Ordering::Relaxed) == NEW && !self.start(index) {
            self.mailbox.store(IDLE, Ordering::Release);
            return false;
        }
        if self.parked.load(Ordering::SeqCst) == 1 {
            self.parked.store(0, Ordering::Relaxed);
            futex::wake(&self.parked);
        }
        true
    }

    /// Takes an offer back. Returns false if the worker has taken it.
    pub(super) fn take_back(&self, job: *mut u8) -> bool {
        self.mailbox.compare_exchange(job, IDLE, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn start(&'static self, index: usize) -> bool {
        // Before the thread exists: once it runs, the worker may be idle again and the next offer
        // must not start another.
        self.state.store(STARTED, Ordering::Relaxed);
        let body = move || {
            prepare_thread();
            self.serve(index + 1);
        };
        let started = thread::Builder::new().name(format!("disc-{}", index + 1)).stack_size(STACK_BYTES).spawn(body);
        if let Err(error) = &started {
            tracing::warn!("no thread for the pool: {error}");
            self.state.store(REFUSED, Ordering::Relaxed);
        }
        started.is_ok()
    }

    fn serve(&self, number: usize) {
        let mut is_pinned = false;
        loop {
            let (job, slot) = Job::from_address(self.next());
            if !is_pinned && PIN.load(Ordering::Relaxed) {
                is_pinned = true;
                pin_thread(number);
            }
            // SAFETY: a taken job lives until it is finished, and its slot is this worker's; its
            // caller vouches for the kernel.
            unsafe { (*job).work(slot) };
            self.mailbox.store(IDLE, Ordering::Release);
            // SAFETY: still alive, and counted by its caller because the offer was taken.
            unsafe { Job::finish(job) };
        }
    }

    /// Waits for the next offered job and takes it.
    fn next(&self) -> *mut u8 {
        loop {
            let mut taken = IDLE;
            wait_awake(|| {
                taken = self.take();
                taken != IDLE
            });
            if taken != IDLE {
                return taken;
            }
            self.park();
        }
    }

    fn take(&self) -> *mut u8 {
        let offer = self.mailbox.load(Ordering::Relaxed);
        let take = || self.mailbox.compare_exchange(offer, BUSY, Ordering::Acquire, Ordering::Relaxed);
        if offer != IDLE && take().is_ok() { offer } else { IDLE }
    }

    fn park(&self) {
        self.parked.store(1, Ordering::SeqCst);
        if self.mailbox.load(Ordering::SeqCst) == IDLE {
            futex::wait(&self.parked, 1);
        }
        self.parked.store(0, Ordering::Relaxed);
    }
}

/// Gives the thread the default floating-point environment (a thread inherits its creator's) and
/// leaves signals to the host's threads, except those that a fault of this thread raises.
fn prepare_thread() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: round to nearest, all exceptions masked, no flush to zero: the ABI's initial value.
    unsafe {
        let mxcsr: u32 = 0x1f80;
        std::arch::asm!("ldmxcsr [{}]", in(reg) &mxcsr, options(nostack, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("msr fpcr, {}", in(reg) 0u64, options(nomem, nostack));
    }
    // SAFETY: a signal set of only this thread.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut set);
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT, libc::SIGTRAP, libc::SIGPROF] {
            libc::sigdelset(&mut set, fault);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &set, ptr::null_mut());
    }
}

/// Pins this thread to the CPU at position `nth` of its affinity mask, modulo their number.
fn pin_thread(nth: usize) {
    // SAFETY: zeroed sets are empty, and CPU numbers are below their size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of_val(&set), &mut set) != 0 {
            return;
        }
        let cpus: Vec<usize> = (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect();
        let Some(&cpu) = cpus.get(nth % cpus.len().max(1)) else { return };
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}
