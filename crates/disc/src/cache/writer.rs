//! Writes prepared weights to disk on one thread of this process, after their module is loaded and
//! its first calls have run.
//!
//! Invariants:
//! - the caller that hands over a block does not wait for the write;
//! - the thread exists only while there are blocks, and yields to everything else that wants the
//!   CPU;
//! - some of the queued blocks are kept alive ([`MOST_HELD`]); the others are written only if
//!   somebody else still has them then;
//! - a process writes at most the capacity of the folder: more would only evict its own entries;
//! - [`write_out`], which a program calls before it exits, writes the queued blocks, for at most
//!   [`PATIENCE`]; afterwards no unfinished file remains;
//! - a forked child starts a thread of its own, and leaves the parent's unfinished block to the
//!   parent.
use super::{Cache, Key, mapped::Unfinished};
use disc_ral::Blobs;
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    process, slice,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, Weak,
        atomic::{
            AtomicU32, AtomicUsize,
            Ordering::{Acquire, Release},
        },
    },
    thread,
    time::{Duration, Instant},
};

/// Calls that come right after a module was loaded have the machine for themselves.
const DELAY: Duration = Duration::from_millis(250);
/// Time that an exit may spend on blocks that are not on disk yet.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time that a caller waits for the thread to stop writing.
const PATIENCE_TO_STOP: Duration = Duration::from_secs(1);
/// Bytes of all blocks that are kept alive only to be written.
const MOST_HELD: usize = 512 << 20;

/// The writer of this process.
pub(super) static WRITER: Writer = Writer::new(DELAY, MOST_HELD);

/// Writes the queued blocks in this thread: before the process exits, for tests and for
/// measurements. It gives up when `go_on` returns false, and after some seconds.
pub fn write_out(go_on: impl FnMut() -> bool) {
    WRITER.write_out(PATIENCE, go_on);
}

/// Immutable memory.
pub(super) trait Block: Send + Sync {
    fn contents(&self) -> &[u8];
}

impl Block for Blobs {
    fn contents(&self) -> &[u8] {
        // SAFETY: the block, which nobody writes to any more; of executables on the CPU, the only
        // ones whose weights are kept.
        unsafe { slice::from_raw_parts(self.at(), self.bytes()) }
    }
}

/// A block that will become an entry.
struct Job {
    cache: Cache,
    key: Key,
    bytes: usize,
    block: Weak<dyn Block>,
    held: Option<Arc<dyn Block>>,
    due: Instant,
    unfinished: Option<Unfinished>,
}

struct Queue {
    jobs: VecDeque<Job>,
    running: bool,
    /// Bytes of the block that the thread is writing.
    at_work: usize,
    /// Bytes that this process wrote, or will.
    spent: u64,
}

pub(super) struct Writer {
    delay: Duration,
    most_held: usize,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Number of callers that want the thread to put its block back and to end. It changes under
    /// the lock of the queue.
    stops: AtomicUsize,
    /// The process that owns the queue; 0 before the first block.
    process: AtomicU32,
}

impl Queue {
    const fn new() -> Self {
        Self { jobs: VecDeque::new(), running: false, at_work: 0, spent: 0 }
    }

    fn held(&self) -> usize {
        self.at_work + self.jobs.iter().filter(|job| job.held.is_some()).map(|job| job.bytes).sum::<usize>()
    }

    fn takes(&self, cache: &Cache, bytes: usize) -> bool {
        self.spent.saturating_add(bytes as u64) <= cache.room()
    }
}

impl Writer {
    const fn new(delay: Duration, most_held: usize) -> Self {
        Self {
            delay,
            most_held,
            queue: Mutex::new(Queue::new()),
            changed: Condvar::new(),
            stops: AtomicUsize::new(0),
            process: AtomicU32::new(0),
        }
    }

    /// Returns true if this many more bytes may be written.
    pub(super) fn takes(&self, cache: &Cache, bytes: usize) -> bool {
        self.enter().is_some_and(|queue| queue.takes(cache, bytes))
    }

