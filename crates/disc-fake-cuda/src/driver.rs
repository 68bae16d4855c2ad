//! Declares functions of the driver, and implements those of the driver itself and of devices.
use crate::{
    control::Control,
    handles::{current, pointer, pop, push},
    status::{INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, NOT_INITIALIZED, Status, texts},
};
use std::ffi::{c_char, c_int, c_void};

/// Exports functions: each notes its call, fails if a test wants it, and runs its body on the
/// state.
macro_rules! driver {
    ($(fn $name:ident($state:ident $(, $argument:ident: $ty:ty)*) $body:block)*) => {
        $(
            /// A function of the driver.
            ///
            /// # Safety
            /// As the driver's function of this name.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments, reason = "the driver's function is called so")]
            pub unsafe extern "C" fn $name($($argument: $ty),*) -> $crate::status::Status {
                let mut state = $crate::handles::state();
                let $state: &mut $crate::handles::State = &mut state;
                let mut run = move || -> Result<(), $crate::status::Status> {
                    $state.control.called(stringify!($name))?;
                    $body
                };
                run().err().unwrap_or(0)
            }
        )*
    };
}
pub(crate) use driver;

/// Writes a value for the caller.
///
/// # Safety
/// `to` is memory of the caller for it.
unsafe fn give<T>(to: *mut T, value: T) -> Result<(), Status> {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { to.write(value) };
    Ok(())
}

/// Returns an attribute of a device.
fn attribute(control: &Control, chip: u32, number: c_int) -> Option<c_int> {
    const SHARED_OPTIN: c_int = 97;
    const PROCESSORS: c_int = 16;
    const MAJOR: c_int = 75;
    const MINOR: c_int = 76;
    const POOLS: c_int = 115;
    match number {
        PROCESSORS => Some(4),
        MAJOR => Some((chip / 10) as c_int),
        MINOR => Some((chip % 10) as c_int),
        SHARED_OPTIN => Some(227 << 10),
        POOLS => control.pools(),
        _ => None,
    }
}

driver! {
    fn cuInit(state, _flags: u32) {
        state.start()
    }

    fn cuDriverGetVersion(state, version: *mut c_int) {
        // SAFETY: the caller's memory.
        unsafe { give(version, state.control.version()) }
    }

    fn cuDeviceGetCount(state, count: *mut c_int) {
        if !state.is_started {
            return Err(NOT_INITIALIZED);
        }
        // SAFETY: the caller's memory.
        unsafe { give(count, state.contexts.len() as c_int) }
    }

    fn cuDeviceGet(state, device: *mut c_int, ordinal: c_int) {
        if ordinal < 0 || ordinal as usize >= state.contexts.len() {
            return Err(INVALID_DEVICE);
        }
        // SAFETY: the caller's memory.
        unsafe { give(device, ordinal) }
    }

    fn cuDeviceGetName(state, name: *mut c_char, bytes: c_int, device: c_int) {
        let chip = state.contexts.get(device as usize).ok_or(INVALID_DEVICE)?.chip;
        let text = format!("Fake GPU sm_{chip}\0");
        let count = text.len().min(bytes.max(0) as usize);
        // SAFETY: the caller's memory.
        unsafe { name.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), count) };
        Ok(())
    }

    fn cuDeviceGetAttribute(state, value: *mut c_int, number: c_int, device: c_int) {
        let chip = state.contexts.get(device as usize).ok_or(INVALID_DEVICE)?.chip;
        // SAFETY: the caller's memory.
        unsafe { give(value, attribute(&state.control, chip, number).ok_or(INVALID_VALUE)?) }
    }

    fn cuDevicePrimaryCtxRetain(state, context: *mut *mut c_void, device: c_int) {
        state.contexts.get(device as usize).ok_or(INVALID_DEVICE)?;
        // SAFETY: the caller's memory.
        unsafe { give(context, pointer(device as usize + 1)) }
    }

    fn cuCtxGetCurrent(_state, context: *mut *mut c_void) {
        // SAFETY: the caller's memory.
        unsafe { give(context, pointer(current().unwrap_or(0))) }
    }

    fn cuCtxPushCurrent_v2(state, context: *mut c_void) {
        if !(1..=state.contexts.len()).contains(&context.addr()) {
            return Err(INVALID_CONTEXT);
        }
        push(context.addr());
        Ok(())
    }

    fn cuCtxPopCurrent_v2(_state, context: *mut *mut c_void) {
        let popped = pop().ok_or(INVALID_CONTEXT)?;
        // SAFETY: the caller's memory.
        unsafe { give(context, pointer(popped)) }
    }
}

/// Writes the name of a status.
///
/// # Safety
/// `text` is memory for an address.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the driver's function is called so")]
pub unsafe extern "C" fn cuGetErrorName(status: Status, text: *mut *const c_char) -> Status {
    // SAFETY: the caller's promise.
    texts(status).map_or(INVALID_VALUE, |(name, _)| unsafe { give(text, name.as_ptr()) }.err().unwrap_or(0))
}

/// Writes the description of a status.
///
/// # Safety
/// As [`cuGetErrorName`].
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the driver's function is called so")]
pub unsafe extern "C" fn cuGetErrorString(status: Status, text: *mut *const c_char) -> Status {
    // SAFETY: the caller's promise.
    texts(status).map_or(INVALID_VALUE, |(_, words)| unsafe { give(text, words.as_ptr()) }.err().unwrap_or(0))
}
