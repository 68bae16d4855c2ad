//! Lets a test see which functions are called, and make them fail.
use crate::{handles::state, status::Status};
use std::ffi::{CStr, c_char};

/// The wishes of a test, and the answers to its questions.
#[derive(Default)]
pub(crate) struct Control {
    /// The functions that were called, in order.
    calls: Vec<&'static str>,
    /// The function that fails, the calls of it that do not, and its result.
    failure: Option<(String, u32, Status)>,
    /// The copies from or to memory of the host that is not pinned.
    pub(crate) pageable: usize,
}

/// The version that the driver says it has.
const VERSION: i32 = 12_000;
const DEVICES: usize = 2;
const CHIP: u32 = 90;

impl Control {
    /// Notes a call.
    ///
    /// # Errors
    /// The status that a test wants.
    pub(crate) fn called(&mut self, function: &'static str) -> Result<(), Status> {
        self.calls.push(function);
        match &mut self.failure {
            Some((name, 0, status)) if name == function => {
                let status = *status;
                self.failure = None;
                Err(status)
            }
            Some((name, left, _)) if name == function => {
                *left -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn version(&self) -> i32 {
        number("FAKE_CUDA_VERSION").unwrap_or(VERSION)
    }

    pub(crate) fn devices(&self) -> usize {
        number("FAKE_CUDA_DEVICES").map_or(DEVICES, |devices| devices.max(0) as usize)
    }

    /// Returns 1 if devices have pools, 0 if they have none; none of both for a driver that does
    /// not know them (-1).
    pub(crate) fn pools(&self) -> Option<i32> {
        Some(number("FAKE_CUDA_POOLS").unwrap_or(1)).filter(|answer| *answer >= 0)
    }

    pub(crate) fn chip(&self) -> u32 {
        number("FAKE_CUDA_CHIP").map_or(CHIP, |chip| chip as u32)
    }
}

fn number(variable: &str) -> Option<i32> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Lets call number `skip` (from 0 on) of a function fail, once.
///
/// # Safety
/// `function` is a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_cuda_fail(function: *const c_char, skip: u32, status: Status) {
    // SAFETY: the caller's promise.
    let function = unsafe { CStr::from_ptr(function) }.to_string_lossy().into_owned();
    state().control.failure = Some((function, skip, status));
}

/// Forgets a failure that is still to come. Returns 1 if there was one.
#[unsafe(no_mangle)]
pub extern "C" fn fake_cuda_forget() -> i32 {
    state().control.failure.take().is_some().into()
}

/// Writes the names of the functions that were called since the last time, a line each, and forgets
/// them. Returns the bytes that there are, of which at most `bytes` are written.
///
/// # Safety
/// `to` has room for `bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_cuda_calls(to: *mut u8, bytes: usize) -> usize {
    let calls = std::mem::take(&mut state().control.calls).join("\n");
    // SAFETY: the caller's promise.
    unsafe { to.copy_from_nonoverlapping(calls.as_ptr(), calls.len().min(bytes)) };
    calls.len()
}

/// Returns how many things of a kind are alive: `streams`, `events`, `pinned`, `memory`,
/// `graphs`, `pools`; of `pageable`, how many copies there were from or to memory of the host that
/// is not pinned.
///
/// # Safety
/// `kind` is a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_cuda_alive(kind: *const c_char) -> usize {
    let state = state();
    // SAFETY: the caller's promise.
    match unsafe { CStr::from_ptr(kind) }.to_bytes() {
        b"streams" => state.streams.len(),
        b"events" => state.events.len(),
        b"pinned" => state.pinned.len(),
        b"memory" => state.memory.len(),
        b"graphs" => state.graphs.len() + state.instances.len(),
        b"pools" => state.pools.len(),
        b"pageable" => state.control.pageable,
        _ => usize::MAX,
    }
}
