//! Sessions: made, run and freed.

use crate::{
    error::{disc_error, free, give, guard, null, text},
    output::Outputs,
    package::disc_package,
    tensor::{disc_tensor, list},
};
use disc_ral::{Error, Session, SessionOptions, TensorRef};
use std::ffi::c_char;

/// The means to run the entries of a package, one call at a time. Sessions of one package run at
/// once, in different threads.
pub struct disc_session {
    session: Session,
}

/// Options for a session. All fields of 0 are the defaults.
#[repr(C)]
pub struct disc_session_options {
    /// The most threads that a call uses, that of the caller included; 0 for all processors that
    /// the process may use.
    pub threads: usize,
    /// The device to run on: `"cpu"`, which is also that of NULL.
    pub device: *const c_char,
}

/// Makes a session of a package. `options` of NULL are the defaults. Free it with
/// `disc_session_free`.
///
/// # Safety
/// `package` is NULL or an open package; `options` is NULL or valid; `session` is NULL or valid for
/// a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn disc_session_new(
    package: *const disc_package,
    options: *const disc_session_options,
    session: *mut *mut disc_session,
) -> *mut disc_error {
    guard(|| {
        // SAFETY: the caller's promise.
        let (package, options) = unsafe { (package.as_ref().ok_or_else(|| null("package"))?, options.as_ref()) };
        if session.is_null() {
            return Err(null("session"));
        }
        let mut wanted = SessionOptions::default();
        if let Some(options) = options {
            wanted.threads = (options.threads > 0).then_some(options.threads);
            if !options.device.is_null() {
                // SAFETY: the caller's promise.
                wanted.device = Some(unsafe { text(options.device, "device") }?.to_owned());
            }
        }
        let made = Session::new(&package.package, wanted)?;
        // SAFETY: the caller's promise.
        unsafe { give(session, disc_session { session: made }) };
        Ok(())
    })
}

/// Frees a session. NULL is allowed.
///
/// # Safety
/// `session` is NULL or a session that was not freed, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn disc_session_free(session: *mut disc_session) {
    // SAFETY: the caller's promise.
    unsafe { free(session) }
}

/// Runs an entry of the package, `"main"` in most. There are as many inputs and outputs as the
/// entry has, in its order.
///
/// An output with `data` of NULL is allocated, and all its fields are set; free it with
/// `disc_tensor_free`. Any other is written to the memory of the caller, which has element type and
/// sizes of the output. After a failure no output is allocated, memory of the caller has undefined
/// contents, and the session can be used again.
///
/// # Safety
/// `session` is NULL or a session that no other thread uses; `entry` is NULL or a text that ends
/// with a zero byte; `inputs` and `outputs` are NULL or have so many tensors, which describe valid
/// memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn disc_session_run(
    session: *mut disc_session,
    entry: *const c_char,
    inputs: *const disc_tensor,
    n_inputs: usize,
    outputs: *mut disc_tensor,
    n_outputs: usize,
) -> *mut disc_error {
    guard(|| {
        // SAFETY: the caller's promise.
        let session = &mut unsafe { session.as_mut() }.ok_or_else(|| null("session"))?.session;
        // SAFETY: as above.
        let entry = unsafe { text(entry, "entry") }?;
        // SAFETY: as above.
        let (inputs, given) = unsafe { (list(inputs, n_inputs, "inputs")?, list(outputs, n_outputs, "outputs")?) };
        // SAFETY: as above.
        let inputs = unsafe { borrow(session, entry, inputs) }?;
        // SAFETY: as above.
        let mut made = unsafe { Outputs::borrow(given, &inputs) }?;
        session.run_strided(entry, &inputs, &mut made.memory)?;
        // SAFETY: as above.
        unsafe { made.give(outputs) }
    })
}

/// Borrows the inputs; those that the model writes to may be written to.
///
/// # Safety
/// The inputs describe memory that is valid for `'a`.
unsafe fn borrow<'a>(session: &Session, entry: &str, inputs: &[disc_tensor]) -> Result<Vec<TensorRef<'a>>, Error> {
    let infos = session.package().entry(entry)?.inputs();
    let borrow = |(i, input): (usize, &disc_tensor)| {
        let info = infos.get(i);
        let what = info.map_or_else(|| format!("input {i}"), |info| format!("input {i} (`{}`)", info.name()));
        // SAFETY: the caller's promise.
        let tensor = unsafe { input.as_input(&what) }?;
        Ok(if info.is_some_and(disc_ral::InputInfo::is_written) { tensor.writable() } else { tensor })
    };
    inputs.iter().enumerate().map(borrow).collect()
}
