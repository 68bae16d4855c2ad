//! Lets a test see which functions are called, and make them fail.
use crate::Status;
use std::{
    ffi::{CStr, c_char},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The wish of a test, and the facts that it may ask for.
struct Control {
    /// The functions that were called, in order, and what the library notes beside.
    calls: Vec<&'static str>,
    /// The function that fails, and its result.
    failure: Option<(String, Status)>,
    alive: isize,
}

static CONTROL: Mutex<Control> = Mutex::new(Control { calls: Vec::new(), failure: None, alive: 0 });

fn control() -> MutexGuard<'static, Control> {
    CONTROL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes a call.
///
/// # Errors
/// The status that a test wants.
pub fn called(function: &'static str) -> Result<(), Status> {
    let mut control = control();
    control.calls.push(function);
    match control.failure.take_if(|(name, _)| name == function) {
        Some((_, status)) => Err(status),
        None => Ok(()),
    }
}

/// Notes something that a test may ask for, beside the calls.
pub fn note(what: &'static str) {
    control().calls.push(what);
}

/// Notes that descriptors were made or destroyed.
pub fn made(count: isize) {
    control().alive += count;
}

/// Lets the next call of a function fail.
///
/// # Safety
/// `function` is a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_library_fail(function: *const c_char, status: Status) {
    // SAFETY: the caller's promise.
    let function = unsafe { CStr::from_ptr(function) }.to_string_lossy().into_owned();
    control().failure = Some((function, status));
}

/// Forgets a failure that is still to come. Returns 1 if there was one.
#[unsafe(no_mangle)]
pub extern "C" fn fake_library_forget() -> i32 {
    control().failure.take().is_some().into()
}

/// Returns how many descriptors are alive.
#[unsafe(no_mangle)]
pub extern "C" fn fake_library_alive() -> isize {
    control().alive
}

/// Writes the names of the functions that were called since the last time, a line each, and forgets
/// them. Returns the bytes that there are, of which at most `bytes` are written.
///
/// # Safety
/// `to` has room for `bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_library_calls(to: *mut u8, bytes: usize) -> usize {
    let calls = std::mem::take(&mut control().calls).join("\n");
    // SAFETY: the caller's promise.
    unsafe { to.copy_from_nonoverlapping(calls.as_ptr(), calls.len().min(bytes)) };
    calls.len()
}
