//! Connects a first library with the functions that are compiled after it.
//!
//! A first library serves calls at once. Where a call needs a function that it lacks, a stub waits
//! until the whole library is there, and goes on in it. Later calls take the whole library from the
//! start ([`crate::Executable`] exchanges the code between two calls).

use crate::{
    error::{Error, code},
    executable::Code,
    library::Library,
};
use disc_abi::{DEFERRED_LOOKUP_SYMBOL, DEFERRED_TABLE_SYMBOL, DeferredLookup};
use std::{
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::{self, NonNull},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// The functions of a module that its first library lacks. Any thread may call anything.
pub trait Deferred: Send + Sync {
    /// Starts to compile them in the background, unless that began.
    fn start(&self);

    /// Returns the whole code once it is there, or the reason why it will never be.
    fn whole(&self) -> Option<Result<Arc<Code>, String>>;

    /// Waits for the whole code. It keeps the code as long as it lives.
    fn finish(&self) -> Result<Arc<Code>, String>;
}

/// The memory that the stubs of a first library read.
pub(crate) struct Lookup {
    deferred: Arc<dyn Deferred>,
    /// A stub got no function.
    lacked: AtomicBool,
}

impl Lookup {
    /// Lets the stubs of a library find deferred functions by this memory, which has to live as
    /// long as the library is called.
    pub(crate) fn connect(library: &Library, deferred: &Arc<dyn Deferred>) -> Result<Box<Self>, Error> {
        let words = library.symbol(DEFERRED_LOOKUP_SYMBOL)?.cast::<DeferredLookup>();
        let lookup = Box::new(Self { deferred: Arc::clone(deferred), lacked: AtomicBool::new(false) });
        let context = ptr::from_ref(&*lookup).cast();
        // SAFETY: the contract: writable words of this type, which nobody reads before the first
        // call.
        unsafe { words.write(DeferredLookup { find, context }) };
        Ok(lookup)
    }

    pub(crate) fn deferred(&self) -> &dyn Deferred {
        &*self.deferred
    }

    /// Returns the error of a call that failed: the reason why it lacked a function, if it did.
    pub(crate) fn explain(&self, error: Error) -> Error {
        match self.deferred.whole() {
            Some(Err(reason)) if self.lacked.load(Relaxed) && error.code == code::INTERNAL => {
                Error::internal(format!("functions that the call needs could not be compiled: {reason}"))
            }
            _ => error,
        }
    }
}

/// Returns the addresses of deferred functions in a whole library; `None` if it has no table.
pub(crate) fn table(library: &Library) -> Option<NonNull<*const c_void>> {
    library.symbol(DEFERRED_TABLE_SYMBOL).ok().map(NonNull::cast)
}

unsafe extern "C" fn find(context: *const c_void, number: u32) -> *const c_void {
    // SAFETY: `connect` gave the address of this memory, which lives while the library is called.
    let lookup = unsafe { &*context.cast::<Lookup>() };
    let code = catch_unwind(AssertUnwindSafe(|| lookup.deferred.finish()));
    let found = code.ok().and_then(Result::ok).and_then(|code| code.deferred_function(number));
    found.unwrap_or_else(|| {
        lookup.lacked.store(true, Relaxed);
        ptr::null()
    })
}
