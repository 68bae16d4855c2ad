//! Passes on the IR: the pass manager, the pipeline, and the passes from tensors to buffers.
//!
//! Folders in dependence order: `analysis` answers questions, `rules` rewrite single ops, `tensor`
//! has the passes on tensor programs, `fusion` makes groups, `buffers` plans their memory. A file
//! imports from its own folder and from earlier ones.

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
