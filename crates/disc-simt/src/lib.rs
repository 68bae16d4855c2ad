//! Runs GPU kernels on the host, and checks them: the devices `simt:CHIP`.
//!
//! A kernel is compiled to bytecode whose steps work on all threads of a block at once. Its memory
//! has a shadow, so that accesses outside of buffers, races between threads, uninitialised memory
//! and barriers that some threads miss are errors that name the op, the thread and the element.
//! [`counters`] adds up what a chip would do with memory.
//!
//! Invariants:
//! - Results are those of the interpreter of the IR, and the same on every host.
//! - A kernel without errors runs as it would on a chip whose warps run one after another; no
//!   result depends on that order, or it is a race, which is found.
#![deny(missing_docs)]

mod alu;
mod chip;
mod compile;
mod counters;
mod device;
mod memory;
mod planes;
mod program;
mod queue;
mod run;
mod shadow;

pub use chip::{CHIPS, Chip};
pub use counters::{KernelCounters, counters};
pub use device::{Simt, register};
