//! Compiles a module of the IR and returns an executable: the facade of the compiler.
//!
//! ```no_run
//! let text = "func @main(%x: tensor<[N]xf32>) -> tensor<[N]xf32> {
//!   %y = add %x, %x : tensor<[N]xf32>
//!   return %y : tensor<[N]xf32>
//! }";
//! let artifact = disc::compile(disc::parse(text)?, &disc::Options::default())?;
//! let executable = artifact.load(Vec::new(), &disc::Options::default())?;
//! # Ok::<(), disc::Error>(())
//! ```
//!
//! It decides nothing itself: passes are disc-passes', schedules disc-codegen's, machine code
//! disc-llvm's, memory and threads disc-ral's.
//!
//! Invariants: nothing here panics or ends the process, whatever the input: a panic of the compiler
//! becomes [`Error::Compile`], and the next call works.
pub mod cache;
pub mod capture;
mod compile;
mod deferred;
mod dump;
mod error;
mod executable;
pub mod import;
mod library;
pub mod log;
mod memory;
mod meta;
mod options;
pub mod package;
mod report;
pub mod stages;
mod tensors;
mod tier;
mod weights;

pub use compile::{Artifact, compile, compile_first, compile_text, compile_text_first, parse};
pub use disc_codegen::target::{Compilation, Target};
pub use disc_ir as ir;
pub use disc_passes as passes;
pub use disc_passes::options::{ActivationForm, WeightForm};
pub use disc_ral as ral;
pub use disc_simt as simt;
pub use error::Error;
pub use executable::Executable;
pub use options::{Check, LibraryChoice, MatmulPrecision, Options, SetError, Specialize};
pub use report::{Report, Specializations, Specialized, VariantReport};
pub use tensors::{dtype_of_runtime, from_host, to_host};
pub use tier::background;

/// Returns the names of the devices that compiled code can run on here: values of
/// [`Options::device`].
pub fn devices() -> Vec<String> {
    disc_simt::register();
    disc_ral::devices().iter().map(ToString::to_string).collect()
}

/// Checks that compiled code can run on a device here.
///
/// # Errors
/// A device that is not there.
pub fn check_device(name: &str) -> Result<(), Error> {
    Options { device: Some(name.to_owned()), ..Options::default() }.open_device().map(drop)
}

/// The version of the compiler.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
