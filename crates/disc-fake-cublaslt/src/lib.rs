//! Implements the functions of cuBLASLt that disc calls, over the fake CUDA driver
//! (disc-fake-cuda): with no GPU the code that calls the library is tested whole.
//!
//! Matrices are in columns, as the library has them. A matmul is a function in the stream that it
//! is given; it runs when somebody waits for the stream.
//!
//! Invariants:
//! - an algorithm computes what its heuristics were asked about, and nothing else: other
//!   descriptions, less memory to work in, or addresses that are less aligned are refused;
//! - the sizes of matrices that belong together have to agree.

#![allow(unreachable_pub, reason = "the functions are exported by their names")]

mod compute;
mod descriptions;
mod matmul;
mod status;
