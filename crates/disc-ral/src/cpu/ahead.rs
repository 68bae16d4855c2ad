//! One large block whose pages are asked for before it is needed, by a thread of its own, while something else is done.
//!
//! The system clears a page when it is first written. For the prepared weights of a model that takes as long as preparing them, in a virtual
//! machine that gives free memory back to its host several times as long. Not an allocator: whoever asks for about as many bytes gets the
//! block, everyone else what they would get without it.
//!
//! Invariants: the thread has ended when the block is handed out or given back; a process holds one such block at most.
use super::{
    limit::machine_bytes,
    memory::{self, LARGE},
};
use std::{
    ptr::NonNull,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

/// No system has smaller ones.
const PAGE: usize = 4096;

/// As long as this lives, a block is kept for whoever needs one; then it is given back, unless it was handed out.
#[derive(Debug)]
pub struct Ahead {
    number: u64,
}

/// The block. Its pages are written by the thread alone until that has ended.
struct Held {
    number: u64,
    at: Start,
    length: usize,
    /// What it was asked for: less than half of it is not taken from here.
    bytes: usize,
    enough: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    /// A forked child has the block, but not the thread.
    process: u32,
}

struct Start(NonNull<u8>);

// SAFETY: an address; who may use it follows from `Held`.
unsafe impl Send for Start {}

static HELD: Mutex<Option<Held>> = Mutex::new(None);

fn held() -> MutexGuard<'static, Option<Held>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ahead {
    /// Begins to ask for a block of about `bytes`. None where that is not worth a thread, more than an eighth of the machine's memory (all of it is touched, needed or not), or where
    /// another one is held.
    pub fn start(bytes: usize) -> Option<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut held = held();
        if held.is_some() || bytes < 4 * LARGE || bytes as u64 > machine_bytes() / 8 {
            return None;
        }
        // Panels are padded, and kernels of convolutions become several times as large: addresses cost nothing.
        let length = memory::mapped(2 * bytes);
        let at = memory::fresh(length).ok()?;
        let enough = Arc::new(AtomicBool::new(false));
        let (stop, start) = (Arc::clone(&enough), Start(at));
        let touch = move || {
            let start = start;
            for offset in (0..bytes).step_by(PAGE) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                // SAFETY: inside the mapping, which lives until this thread has ended and which nobody else uses before.
                unsafe { start.0.as_ptr().add(offset).write_volatile(0) };
            }
        };
        match std::thread::Builder::new().name("disc-ahead".into()).spawn(touch) {
            Ok(thread) => {
                let number = NUMBER.fetch_add(1, Ordering::Relaxed);
                *held = Some(Held { number, at: Start(at), length, bytes, enough, thread, process: std::process::id() });
                Some(Self { number })
            }
            Err(_) => {
                // SAFETY: the fresh mapping; nothing uses it.
                unsafe { memory::unmap(at, length) };
                None
            }
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let mine = held().take_if(|held| held.number == self.number);
        if let Some(held) = mine {
            let length = held.length;
            if let Some(at) = held.stop() {
                // SAFETY: the whole mapping; its thread has ended.
                unsafe { memory::unmap(at, length) };
            }
        }
    }
}

impl Held {
    /// The block, when its thread has ended.
    fn stop(self) -> Option<NonNull<u8>> {
        if self.process != std::process::id() {
            // Dropping the handle would detach a thread that is not there.
            std::mem::forget(self.thread);
            return None;
        }
        self.enough.store(true, Ordering::Relaxed);
        self.thread.join().ok().map(|()| self.at.0)
    }
}

/// The block that is held, cut to `length`, if it is one of about that size. What is in it is not said.
pub(super) fn take(length: usize) -> Option<NonNull<u8>> {
    let found = held().take_if(|held| length <= held.length && length >= held.bytes / 2)?;
    let whole = found.length;
    let at = found.stop()?;
    if whole > length {
        // SAFETY: the end of the mapping; lengths are whole pages.
        unsafe { memory::unmap(at.add(length), whole - length) };
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_goes_to_who_needs_about_as_much_or_is_given_back() {
        let bytes = 16 * LARGE;
        assert!(Ahead::start(LARGE).is_none(), "not worth a thread");
        assert!(Ahead::start(usize::MAX).is_none(), "more than there is");

        let ahead = Ahead::start(bytes).unwrap();
        assert!(Ahead::start(bytes).is_none(), "one is held");
        let kept = held().as_ref().unwrap().at.0;
        let other = memory::allocate(2 * LARGE).unwrap();
        assert_ne!(other, kept, "a small one is not taken from it");
        // No other test of this crate asks for blocks of 32 MiB or more.
        let taken = memory::allocate(bytes + 12_345).unwrap();
        assert_eq!(taken, kept);
        assert!(held().is_none());
        drop(ahead);
        // SAFETY: both were allocated with these sizes, and are freed once.
        unsafe {
            taken.as_ptr().write_bytes(7, bytes + 12_345);
            memory::free(taken, bytes + 12_345);
            memory::free(other, 2 * LARGE);
        }

        let first = Ahead::start(bytes).unwrap();
        drop(first);
        assert!(held().is_none());
    }
}
