//! Runs the tests of `filetests/`: text in, text (or errors, or values) out.
//!
//! A test file is IR text with comments that give commands and expected output;
//! `filetests/README.md` describes them. The harness computes the correct text of the file; the
//! test passes if it is the actual one, and `DISC_BLESS=1` rewrites it.
//!
//! This crate does not compile: compilers come in through [`Hooks`], so that it builds without
//! LLVM.
mod annotations;
mod compare;
mod compiled;
mod device;
mod file;
pub mod fuzz;
mod kinds;
pub mod matrix;
mod outputs;
pub mod same_code;
pub mod soak;
mod trial;
mod values;

pub use compare::{compare, tolerance};
pub use compiled::{Compiled, Hooks, Program, Weights};
pub use device::{Checked, check_device, check_file};
pub use file::TestFile;
pub use trial::{corpus, run};
