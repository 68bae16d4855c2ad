//! Finds the function of the fake driver that puts a function into a stream.
use crate::status::{EXECUTION_FAILED, NOT_INITIALIZED, Status};
use std::ffi::c_void;

/// As `host_calls::DeviceMemory` of disc-fake-cuda.
#[repr(C)]
pub(crate) struct DeviceMemory {
    device: *mut c_void,
    read: unsafe extern "C" fn(*mut c_void, *mut u8, u64, usize) -> u32,
    write: unsafe extern "C" fn(*mut c_void, u64, *const u8, usize) -> u32,
}

impl DeviceMemory {
    /// Copies from the device.
    ///
    /// # Errors
    /// The driver's status.
    pub(crate) fn read(&self, from: u64, bytes: usize) -> Result<Vec<u8>, u32> {
        let mut found = vec![0; bytes];
        // SAFETY: as many bytes as there is room for; the simulated GPU checks its addresses.
        match unsafe { (self.read)(self.device, found.as_mut_ptr(), from, bytes) } {
            0 => Ok(found),
            status => Err(status),
        }
    }

    /// Copies to the device.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) fn write(&self, to: u64, bytes: &[u8]) -> Result<(), u32> {
        // SAFETY: as above.
        match unsafe { (self.write)(self.device, to, bytes.as_ptr(), bytes.len()) } {
            0 => Ok(()),
            status => Err(status),
        }
    }
}

pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void, *const DeviceMemory) -> u32;
type Enqueue = unsafe extern "C" fn(*mut c_void, HostFunction, *mut c_void) -> u32;

/// Lets a stream run a function once, with data that the function frees.
///
/// # Errors
/// No fake driver, or a stream that it does not know; the function never runs then.
pub(crate) fn enqueue(stream: *mut c_void, function: HostFunction, data: *mut c_void) -> Result<(), Status> {
    // SAFETY: a text that ends with a zero; the driver was loaded for the whole process.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"fake_cuda_enqueue".as_ptr()) };
    if found.is_null() {
        return Err(NOT_INITIALIZED);
    }
    // SAFETY: the type of the function in disc-fake-cuda.
    let enqueue = unsafe { std::mem::transmute::<*mut c_void, Enqueue>(found) };
    // SAFETY: the function may be called with its data.
    match unsafe { enqueue(stream, function, data) } {
        0 => Ok(()),
        _ => Err(EXECUTION_FAILED),
    }
}
