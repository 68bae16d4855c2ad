//! Tests how the device `cuda:N` uses the driver, with one that has simulated GPUs.
mod calls;
#[path = "../child/mod.rs"]
mod child;
mod common;
mod failures;
#[path = "../fake_cuda/mod.rs"]
mod fake_cuda;
mod graphs;
mod overlap;
mod pinned;
mod pools;
mod start;
