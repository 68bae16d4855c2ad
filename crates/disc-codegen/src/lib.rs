//! Schedules, kernel IR passes and the host program; tested without LLVM.

pub mod math;
pub mod target;