    /// Hands a block to the thread. Returns true if it was taken.
    pub(super) fn submit(&'static self, cache: Cache, key: Key, block: Arc<dyn Block>) -> bool {
        let bytes = block.contents().len();
        let Some(mut queue) = self.enter().filter(|queue| queue.takes(&cache, bytes)) else { return false };
        if !queue.running {
            queue.running = thread::Builder::new().name("disc-cache".into()).spawn(|| self.work()).is_ok();
        }
        if queue.running {
            queue.spent += bytes as u64;
            let (due, weak) = (Instant::now() + self.delay, Arc::downgrade(&block));
            let held = (queue.held() + bytes <= self.most_held).then_some(block);
            queue.jobs.push_back(Job { cache, key, bytes, block: weak, held, due, unfinished: None });
        }
        queue.running
    }

    /// Writes the queued blocks in this thread, for at most `patience` and while `go_on` returns
    /// true; drops the others.
    fn write_out(&self, patience: Duration, mut go_on: impl FnMut() -> bool) {
        if !self.is_ours() {
            return;
        }
        let end = Instant::now() + patience;
        let mut go_on = || Instant::now() < end && go_on();
        let mut queue = self.stop(&mut go_on);
        while let Some(mut job) = queue.jobs.pop_front() {
            drop(queue);
            job.advance(&mut go_on);
            drop(job);
            queue = self.lock();
        }
        self.stops.fetch_sub(1, Release);
    }

    /// Drops all queued blocks.
    pub(super) fn drop_all(&self) {
        if !self.is_ours() {
            return;
        }
        let end = Instant::now() + PATIENCE_TO_STOP;
        let mut queue = self.stop(&mut || Instant::now() < end);
        let dropped = std::mem::take(&mut queue.jobs);
        queue.spent = 0;
        self.stops.fetch_sub(1, Release);
        drop(queue);
        drop(dropped);
    }

    /// Asks the thread to end, and waits until it has. The caller takes one from `stops` under the
    /// lock, when no job is left.
    fn stop(&self, go_on: &mut dyn FnMut() -> bool) -> MutexGuard<'_, Queue> {
        let mut queue = self.lock();
        self.stops.fetch_add(1, Release);
        self.changed.notify_all();
        while queue.running && go_on() {
            queue = self.changed.wait_timeout(queue, Duration::from_millis(20)).unwrap_or_else(PoisonError::into_inner).0;
        }
        queue
    }

    /// Locks the queue of this process. A forked child has a copy of its parent's, which it
    /// empties, or may never enter if a thread of the parent held the lock.
    fn enter(&self) -> Option<MutexGuard<'_, Queue>> {
        if self.is_ours() {
            return Some(self.lock());
        }
        let mut queue = match self.queue.try_lock() {
            Ok(queue) => queue,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        // Another thread may have been faster.
        if !self.is_ours() {
            *queue = Queue::new();
            self.stops.store(0, Release);
            self.process.store(process::id(), Release);
        }
        Some(queue)
    }

    fn is_ours(&self) -> bool {
        self.process.load(Acquire) == process::id()
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        self.stops.load(Acquire) > 0
    }

    /// Runs the thread.
    fn work(&self) {
        // SAFETY: a plain system call; on Linux it is only about this thread. If it fails the
        // thread is as urgent as others.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
        let mut queue = self.lock();
        while let Some(due) = queue.jobs.front().map(|job| job.due).filter(|_| !self.is_stopped()) {
            let early = due.saturating_duration_since(Instant::now());
            if !early.is_zero() {
                queue = self.changed.wait_timeout(queue, early).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let Some(mut job) = queue.jobs.pop_front() else { break };
            queue.at_work = job.bytes;
            drop(queue);
            let is_done = job.advance(&mut || !self.is_stopped());
            let unfinished = (!is_done).then_some(job);
            queue = self.lock();
            queue.at_work = 0;
            if let Some(job) = unfinished {
                queue.jobs.push_front(job);
            }
        }
        queue.running = false;
        self.changed.notify_all();
    }
}

