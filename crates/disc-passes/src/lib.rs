//! The pass manager, the pipeline page, analyses and rewrites, fusion, placement, buffers.

pub mod pass;
