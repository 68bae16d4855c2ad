//! Finds the function of the fake driver that puts a function into a stream.
use std::ffi::c_void;

/// Memory of the device, while a function runs: `host_calls::DeviceMemory` of disc-fake-cuda.
#[repr(C)]
pub struct DeviceMemory {
    device: *mut c_void,
    read: unsafe extern "C" fn(*mut c_void, *mut u8, u64, usize) -> u32,
    write: unsafe extern "C" fn(*mut c_void, u64, *const u8, usize) -> u32,
}

impl DeviceMemory {
    /// Copies from the device.
    ///
    /// # Errors
    /// The driver's status.
    pub fn read(&self, from: u64, bytes: usize) -> Result<Vec<u8>, u32> {
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
    pub fn write(&self, to: u64, bytes: &[u8]) -> Result<(), u32> {
        // SAFETY: as above.
        match unsafe { (self.write)(self.device, to, bytes.as_ptr(), bytes.len()) } {
            0 => Ok(()),
            status => Err(status),
        }
    }
}

/// A function that a stream runs; its status ends the context unless it is 0.
pub type HostFunction = unsafe extern "C" fn(*mut c_void, *const DeviceMemory) -> u32;
type Enqueue = unsafe extern "C" fn(*mut c_void, HostFunction, *mut c_void) -> u32;

/// Lets a stream run a function once, with data that the function frees.
///
/// # Errors
/// No fake driver (false), or a stream that it does not know (true); the function never runs then.
///
/// # Safety
/// The function may be called with the data, by any thread.
pub unsafe fn enqueue(stream: *mut c_void, function: HostFunction, data: *mut c_void) -> Result<(), bool> {
    // SAFETY: a text that ends with a zero; the driver was loaded for the whole process.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"fake_cuda_enqueue".as_ptr()) };
    if found.is_null() {
        return Err(false);
    }
    // SAFETY: the type of the function in disc-fake-cuda.
    let enqueue = unsafe { std::mem::transmute::<*mut c_void, Enqueue>(found) };
    // SAFETY: the function may be called with its data.
    match unsafe { enqueue(stream, function, data) } {
        0 => Ok(()),
        _ => Err(true),
    }
}
