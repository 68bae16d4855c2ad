//! The pass manager, the pipeline page, analyses and rewrites, fusion, placement, buffers.

pub mod branches;
pub mod buffers;
pub mod canonicalize;
pub mod columns;
pub mod convolutions;
pub mod cse;
pub mod dce;
pub mod demands;
mod fixed;
pub mod fold;
pub mod fusion;
pub mod inline;
pub mod narrow;
pub mod order;
pub mod outline;
pub mod pack;
pub mod pass;
pub mod pipeline;
pub mod placement;
pub mod planes;
pub mod plans;
pub mod prepare;
pub mod query;
pub mod registry;
pub mod rewrite;
pub mod rules;
mod scales;
pub mod shapes;
pub mod specialize;
#[cfg(test)]
mod testing;
pub mod turns;

pub use registry::docs;
