//! The pass manager, the pipeline page, analyses and rewrites, fusion, placement, buffers.
//!
//! Folders from the ground up: `analysis` asks, `rules` rewrite one op, `tensor` has the passes on whole tensors, `fusion` makes groups,
//! `buffers` gives them memory. A file imports from its own folder and from those before it.

pub mod analysis;
pub mod buffers;
pub mod fusion;
pub mod options;
pub mod pass;
pub mod pipeline;
pub mod registry;
pub mod rules;
pub mod tensor;
#[cfg(test)]
mod testing;

pub use registry::docs;
