//! Packages: opened and closed.

use crate::error::{disc_error, free, give, guard, null, text};
use disc_ral::Package;
use std::ffi::c_char;

/// A compiled model in a file. Any number of threads may use it at once.
pub struct disc_package {
    pub(crate) package: Package,
}

/// Opens the package in a file, whose path is UTF-8. Close it with `disc_package_close`.
///
/// # Safety
/// `path` is NULL or a text that ends with a zero byte; `package` is NULL or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn disc_package_open(path: *const c_char, package: *mut *mut disc_package) -> *mut disc_error {
    guard(|| {
        if package.is_null() {
            return Err(null("package"));
        }
        // SAFETY: the caller's promise.
        let opened = Package::open(unsafe { text(path, "path") }?)?;
        // SAFETY: as above.
        unsafe { give(package, disc_package { package: opened }) };
        Ok(())
    })
}

/// Closes a package. Its sessions keep what they need. NULL is allowed.
///
/// # Safety
/// `package` is NULL or a package that was not closed, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn disc_package_close(package: *mut disc_package) {
    // SAFETY: the caller's promise.
    unsafe { free(package) }
}
