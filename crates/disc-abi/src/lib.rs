//! Defines the `#[repr(C)]` contract between generated code and the runtime.
//!
//! Generated code (an *entry*, and the *kernels* that it launches) meets the runtime only through
//! the types of this crate. Layouts are those of a 64-bit target, little-endian; every function
//! takes integers of at least 32 bits, so no argument needs sign or zero extension. The compiler
//! takes field positions from `offset_of!` on these structs.
//!
//! Invariants:
//! - nothing here depends on the compiler, on `std` or on another crate;
//! - any change of a layout or of a meaning raises [`ABI_VERSION`]; a runtime loads only code of
//!   its own version;
//! - no function unwinds: a failure is a status, and its message is recorded in the session before
//!   the status is returned.
#![no_std]

mod amx;
mod context;
mod convolution;
mod cpu_features;
mod deferred;
mod dtype;
mod grid;
mod library;
mod tensor;

pub use amx::Amx;
pub use context::{
    Context, EntryFn, Gemm, KERNEL_VALUES, KernelFn, KernelHandle, LEAST_NONTEMPORAL_BYTES, Runtime, SCRATCH_ALIGN,
    STATUS_FAILED, STATUS_OK,
};
pub use convolution::LibraryConvolution;
pub use cpu_features::needed_aarch64_feature;
#[cfg(target_arch = "aarch64")]
pub use cpu_features::scalable_vector_bytes;
pub use deferred::{DEFERRED_LOOKUP_SYMBOL, DEFERRED_TABLE_SYMBOL, DeferredLookup};
pub use dtype::DType;
pub use grid::{GRID_OVERLAPS, GRID_PERSISTENT, GridLaunch};
pub use library::{Activation, LIBRARY_TF32, LibraryGemm};
pub use tensor::{DEVICE_CPU, DEVICE_CUDA, DEVICE_HIP, DEVICE_SIMT, FLAG_ALIAS, FLAG_READ_ONLY, FLAG_WRITTEN, Tensor};

/// Version of this contract. Generated code exports it as the `u32` constant [`VERSION_SYMBOL`].
pub const ABI_VERSION: u32 = 6;

/// The data symbol (a constant `u32`, aligned to 4) by which a library states the [`ABI_VERSION`]
/// that it was generated for.
pub const VERSION_SYMBOL: &str = "disc_abi_version";

/// Alignment in bytes of arena memory, prepared blobs and thread scratch. Inputs, outputs and plain
/// weights are only aligned to their element size: code that needs more has a guard.
pub const ALIGN: usize = 64;
