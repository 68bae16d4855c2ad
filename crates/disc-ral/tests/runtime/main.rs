//! The runtime under entries and kernels that are written in Rust: no compiler is needed to test the contract.

mod arena;
mod errors;
mod fork;
mod harness;
mod launches;
mod library;
mod outputs;
mod products;
mod weights;
