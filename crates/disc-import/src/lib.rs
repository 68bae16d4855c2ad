//! Does what every front end needs before the compiler sees a program, without a framework and
//! without LLVM.
//!
//! - [`source`]: maps a file, tells its format, and holds it to limits.
//! - [`stablehlo`]: reads StableHLO.
//! - [`tensorflow`]: reads TensorFlow's graphs.
//! - [`sizes`]: small integer tensors as lists of dim expressions.
//! - [`program`]: an imported program, and the builder that a reader fills.
//! - [`emit`]: emits ops; shapes broadcast, and sizes that an op needs become facts.
//! - [`compose`]: lowerings of more than a few ops, each declared once for all front ends.
//! - [`partition`]: divides a graph into compiled clusters and ops of the framework.
//!
//! Invariant: a file is untrusted. What is wrong with one is a diagnostic, never a panic: code that
//! reads files neither indexes nor slices.
pub mod compose;
pub mod emit;
pub mod partition;
#[cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::string_slice))]
pub mod program;
#[cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::string_slice))]
pub mod sizes;
#[cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::string_slice))]
pub mod source;
#[cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::string_slice))]
pub mod stablehlo;
#[cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::string_slice))]
pub mod tensorflow;
