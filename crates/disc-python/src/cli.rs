//! Exports the command-line tools as functions: the scripts of the wheel call them with the
//! arguments of the process.
use crate::errors::guarded;
use pyo3::prelude::*;
use std::{ffi::OsString, process::ExitCode};

/// `disc-opt`: reads, checks, transforms and runs IR text. The first argument is the program's
/// name. Returns the exit status.
#[pyfunction]
pub(crate) fn main_disc_opt(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<u8> {
    guarded(|| Ok(status(py.detach(|| disc_cli::opt::main(arguments)))))
}

/// `disc`: compiles, runs, explains, shows and times programs. The first argument is the program's
/// name. Returns the exit status.
#[pyfunction]
pub(crate) fn main_disc(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<u8> {
    guarded(|| Ok(status(py.detach(|| disc_cli::commands::main(arguments)))))
}

/// Returns the number of an exit code, which the standard library does not reveal.
fn status(code: ExitCode) -> u8 {
    (0..=u8::MAX).find(|&number| ExitCode::from(number) == code).unwrap_or(1)
}
