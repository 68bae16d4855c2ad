//! Lets other libraries put functions of theirs into a stream, which read and write memory of the
//! device: as a library launches kernels of its own.
use crate::{
    handles::{State, state},
    memory::{at, broken},
    status::Status,
    streams::{Op, stream_key},
};
use std::ffi::c_void;

/// A function that a stream runs, once. It returns 0, or a status that ends the context.
pub(crate) type HostFunction = unsafe extern "C" fn(data: *mut c_void, memory: *const DeviceMemory) -> Status;

/// Copies between memory of the device and of the host, while a function runs.
#[repr(C)]
pub struct DeviceMemory {
    /// The first argument of the copies.
    device: *mut c_void,
    read: unsafe extern "C" fn(device: *mut c_void, to: *mut u8, from: u64, bytes: usize) -> Status,
    write: unsafe extern "C" fn(device: *mut c_void, to: u64, from: *const u8, bytes: usize) -> Status,
}

/// The device that a function runs on.
struct Running<'s> {
    state: &'s mut State,
    context: usize,
}

/// Copies from the device.
///
/// # Safety
/// `device` is that of the running function; `to` has room for `bytes`.
unsafe extern "C" fn read(device: *mut c_void, to: *mut u8, from: u64, bytes: usize) -> Status {
    // SAFETY: the caller's promise.
    let Running { state, context } = unsafe { &mut *device.cast::<Running<'_>>() };
    // SAFETY: as above; the simulated GPU checks its own addresses.
    let copied = unsafe { state.contexts[*context].queue.download(to, at(from), bytes) };
    copied.map_or_else(|failure| broken(&failure), |()| 0)
}

/// Copies to the device.
///
/// # Safety
/// As [`read`]: `from` has `bytes`.
unsafe extern "C" fn write(device: *mut c_void, to: u64, from: *const u8, bytes: usize) -> Status {
    // SAFETY: the caller's promise.
    let Running { state, context } = unsafe { &mut *device.cast::<Running<'_>>() };
    // SAFETY: as above.
    let copied = unsafe { state.contexts[*context].queue.upload(at(to), from, bytes) };
    copied.map_or_else(|failure| broken(&failure), |()| 0)
}

impl State {
    /// Runs a function of another library.
    pub(crate) fn call(&mut self, context: usize, function: HostFunction, data: usize) -> Result<(), Status> {
        let mut running = Running { state: self, context };
        let memory = DeviceMemory { device: (&raw mut running).cast(), read, write };
        // SAFETY: the function was given with its data, and runs once.
        match unsafe { function(std::ptr::with_exposed_provenance_mut(data), &raw const memory) } {
            0 => Ok(()),
            status => Err(status),
        }
    }
}

/// Lets a stream run a function after what it has to do. It may not call the driver.
///
/// # Safety
/// The function may be called once with `data`, on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_cuda_enqueue(stream: *mut c_void, function: HostFunction, data: *mut c_void) -> Status {
    let mut state = state();
    let key = match stream_key(&mut state, stream) {
        Ok(key) => key,
        Err(status) => return status,
    };
    state.push(key, Op::Call { function, data: data.expose_provenance() }).err().unwrap_or(0)
}
