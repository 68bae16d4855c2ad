//! Waits on a word of memory, by the Linux futex call.

use std::{
    ptr,
    sync::atomic::{AtomicU32, Ordering},
};

/// Sleeps while the word holds `value`; may return early.
pub(super) fn wait(word: &AtomicU32, value: u32) {
    if word.load(Ordering::Relaxed) != value {
        return;
    }
    // SAFETY: the word is valid during the call; no timeout.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            ptr::null::<libc::timespec>(),
        );
    }
}

/// Wakes one sleeper at this address. The word itself is not accessed: it may be gone already.
pub(super) fn wake(word: *const AtomicU32) {
    // SAFETY: the call takes the address as a key only; an address without sleepers, or unmapped,
    // has no effect.
    unsafe {
        libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
    }
}
