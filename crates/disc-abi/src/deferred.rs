//! Defines how the first library of a program finds the functions that are compiled after it.

use core::ffi::c_void;

/// The data symbol of a first library: a [`DeferredLookup`], null until the loader fills it in.
pub const DEFERRED_LOOKUP_SYMBOL: &str = "disc_deferred_lookup";

/// The data symbol of the whole library: the addresses of the functions that the first library
/// lacks, by their number.
pub const DEFERRED_TABLE_SYMBOL: &str = "disc_deferred_table";

/// Finds deferred functions. A first library has a stub for each, which calls `find` and jumps to
/// the address; for null it returns [`crate::STATUS_FAILED`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DeferredLookup {
    /// Returns the address of a function by its number, once it is compiled, or null if that
    /// failed.
    pub find: unsafe extern "C" fn(context: *const c_void, number: u32) -> *const c_void,
    /// The first argument of `find`.
    pub context: *const c_void,
}
