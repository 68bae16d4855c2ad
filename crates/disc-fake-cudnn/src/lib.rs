//! Implements the functions of cuDNN that disc calls, over the fake CUDA driver (disc-fake-cuda):
//! with no GPU the code that calls the library is tested whole.
//!
//! A convolution is a function in the stream of the handle; it runs when somebody waits for the
//! stream. The engines are those of `engines.rs`, some of which have to be passed over.
//!
//! Invariants:
//! - a descriptor has the attributes that the library's header gives to its kind, each with its
//!   type, and all that it needs when it is finalised; only finalised ones are referred to;
//! - the sizes of tensors that belong together have to agree;
//! - a plan computes what its graph says, for addresses as aligned as it says.

#![allow(unreachable_pub, reason = "the functions are exported by their names")]

mod compute;
mod descriptor;
mod engines;
mod execute;
mod functions;
mod graph;
mod status;
