//! Loads the libraries of NVIDIA's that the tests use: crates/disc-fake-cublaslt and
//! crates/disc-fake-cudnn.
#![allow(dead_code, reason = "each test uses its part")]
pub(crate) mod run;

use std::{
    ffi::{CStr, CString, c_char, c_void},
    path::{Path, PathBuf},
};

/// A library for tests.
pub(crate) struct Names {
    /// The file that cargo builds.
    built: &'static str,
    /// The name of the library.
    pub(crate) soname: &'static str,
}

pub(crate) const CUBLAS_LT: Names = Names { built: "libdisc_fake_cublaslt.so", soname: "libcublasLt.so.13" };
pub(crate) const CUDNN: Names = Names { built: "libdisc_fake_cudnn.so", soname: "libcudnn.so.9" };

impl Names {
    /// Returns the path of the library, which cargo builds for these tests.
    pub(crate) fn path(&self) -> PathBuf {
        std::env::current_exe().expect("the path of this test").with_file_name(self.built)
    }
}

/// The functions by which tests control a library.
pub(crate) struct FakeLibrary {
    fail: unsafe extern "C" fn(*const c_char, i32),
    forget: unsafe extern "C" fn() -> i32,
    alive: unsafe extern "C" fn() -> isize,
    calls: unsafe extern "C" fn(*mut u8, usize) -> usize,
}

impl FakeLibrary {
    /// Loads a library, as a framework does.
    pub(crate) fn load(names: &Names) -> Self {
        Self::open(&names.path(), libc::RTLD_NOW).expect("cargo has built it")
    }

    /// Returns a library that the process has loaded.
    pub(crate) fn loaded(names: &Names) -> Option<Self> {
        Self::open(Path::new(names.soname), libc::RTLD_NOW | libc::RTLD_NOLOAD)
    }

    fn open(path: &Path, flags: i32) -> Option<Self> {
        let path = CString::new(path.as_os_str().as_encoded_bytes()).expect("a path");
        // SAFETY: loads a library whose constructors do nothing.
        let library = unsafe { libc::dlopen(path.as_ptr(), flags) };
        // SAFETY: the functions have these types in crates/disc-fake-library/src/control.rs.
        (!library.is_null()).then(|| unsafe {
            Self {
                fail: function(library, c"fake_library_fail"),
                forget: function(library, c"fake_library_forget"),
                alive: function(library, c"fake_library_alive"),
                calls: function(library, c"fake_library_calls"),
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

    /// Returns how many descriptors are alive.
    pub(crate) fn alive(&self) -> isize {
        // SAFETY: nothing is passed.
        unsafe { (self.alive)() }
    }

    /// Returns the functions that were called since the last time, and `computed` for each matmul
    /// or convolution that has run.
    pub(crate) fn calls(&self) -> Vec<String> {
        let mut text = vec![0; 1 << 20];
        // SAFETY: room for this many bytes.
        let bytes = unsafe { (self.calls)(text.as_mut_ptr(), text.len()) };
        text.truncate(bytes);
        String::from_utf8(text).expect("names").lines().map(str::to_owned).collect()
    }

    /// Returns how many matmuls or convolutions have run since the calls were last asked for.
    pub(crate) fn computed(&self) -> usize {
        self.calls().iter().filter(|call| call.starts_with("computed")).count()
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
