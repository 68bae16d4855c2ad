//! Lowers the buffer stage to the kernel stage: host programs, which choose among the versions of
//! each group and launch them.
mod dedup;
mod dispatch;
mod fetches;
mod group;
mod library;
mod lower;
mod reached;
pub mod signature;
mod ways;

pub use crate::schedule::{Choices, Offers};
pub use lower::{Program, lower, lower_with};
pub use reached::reached;
