//! Does what every front end needs before the compiler sees a program, without a framework and
//! without LLVM.
//!
//! - [`emit`]: emits ops; shapes broadcast, and sizes that an op needs become facts.
//! - [`compose`]: lowerings of more than a few ops, each declared once for all front ends.
//! - [`partition`]: divides a graph into compiled clusters and ops of the framework.
pub mod compose;
pub mod emit;
pub mod partition;