impl Job {
    /// Writes as long as `go_on` returns true. Returns true if the job is over, successful or not.
    fn advance(&mut self, go_on: &mut dyn FnMut() -> bool) -> bool {
        let Some(block) = self.held.take().or_else(|| self.block.upgrade()) else { return true };
        let write = || self.cache.put_mapped(&self.key, block.contents(), &mut self.unfinished, go_on);
        // A panic would be a fault of this cache, and no reason to end a process.
        let is_done = catch_unwind(AssertUnwindSafe(write)).unwrap_or(true);
        self.held = (!is_done).then_some(block);
        is_done
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing::Folder, *};
    use std::sync::mpsc::{self, Receiver, Sender};

    const BYTES: usize = 40_000;
    /// Only `write_out` writes.
    const NEVER: Duration = Duration::from_secs(3600);

    impl Block for Vec<u8> {
        fn contents(&self) -> &[u8] {
            self
        }
    }

    /// A block that the thread cannot read before a message is sent; it reports the attempt.
    struct Slow(Sender<()>, Mutex<Receiver<()>>);

    impl Block for Slow {
        fn contents(&self) -> &[u8] {
            if thread::current().name() == Some("disc-cache") {
                self.0.send(()).unwrap();
                let _ = self.1.lock().unwrap().recv_timeout(Duration::from_secs(600));
            }
            &[1; BYTES]
        }
    }

