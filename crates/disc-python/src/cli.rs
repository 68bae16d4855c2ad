//! The command-line tools as functions: the scripts of the wheel call them with the arguments of the process.
use crate::errors::guarded;
use pyo3::prelude::*;
use std::{ffi::OsString, io::Write, process::ExitCode};

/// `disc-opt`: reads, checks, transforms and runs IR text. The first argument is the program's name; gives the exit status.
#[pyfunction]
pub(crate) fn main_disc_opt(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<u8> {
    guarded(|| Ok(status(py.detach(|| disc_cli::opt::main(arguments)))))
}

/// `disc`: not available in this version; says so and gives the exit status.
#[pyfunction]
pub(crate) fn main_disc(arguments: Vec<OsString>) -> u8 {
    let name = arguments.first().map_or("disc".into(), |name| name.to_string_lossy());
    // Nobody is left to tell if standard error is closed.
    let _ = writeln!(std::io::stderr(), "error[E0801]: {name}: this command is not available in this version; disc-opt is");
    2
}

/// The number behind an exit code, which the standard library does not tell.
fn status(code: ExitCode) -> u8 {
    (0..=u8::MAX).find(|&number| ExitCode::from(number) == code).unwrap_or(1)
}
