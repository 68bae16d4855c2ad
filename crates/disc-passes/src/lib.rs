//! The pass manager, the pipeline page, analyses and rewrites, fusion, placement, buffers.

pub mod buffers;
pub mod fusion;
pub mod pass;