    fn writer(delay: Duration, most_held: usize) -> &'static Writer {
        Box::leak(Box::new(Writer::new(delay, most_held)))
    }

    fn key(name: u8) -> Key {
        Key::of(&[&[name]])
    }

    fn block(name: u8) -> Arc<Vec<u8>> {
        Arc::new(vec![name; BYTES])
    }

    fn has(folder: &Folder, name: u8) -> bool {
        folder.has(&key(name), &block(name))
    }

    #[test]
    fn the_thread_writes_what_is_due_and_ends() {
        let (folder, writer) = (Folder::new("due"), writer(Duration::ZERO, MOST_HELD));
        for name in 1..4 {
            assert!(writer.submit(folder.cache(), key(name), block(name)));
        }
        let mut queue = writer.lock();
        while queue.running {
            queue = writer.changed.wait(queue).unwrap();
        }
        drop(queue);
        assert!((1..4).all(|name| has(&folder, name)));
    }

    #[test]
    fn a_process_writes_no_more_than_the_folder_takes() {
        let (folder, writer) = (Folder::new("spent"), writer(NEVER, MOST_HELD));
        let cache = || folder.cache().limited(100_000);
        let submit = |name| writer.takes(&cache(), BYTES) && writer.submit(cache(), key(name), block(name));
        assert_eq!([1, 2, 3].map(submit), [true, true, false]);
        assert!(!writer.submit(cache(), key(3), block(3)), "asked or not");
        writer.write_out(NEVER, || true);
        assert_eq!([1, 2, 3].map(|name| has(&folder, name)), [true, true, false]);
        assert!(!submit(3), "written is as much as waiting");
        writer.drop_all();
        assert!(submit(3), "who clears the cache begins anew");
        writer.drop_all();
    }

    #[test]
    fn of_blocks_that_wait_some_are_kept_alive() {
        let (folder, writer) = (Folder::new("held"), writer(NEVER, BYTES + BYTES / 2));
        let others = block(3);
        for block in [block(1), block(2), others.clone()] {
            assert!(writer.submit(folder.cache(), key(block[0]), block));
        }
        writer.write_out(NEVER, || true);
        assert_eq!([1, 2, 3].map(|name| has(&folder, name)), [true, false, true]);
        assert!(writer.submit(folder.cache(), key(4), block(4)), "what is written waits no longer");
        writer.write_out(NEVER, || true);
        assert!(has(&folder, 4));
    }

    #[test]
    fn an_exit_that_may_not_wait_leaves_nothing() {
        let (folder, writer) = (Folder::new("hurry"), writer(NEVER, MOST_HELD));
        let interrupted = || folder.files().is_empty();
        for (patience, go_on) in [(Duration::ZERO, &(|| true) as &dyn Fn() -> bool), (NEVER, &interrupted)] {
            let large = Arc::new(vec![1; 9 << 20]);
            assert!(writer.submit(folder.cache(), key(1), large));
            assert!(writer.submit(folder.cache(), key(2), block(2)));
            writer.write_out(patience, go_on);
            assert!(folder.files().is_empty());
            assert!(writer.lock().jobs.is_empty());
        }
    }

    #[test]
    fn an_exit_does_not_wait_for_a_disk_that_hangs() {
        let (folder, writer) = (Folder::new("hangs"), writer(Duration::ZERO, MOST_HELD));
        let ((release, released), (begin, begun)) = (mpsc::channel(), mpsc::channel());
        assert!(writer.submit(folder.cache(), key(1), Arc::new(Slow(begin, Mutex::new(released)))));
        begun.recv().unwrap();
        let start = Instant::now();
        writer.write_out(Duration::from_millis(50), || true);
        assert!(start.elapsed() < Duration::from_secs(120));
        assert_eq!(writer.lock().held(), BYTES, "it is kept alive");
        release.send(()).unwrap();
        let mut queue = writer.lock();
        while queue.running {
            queue = writer.changed.wait(queue).unwrap();
        }
        assert_eq!(queue.held(), 0);
    }

    /// Runs `work` in a forked child. Returns true if it does, within two minutes.
    fn in_child(work: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child runs `work`, of which a panic does not leave it, and ends without
        // anything else of this process.
        unsafe {
            match libc::fork() {
                0 => {
                    libc::alarm(120);
                    let is_right = catch_unwind(AssertUnwindSafe(work)).unwrap_or(false);
                    libc::_exit(i32::from(!is_right))
                }
                child => {
                    let mut status = -1;
                    libc::waitpid(child, &raw mut status, 0) == child && status == 0
                }
            }
        }
    }

    #[test]
    fn a_forked_child_leaves_what_was_begun_to_its_parent() {
        let (folder, writer) = (Folder::new("fork"), writer(NEVER, MOST_HELD));
        let large = Arc::new(vec![1; 9 << 20]);
        assert!(writer.submit(folder.cache(), key(1), large.clone()));
        // The thread was stopped midway, and starts anew later.
        let mut parts = 0;
        let mut two = || {
            parts += 1;
            parts < 3
        };
        assert!(!writer.lock().jobs[0].advance(&mut two));
        let begun = folder.files();
        assert_eq!(begun.len(), 1);
        assert!(in_child(|| {
            writer.write_out(NEVER, || true);
            writer.drop_all();
            let is_left = folder.files() == begun;
            // Now the queue belongs to the child.
            let is_taken = writer.submit(folder.cache(), key(2), block(2));
            writer.write_out(NEVER, || true);
            is_left && is_taken && has(&folder, 2) && !folder.has(&key(1), &large)
        }));
        assert!(begun[0].exists(), "the child removed it");
        writer.write_out(NEVER, || true);
        assert!(folder.has(&key(1), &large));
        assert_eq!(folder.files().len(), 2);
    }

    #[test]
    fn a_forked_child_does_not_wait_for_a_lock_that_nobody_gives_back() {
        let (folder, writer) = (Folder::new("lock"), writer(NEVER, MOST_HELD));
        assert!(writer.submit(folder.cache(), key(1), block(1)));
        let queue = writer.lock();
        assert!(in_child(|| {
            writer.write_out(NEVER, || true);
            writer.drop_all();
            !writer.takes(&folder.cache(), BYTES) && !writer.submit(folder.cache(), key(2), block(2))
        }));
        drop(queue);
        writer.write_out(NEVER, || true);
        assert!(has(&folder, 1) && !has(&folder, 2));
    }
}
