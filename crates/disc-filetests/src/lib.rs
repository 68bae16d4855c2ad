//! The harness of `filetests/`: text in, text (or errors, or values) out.
//!
//! A test file is IR text with comments that say what to do and what comes out; `filetests/README.md` describes them. The harness computes how
//! the file should read; the test passes if it reads so, and `DISC_BLESS=1` rewrites it.
//!
//! Not here: generated code. What runs it comes in through [`Hooks`], so that this crate builds without LLVM.
mod annotations;
mod compare;
mod compiled;
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
pub use file::TestFile;
pub use trial::{corpus, run};
