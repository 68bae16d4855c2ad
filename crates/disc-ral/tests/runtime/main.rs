//! Tests the runtime under entries and kernels that are written in Rust: the contract needs no
//! compiler.

mod arena;
mod bounds;
mod errors;
mod fork;
mod gemm;
mod harness;
mod launches;
mod library;
mod outputs;
mod spans;
mod weights;
