//! Compiles, runs, explains, shows and times programs that are given as IR text: `disc`.
mod arguments;
mod bench;
mod compile;
mod explain;
mod inspect;
mod report;
mod run;
mod view;

use crate::{
    answer::{Answer, Failure, conclude},
    source::Source,
};
use arguments::{Arguments, Command};
use clap::Parser;
use disc_ir::Diagnostic;
use std::{ffi::OsString, process::ExitCode};

/// Runs the command with these arguments; the first is the program's name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Arguments::try_parse_from(arguments) {
        Ok(arguments) => conclude(arguments.json, move || dispatch(&arguments.command)),
        Err(error) => {
            // Help goes to standard output with status 0, errors to standard error with status 2.
            let code = u8::try_from(error.exit_code()).unwrap_or(1);
            error.print().map_or(ExitCode::SUCCESS, |()| ExitCode::from(code))
        }
    }
}

fn dispatch(command: &Command) -> Result<Answer, Failure> {
    match command {
        Command::Compile(given) => about(&given.file, |source| compile::compile(given, source)),
        Command::Run(given) => about(&given.file, |source| run::run(given, source)),
        Command::Explain(given) => match explain::code(&given.what) {
            Some(answer) => answer.map_err(Failure::of_nothing),
            None => about(&given.what, |source| explain::plan(given, source)),
        },
        Command::View(given) => about(&given.file, |source| view::view(given, source)),
        Command::Inspect(given) => about(&given.file, inspect::inspect),
        Command::Bench(given) => about(&given.file, |source| bench::bench(given, source)),
    }
}

/// Reads a file and runs `body` on it; errors are about that text.
fn about(path: &str, body: impl FnOnce(&Source) -> Result<Answer, Vec<Diagnostic>>) -> Result<Answer, Failure> {
    let source = Source::read(path).map_err(Failure::of_nothing)?;
    match body(&source) {
        Ok(answer) => Ok(answer),
        Err(errors) => Err(Failure { source, errors }),
    }
}
