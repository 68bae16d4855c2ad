//! Implements the command-line tools. Each has a `main` here, so that the Python extension can
//! install it as a script too.
//!
//! Invariants: errors go to standard error as `error[E0123]: message` with their place, and the
//! exit status is 1; nothing panics, whatever is read; a reader of the output that goes away is no
//! error.
mod answer;
mod arrays;
pub mod commands;
mod diff;
pub mod opt;
mod progress;
mod render;
mod run;
mod source;
pub mod virtual_env;

pub use render::render;
