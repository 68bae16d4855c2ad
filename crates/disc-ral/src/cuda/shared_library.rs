//! Opens shared libraries that stay loaded until the process ends.
use crate::library::loader_error;
use std::{
    ffi::{CStr, CString, OsStr, c_void},
    fs,
    mem::{self, MaybeUninit},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    ptr::NonNull,
};

/// A library that is never unloaded: CUDA's libraries have threads and functions that run when the
/// process ends.
#[derive(Clone, Copy, Debug)]
pub(in crate::cuda) struct SharedLibrary {
    handle: NonNull<c_void>,
}

/// Returns the paths of files in the folders of libraries of installed Python packages
/// (`nvidia/cu13/lib`), those of the first name first.
pub(in crate::cuda) fn in_packages(packages: &[PathBuf], names: &[String]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = packages
        .iter()
        .flat_map(|folder| fs::read_dir(folder.join("nvidia")))
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("lib"))
        .collect();
    // A folder is listed in any order: the choice has to be the same in every process.
    folders.sort();
    let paths = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    paths.filter(|path| path.is_file()).collect()
}

impl SharedLibrary {
    /// Returns the library of this name (`libnvJitLink.so.13`) if the process has loaded it.
    pub(in crate::cuda) fn loaded(name: &str) -> Option<Self> {
        Self::load(OsStr::new(name), libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NOLOAD)
    }

    /// Loads a library by its path, or by its name from the folders of the system.
    ///
    /// # Errors
    /// The message of the system's loader.
    pub(in crate::cuda) fn open(path: &Path) -> Result<Self, String> {
        Self::load(path.as_os_str(), libc::RTLD_NOW | libc::RTLD_LOCAL).ok_or_else(loader_error)
    }

    fn load(name: &OsStr, flags: i32) -> Option<Self> {
        let name = CString::new(name.as_bytes()).ok()?;
        // SAFETY: a NUL-terminated name. Its constructors are those of a library that the user
        // installed, and run when a framework loads it too.
        NonNull::new(unsafe { libc::dlopen(name.as_ptr(), flags) }).map(|handle| Self { handle })
    }

    /// Returns a function of the library.
    ///
    /// # Safety
    /// `F` is the type of the function: a function pointer.
    pub(in crate::cuda) unsafe fn function<F: Copy>(self, name: &str) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let address = self.address(name)?;
        // SAFETY: the caller's promise; sizes are equal.
        Some(unsafe { mem::transmute_copy::<NonNull<c_void>, F>(&address) })
    }

    /// Returns the file that a function of the library comes from.
    pub(in crate::cuda) fn file_of(self, name: &str) -> Option<PathBuf> {
        let address = self.address(name)?;
        let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: dladdr takes any address, and writes to `found` unless it returns 0. Its text is
        // of a library that stays loaded.
        unsafe {
            if libc::dladdr(address.as_ptr(), found.as_mut_ptr()) == 0 || found.assume_init_ref().dli_fname.is_null() {
                return None;
            }
            let file = CStr::from_ptr(found.assume_init().dli_fname);
            Some(PathBuf::from(OsStr::from_bytes(file.to_bytes())))
        }
    }

    fn address(self, name: &str) -> Option<NonNull<c_void>> {
        let name = CString::new(name).ok()?;
        // SAFETY: a live handle and a NUL-terminated name.
        NonNull::new(unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) })
    }
}

// SAFETY: dlsym may be called from any thread, and nothing else is done with the handle.
unsafe impl Send for SharedLibrary {}
// SAFETY: as above.
unsafe impl Sync for SharedLibrary {}

/// Declares the functions of a library by the names that it exports: a status that is not 0 is an
/// error, a structure of the `function` and its `status`.
macro_rules! functions {
    ($error:ident, version = $version:literal; $($method:ident = $symbol:literal($($name:ident: $ty:ty),*);)*) => {
        /// The functions of a library that is loaded.
        #[derive(Clone, Copy)]
        pub(super) struct Functions {
            $($method: unsafe extern "C" fn($($ty),*) -> ::std::ffi::c_int,)*
            version: unsafe extern "C" fn() -> usize,
        }

        impl Functions {
            /// Finds all functions.
            pub(super) fn of(library: $crate::cuda::shared_library::SharedLibrary) -> Option<Self> {
                // SAFETY: the types are those of the library's header.
                unsafe { Some(Self { $($method: library.function($symbol)?,)* version: library.function($version)? }) }
            }

            /// Returns the version of the library: 10,000 times the major version, and more.
            pub(super) fn version(&self) -> usize {
                // SAFETY: the function has no preconditions.
                unsafe { (self.version)() }
            }

            $(
                #[doc = concat!("Calls `", $symbol, "`.")]
                ///
                /// # Safety
                /// As the library's function; the context of the handle is current.
                #[allow(clippy::too_many_arguments, reason = "the library's function has them")]
                pub(super) unsafe fn $method(&self, $($name: $ty),*) -> Result<(), $error> {
                    // SAFETY: the caller's promise.
                    match unsafe { (self.$method)($($name),*) } {
                        0 => Ok(()),
                        status => Err($error { function: $symbol, status }),
                    }
                }
            )*
        }
    };
}
pub(in crate::cuda) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_with_its_file() {
        let library = SharedLibrary::loaded("libc.so.6").expect("every process has it");
        assert!(library.file_of("getpid").is_some_and(|file| file.to_string_lossy().contains("libc.so")));
        // SAFETY: the type of getpid.
        let getpid = unsafe { library.function::<unsafe extern "C" fn() -> i32>("getpid") }.expect("libc has it");
        // SAFETY: it has no preconditions.
        assert_eq!(unsafe { getpid() } as u32, std::process::id());
        assert!(library.file_of("no_such_function").is_none());
    }

    #[test]
    fn what_is_no_library_says_so() {
        assert!(SharedLibrary::loaded("libdisc_no_such.so.1").is_none());
        let error = SharedLibrary::open(Path::new("/nowhere/libdisc_no_such.so.1")).expect_err("there is none");
        assert!(error.contains("libdisc_no_such"), "{error}");
    }
}
