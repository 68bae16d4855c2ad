//! The pass manager, the pipeline page, analyses and rewrites, fusion, placement, buffers.

pub mod buffers;
pub mod canonicalize;
pub mod cse;
pub mod dce;
pub mod fusion;
pub mod pass;
mod query;
pub mod registry;
pub mod rewrite;
pub mod rules;
#[cfg(test)]
mod testing;
