//! Errors as C sees them, and the guard that turns every failure into one.

use disc_ral::{Error, code};
use std::{
    any::Any,
    ffi::{CStr, CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

/// A failure: a code and a message. Free it with `disc_error_free`.
pub struct disc_error {
    code: CString,
    message: CString,
}

/// Returns the code of an error, such as `"E0901"`; docs/errors.md lists them. The text lives as
/// long as the error. NULL has the code `""`.
///
/// # Safety
/// `error` is NULL or an error that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn disc_error_code(error: *const disc_error) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { error.as_ref() }.map_or(c"".as_ptr(), |error| error.code.as_ptr())
}

/// Returns the message of an error, in UTF-8 and without its code. The text lives as long as the
/// error. NULL has the message `""`.
///
/// # Safety
/// `error` is NULL or an error that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn disc_error_message(error: *const disc_error) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { error.as_ref() }.map_or(c"".as_ptr(), |error| error.message.as_ptr())
}

/// Frees an error. NULL is allowed.
///
/// # Safety
/// `error` is NULL or an error that was not freed, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn disc_error_free(error: *mut disc_error) {
    // SAFETY: the caller's promise; errors come from `into_raw`.
    unsafe { free(error) }
}

/// Frees an object that [`give`] or [`guard`] gave to the caller.
///
/// # Safety
/// `object` is null, or came from there and was not freed.
pub(crate) unsafe fn free<T>(object: *mut T) {
    if !object.is_null() {
        // A panic of a destructor must not reach C; it leaks the object.
        // SAFETY: the caller's promise.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(object) })));
    }
}

/// Gives an object to the caller.
///
/// # Safety
/// `to` is valid for a write.
pub(crate) unsafe fn give<T>(to: *mut *mut T, object: T) {
    // SAFETY: the caller's promise.
    unsafe { to.write(Box::into_raw(Box::new(object))) }
}

/// Runs the body of a function. Returns null, or its failure.
pub(crate) fn guard(body: impl FnOnce() -> Result<(), Error>) -> *mut disc_error {
    let result = catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|panic| Err(Error::new(code::INTERNAL, "", format!("disc panicked: {}", reason(&*panic)))));
    let Err(error) = result else { return ptr::null_mut() };
    let text = |text: &str| CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
    Box::into_raw(Box::new(disc_error { code: text(error.code()), message: text(&error.message) }))
}

fn reason(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason is known")
}

pub(crate) fn null(argument: &str) -> Error {
    Error::new(code::BAD_ARGUMENT, argument, format!("the argument `{argument}` is NULL"))
}

/// Reads a text of the caller.
///
/// # Safety
/// `text` is null, or a text that ends with a zero byte, valid for `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char, argument: &str) -> Result<&'a str, Error> {
    if text.is_null() {
        return Err(null(argument));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Error::new(code::BAD_ARGUMENT, argument, format!("the argument `{argument}` is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(error: *mut disc_error) -> (String, String) {
        // SAFETY: an error of `guard`, freed once.
        unsafe {
            let text = |text| CStr::from_ptr(text).to_str().unwrap().to_owned();
            let read = (text(disc_error_code(error)), text(disc_error_message(error)));
            disc_error_free(error);
            read
        }
    }

    #[test]
    fn failures_and_panics_become_errors() {
        assert!(guard(|| Ok(())).is_null());
        assert_eq!(read(guard(|| Err(null("path")))), ("E0700".into(), "the argument `path` is NULL".into()));
        assert_eq!(read(guard(|| Err(Error::new(code::PACKAGE, "", "a\0b")))).1, "a\u{fffd}b");
        let (code, message) = read(guard(|| panic!("out of {}", "luck")));
        assert_eq!((&*code, &*message), ("E0609", "disc panicked: out of luck"));
        assert_eq!(read(ptr::null_mut()), (String::new(), String::new()));
    }
}
