//! Loads the cuBLASLt that the tests use: crates/disc-fake-cublaslt.
#![allow(dead_code, reason = "each test uses its part")]
use std::{
    ffi::{CStr, CString, c_char, c_void},
    path::{Path, PathBuf},
};

/// The functions by which tests control the library.
pub(crate) struct FakeCublasLt {
    fail: unsafe extern "C" fn(*const c_char, i32),
    forget: unsafe extern "C" fn() -> i32,
    alive: unsafe extern "C" fn() -> isize,
    calls: unsafe extern "C" fn(*mut u8, usize) -> usize,
}

/// Returns the path of the library, which cargo builds for these tests.
pub(crate) fn path() -> PathBuf {
    std::env::current_exe().expect("the path of this test").with_file_name("libdisc_fake_cublaslt.so")
}

impl FakeCublasLt {
    /// Loads the library, as a framework does.
    pub(crate) fn load() -> Self {
        Self::open(&path(), libc::RTLD_NOW).expect("cargo has built it")
    }

    /// Returns the library that the process has loaded.
    pub(crate) fn loaded() -> Option<Self> {
        Self::open(Path::new("libcublasLt.so.13"), libc::RTLD_NOW | libc::RTLD_NOLOAD)
    }

    fn open(path: &Path, flags: i32) -> Option<Self> {
        let path = CString::new(path.as_os_str().as_encoded_bytes()).expect("a path");
        // SAFETY: loads a library whose constructors do nothing.
        let library = unsafe { libc::dlopen(path.as_ptr(), flags) };
        // SAFETY: the functions have these types in crates/disc-fake-cublaslt/src/control.rs.
        (!library.is_null()).then(|| unsafe {
            Self {
                fail: function(library, c"fake_cublaslt_fail"),
                forget: function(library, c"fake_cublaslt_forget"),
                alive: function(library, c"fake_cublaslt_alive"),
                calls: function(library, c"fake_cublaslt_calls"),
            }
        })
    }

    /// Lets the next call of a function fail.
    pub(crate) fn fail(&self, function: &str, status: i32) {
        let name = CString::new(function).expect("a name");
        // SAFETY: a text that ends with a zero.
        unsafe { (self.fail)(name.as_ptr(), status) }
    }

    /// Forgets a failure that is still to come. Returns true if there was one.
    pub(crate) fn forget(&self) -> bool {
        // SAFETY: nothing is passed.
        unsafe { (self.forget)() != 0 }
    }

    /// Returns how many descriptions are alive.
    pub(crate) fn alive(&self) -> isize {
        // SAFETY: nothing is passed.
        unsafe { (self.alive)() }
    }

    /// Returns the functions that were called since the last time, and `computed` for each matmul
    /// that has run.
    pub(crate) fn calls(&self) -> Vec<String> {
        let mut text = vec![0; 1 << 20];
        // SAFETY: room for this many bytes.
        let bytes = unsafe { (self.calls)(text.as_mut_ptr(), text.len()) };
        text.truncate(bytes);
        String::from_utf8(text).expect("names").lines().map(str::to_owned).collect()
    }

    /// Returns how many matmuls have run since the calls were last asked for.
    pub(crate) fn computed(&self) -> usize {
        self.calls().iter().filter(|call| *call == "computed").count()
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
