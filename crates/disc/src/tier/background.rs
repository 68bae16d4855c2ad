//! Compiles in the background on one thread of this process.
//!
//! Invariants:
//! - the caller that submits a job never waits: neither for the thread, nor for the lock of the
//!   queue. The thread may lose the CPU while it holds that lock, for long on a busy machine: the
//!   caller is refused, and offers the job again;
//! - the thread exists only while there are jobs, and yields to everything else that wants the CPU;
//! - before the process exits, queued jobs are dropped and the running one is awaited: LLVM must
//!   not be torn down under it;
//! - a forked child starts a thread of its own, unless it was forked while this one compiled: then
//!   it never does.
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    process,
    sync::{
        Condvar, Mutex, MutexGuard, Once, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

type Job = Box<dyn FnOnce() + Send>;

/// Jobs that may be queued.
const MOST_JOBS: usize = 16;
/// Deep enough for the recursion of LLVM's passes.
const STACK: usize = 64 << 20;

struct Queue {
    jobs: VecDeque<Job>,
    running: bool,
    stopped: bool,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { jobs: VecDeque::new(), running: false, stopped: false });
static IDLE: Condvar = Condvar::new();
/// The moment since when no more is wanted.
static STOPS: OnceLock<Instant> = OnceLock::new();
/// The process that the thread belongs to; 0 before the first job.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Returns true if a job may be taken now: asked before a job is made, which copies inputs.
pub(super) fn has_room() -> bool {
    QUEUE.try_lock().is_ok_and(|queue| !queue.stopped && queue.jobs.len() < MOST_JOBS)
}

/// Hands a job to the thread. Returns true if it was taken; it may be refused for a moment, while
/// the thread takes its next job.
pub(crate) fn submit(job: Job) -> bool {
    // `try_lock`: in a forked child another thread may hold the lock for ever.
    let Ok(mut queue) = QUEUE.try_lock() else { return false };
    if PROCESS.load(Relaxed) != process::id() {
        // The parent's thread was inside of LLVM, whose locks nobody releases here.
        if queue.running {
            return false;
        }
        PROCESS.store(process::id(), Relaxed);
    }
    if queue.stopped || queue.jobs.len() >= MOST_JOBS {
        return false;
    }
    static AT_EXIT: Once = Once::new();
    // Without it (out of memory) the process may end while LLVM works.
    // SAFETY: a function without arguments, of a library that is not unloaded.
    AT_EXIT.call_once(|| _ = unsafe { libc::atexit(stop_at_exit) });
    queue.jobs.push_back(job);
    if !queue.running {
        queue.running = thread::Builder::new().name("disc-specialize".into()).stack_size(STACK).spawn(work).is_ok();
    }
    if !queue.running {
        queue.jobs.pop_back();
    }
    queue.running
}

/// Returns the moment since when the process waits for the running job, to exit.
pub(crate) fn stops_since() -> Option<Instant> {
    STOPS.get().copied()
}

/// Waits until there is no job: for tests and for measurements.
pub fn wait() {
    if PROCESS.load(Relaxed) != process::id() {
        return;
    }
    let mut queue = lock();
    while queue.running {
        queue = IDLE.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Drops the queued jobs, awaits the running one, and takes no more: before the process exits.
pub fn stop() {
    if PROCESS.load(Relaxed) != process::id() {
        return;
    }
    let _ = STOPS.set(Instant::now());
    let dropped = {
        let mut queue = lock();
        queue.stopped = true;
        std::mem::take(&mut queue.jobs)
    };
    // Their contents may want locks of their own.
    drop(dropped);
    wait();
}

extern "C" fn stop_at_exit() {
    stop();
}

/// Runs `body` with the lock of the queue held, as if by the thread.
#[cfg(test)]
pub(super) fn while_locked<T>(body: impl FnOnce() -> T) -> T {
    let _queue = lock();
    body()
}

fn lock() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn work() {
    // SAFETY: a plain system call; on Linux it is only about this thread. If it fails the thread is
    // as urgent as others.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
    loop {
        let job = {
            let mut queue = lock();
            match queue.jobs.pop_front() {
                Some(job) => job,
                None => {
                    queue.running = false;
                    // The woken thread would preempt this one, which yields to all, and find the
                    // lock held.
                    drop(queue);
                    IDLE.notify_all();
                    return;
                }
            }
        };
        // A job counts its own panics; here nothing may end the thread.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}
