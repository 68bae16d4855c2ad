//! Loads a library for tests: the runtime has the real loader, which this crate must not depend on.
use std::{
    ffi::{CString, c_void},
    fs::File,
    io::Write,
    os::fd::{AsRawFd, FromRawFd},
};

/// A loaded shared object. Its file stays open: glibc knows a loaded library by its path.
pub(crate) struct Library {
    handle: *mut c_void,
    _file: File,
}

impl Library {
    pub(crate) fn load(bytes: &[u8]) -> Self {
        // SAFETY: a NUL-terminated name; the descriptor that comes back is ours.
        let mut file = unsafe { File::from_raw_fd(libc::memfd_create(c"code".as_ptr(), libc::MFD_CLOEXEC)) };
        file.write_all(bytes).unwrap();
        let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        // SAFETY: a NUL-terminated path; generated libraries have no constructors.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "dlopen failed");
        Self { handle, _file: file }
    }

    /// # Safety
    /// `F` is a function pointer of the signature that the symbol has, and is not called after the
    /// library is gone.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &str) -> F {
        const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
        // SAFETY: as the caller promises.
        unsafe { std::mem::transmute_copy(&self.symbol(name)) }
    }

    fn symbol(&self, name: &str) -> *const c_void {
        let name = CString::new(name).unwrap();
        // SAFETY: a live handle and a NUL-terminated name.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        assert!(!address.is_null(), "{name:?} is not exported");
        address
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle came from dlopen and is closed once.
        unsafe { libc::dlclose(self.handle) };
    }
}
