//! Implements the functions of the CUDA driver that disc calls, over a simulated GPU: with no GPU
//! the code that drives one is tested whole.
//!
//! A test loads the library, which has the name `libcuda.so.1`, before anything asks for a driver.
//! Work is done as late as the driver may do it: a launch or a copy runs when somebody waits for
//! it. Kernels are run from their own text, which disc writes into PTX as comments, so nothing is
//! said about the PTX itself: ptxas checks that.
//!
//! Invariants:
//! - a function that needs a context fails without one, and a handle of another context is refused;
//! - after a kernel has broken a rule of the simulated GPU every function of its context fails;
//! - a launch that may begin early is refused unless its kernel waits, and the op before is a
//!   launch;
//! - memory of the device cannot be accessed by the host;
//! - memory of a pool is there from its allocation in a stream to its free in one: what uses it at
//!   another time breaks a rule.

#![allow(unreachable_pub, reason = "the functions are exported by their names")]

mod control;
mod driver;
mod events;
mod graphs;
mod handles;
mod host_calls;
mod launch;
mod memory;
mod modules;
mod pools;
mod status;
mod streams;
