//! Tests of compiled code that may share a process: one binary links LLVM once for all of them.
//!
//! A test that counts for the whole process, or has a harness of its own, is a file beside this
//! folder.
#[path = "../native/mod.rs"]
mod native;

#[path = "../folder/mod.rs"]
mod folder;
#[path = "../../../disc-passes/tests/model/mod.rs"]
mod model;
#[path = "../programs/mod.rs"]
mod programs;
#[path = "../../../disc-codegen/tests/stages/samples.rs"]
mod samples;

mod capture;
mod compiled;
mod deferred;
mod encoder;
mod grids;
mod import;
mod mma;
mod nontemporal;
mod order;
mod package;
mod prepared;
mod roundings;
mod split_sums;
mod variants;
mod version_cases;
mod versions;
mod words;
