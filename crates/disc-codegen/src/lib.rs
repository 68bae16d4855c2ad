//! Schedules, kernel IR passes and the host program; tested without LLVM.

mod alike;
pub mod build;
pub mod cost;
pub mod element;
mod expand;
pub mod index;
pub mod kernel;
pub mod lower;
pub mod math;
pub mod reducer;
pub mod schedule;
pub mod signature;
pub mod target;
mod versions;
