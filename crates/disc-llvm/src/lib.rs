//! Compiles kernels and host programs to machine code, and is the only crate that uses LLVM:
//! lowering, target machines, in-process lld. Returns bytes.
//!
//! Loading and running the bytes is the runtime's job, choosing what to compile is the code
//! generator's. Invariants:
//! - no file is written (descriptors only), and no type of LLVM is in the public interface;
//! - every failure is an [`Error`], a fatal error of LLVM included, and the next call works;
//! - any thread may call anything here.
mod compile;
mod deferred;
mod emit;
mod error;
mod function;
mod link;
mod lower;
mod machine;
mod sources;
mod support;
mod target;

pub mod text;

pub use compile::{Compiled, Options, Timings, assembly, compile, llvm_ir, ptx};
pub use deferred::{Deferred, compile_first};
pub use error::Error;
pub use link::link;
pub use lower::entry_symbol;
pub use machine::{Codegen, Object, Passes};

/// Returns the version of the LLVM that is linked in.
pub fn llvm_version() -> String {
    let (major, minor, patch) = inkwell::support::get_llvm_version();
    format!("{major}.{minor}.{patch}")
}

#[cfg(test)]
mod tests;
