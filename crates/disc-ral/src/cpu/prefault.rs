//! Prefaults one large block on a thread of its own, before it is needed and while other work is
//! done.
//!
//! The system clears a page when it is first written. For the prepared weights of a model that
//! takes as long as preparing them, and several times as long in a virtual machine that returns
//! free memory to its host. This is not an allocator: a request of about the same size gets the
//! block, any other request is served as without it.
//!
//! Invariants: the thread has ended when the block is handed out or unmapped; a process holds at
//! most one such block.
use super::{
    limit::machine_bytes,
    mapping::{self, LARGE},
};
use std::{
    ptr::NonNull,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

/// No system has smaller pages.
const PAGE: usize = 4096;

/// Keeps the block until it is handed out; unmaps it on drop otherwise.
#[derive(Debug)]
pub struct Prefault {
    number: u64,
}

/// The block. Only the thread writes to its pages until the thread has ended.
struct Held {
    number: u64,
    at: Start,
    length: usize,
    /// Size of the request; smaller requests than half of it do not take the block.
    bytes: usize,
    enough: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    /// Process that started the thread. A forked child has the block, but not the thread.
    process: u32,
}

struct Start(NonNull<u8>);

// SAFETY: an address; who may use it follows from `Held`.
unsafe impl Send for Start {}

static HELD: Mutex<Option<Held>> = Mutex::new(None);

fn held() -> MutexGuard<'static, Option<Held>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Prefault {
    /// Starts to prefault a block of about `bytes`. Returns `None` if the block is too small to be
    /// worth a thread, is larger than an eighth of the machine's memory (all of it is touched,
    /// needed or not), or if another block is held.
    pub fn start(bytes: usize) -> Option<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut held = held();
        if held.is_some() || bytes < 4 * LARGE || bytes as u64 > machine_bytes() / 8 {
            return None;
        }
        // Panels are padded, and transformed convolution kernels become several times as large;
        // address space costs nothing.
        let length = mapping::mapped(2 * bytes);
        let at = mapping::fresh(length).ok()?;
        let enough = Arc::new(AtomicBool::new(false));
        let (stop, start) = (Arc::clone(&enough), Start(at));
        let touch = move || {
            let start = start;
            for offset in (0..bytes).step_by(PAGE) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                // SAFETY: inside the mapping, which lives until this thread has ended and which
                // nobody else uses before.
                unsafe { start.0.as_ptr().add(offset).write_volatile(0) };
            }
        };
        match std::thread::Builder::new().name("disc-prefault".into()).spawn(touch) {
            Ok(thread) => {
                let number = NUMBER.fetch_add(1, Ordering::Relaxed);
                *held = Some(Held { number, at: Start(at), length, bytes, enough, thread, process: std::process::id() });
                Some(Self { number })
            }
            Err(_) => {
                // SAFETY: the fresh mapping; nothing uses it.
                unsafe { mapping::unmap(at, length) };
                None
            }
        }
    }
}

impl Drop for Prefault {
    fn drop(&mut self) {
        let mine = held().take_if(|held| held.number == self.number);
        if let Some(held) = mine {
            let length = held.length;
            if let Some(at) = held.stop() {
                // SAFETY: the whole mapping; its thread has ended.
                unsafe { mapping::unmap(at, length) };
            }
        }
    }
}

impl Held {
    /// Waits until the thread has ended and returns the block.
    fn stop(self) -> Option<NonNull<u8>> {
        if self.process != std::process::id() {
            // Dropping the handle would detach a thread that does not exist in this process.
            std::mem::forget(self.thread);
            return None;
        }
        self.enough.store(true, Ordering::Relaxed);
        self.thread.join().ok().map(|()| self.at.0)
    }
}

/// Returns the held block, cut to `length`, if it was started for about that size. Its contents are
/// undefined.
pub(super) fn take(length: usize) -> Option<NonNull<u8>> {
    let found = held().take_if(|held| length <= held.length && length >= held.bytes / 2)?;
    let whole = found.length;
    let at = found.stop()?;
    if whole > length {
        // SAFETY: the end of the mapping; lengths are whole pages.
        unsafe { mapping::unmap(at.add(length), whole - length) };
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::{super::memory, *};

    #[test]
    fn a_block_goes_to_who_needs_about_as_much_or_is_given_back() {
        let bytes = 16 * LARGE;
        assert!(Prefault::start(LARGE).is_none(), "not worth a thread");
        assert!(Prefault::start(usize::MAX).is_none(), "more than there is");

        let prefault = Prefault::start(bytes).unwrap();
        assert!(Prefault::start(bytes).is_none(), "one is held");
        let kept = held().as_ref().unwrap().at.0;
        let other = memory::allocate(2 * LARGE).unwrap();
        assert_ne!(other, kept, "a small one is not taken from it");
        // No other test of this crate asks for blocks of 32 MiB or more.
        let taken = memory::allocate(bytes + 12_345).unwrap();
        assert_eq!(taken, kept);
        assert!(held().is_none());
        drop(prefault);
        // SAFETY: both were allocated with these sizes, and are freed once.
        unsafe {
            taken.as_ptr().write_bytes(7, bytes + 12_345);
            memory::free(taken, bytes + 12_345);
            memory::free(other, 2 * LARGE);
        }

        let first = Prefault::start(bytes).unwrap();
        drop(first);
        assert!(held().is_none());
    }
}
