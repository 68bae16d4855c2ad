//! Loads the CUDA driver that the tests use: crates/disc-fake-cuda.
#![allow(dead_code, reason = "each test uses its part")]
use std::{
    ffi::{CStr, CString, c_char, c_void},
    path::PathBuf,
    sync::OnceLock,
};

/// The functions by which tests control the driver.
pub(crate) struct FakeCuda {
    fail: unsafe extern "C" fn(*const c_char, u32, u32),
    forget: unsafe extern "C" fn() -> i32,
    calls: unsafe extern "C" fn(*mut u8, usize) -> usize,
    alive: unsafe extern "C" fn(*const c_char) -> usize,
}

/// Names the variable of the environment with the path of another library.
pub(crate) const PATH: &str = "DISC_TEST_LIBCUDA";

/// Returns the path of the library, which cargo builds for these tests.
pub(crate) fn path() -> PathBuf {
    if let Some(path) = std::env::var_os(PATH) {
        return path.into();
    }
    let test = std::env::current_exe().expect("the path of this test");
    test.with_file_name("libdisc_fake_cuda.so")
}

impl FakeCuda {
    /// Loads the library. Whoever asks for `libcuda.so.1` from now on gets it.
    pub(crate) fn load() -> &'static Self {
        static LOADED: OnceLock<FakeCuda> = OnceLock::new();
        LOADED.get_or_init(|| {
            let path = CString::new(path().into_os_string().into_encoded_bytes()).expect("a path");
            // SAFETY: loads a library whose constructors do nothing.
            let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
            assert!(!library.is_null(), "{path:?} cannot be loaded");
            // SAFETY: the functions have these types in crates/disc-fake-cuda/src/control.rs.
            unsafe {
                Self {
                    fail: function(library, c"fake_cuda_fail"),
                    forget: function(library, c"fake_cuda_forget"),
                    calls: function(library, c"fake_cuda_calls"),
                    alive: function(library, c"fake_cuda_alive"),
                }
            }
        })
    }

    /// Lets call number `skip` (from 0 on) of a function fail, once.
    pub(crate) fn fail(&self, function: &str, skip: u32, status: u32) {
        let name = CString::new(function).expect("a name");
        // SAFETY: a text that ends with a zero.
        unsafe { (self.fail)(name.as_ptr(), skip, status) }
    }

    /// Forgets a failure that is still to come. Returns true if there was one.
    pub(crate) fn forget(&self) -> bool {
        // SAFETY: nothing is passed.
        unsafe { (self.forget)() != 0 }
    }

    /// Returns the functions that were called since the last time.
    pub(crate) fn calls(&self) -> Vec<String> {
        let mut text = vec![0; 1 << 20];
        // SAFETY: room for this many bytes.
        let bytes = unsafe { (self.calls)(text.as_mut_ptr(), text.len()) };
        text.truncate(bytes);
        String::from_utf8(text).expect("names").lines().map(str::to_owned).collect()
    }

    /// Returns how many things of a kind are alive.
    pub(crate) fn alive(&self, kind: &str) -> usize {
        let kind = CString::new(kind).expect("a name");
        // SAFETY: a text that ends with a zero.
        unsafe { (self.alive)(kind.as_ptr()) }
    }
}

/// # Safety
/// The library has a function of this name and type.
unsafe fn function<F: Copy>(library: *mut c_void, name: &CStr) -> F {
    // SAFETY: a loaded library.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!found.is_null(), "the library has no {name:?}");
    // SAFETY: the caller's promise.
    unsafe { std::mem::transmute_copy(&found) }
}
