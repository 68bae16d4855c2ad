//! Analyses: questions about ops and values that several passes and code generation ask.
pub(crate) mod call_invariant;
pub mod cost_model;
pub mod depthwise;
pub mod query;
