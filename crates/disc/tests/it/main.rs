//! Tests of compiled code that may share a process: one binary links LLVM once for all of them.
//!
//! What counts for a whole process, or starts it with a harness of its own, is a file beside this
//! folder.
#[path = "../native/mod.rs"]
mod native;

mod capture;
mod compiled;
mod nontemporal;
mod order;
mod package;
mod prepared;
mod roundings;
mod split_sums;
mod variants;
mod versions;
mod words;
