//! Schedules, kernel IR passes and the host program; tested without LLVM.
//!
//! Modules import from those before them: `target`, `math`, `kernel`, `element`, `schedule`,
//! `host`.

pub mod element;
pub mod host;
pub mod kernel;
pub mod math;
pub mod schedule;
pub mod target;
