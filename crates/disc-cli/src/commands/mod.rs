//! Compiles, runs, explains, shows and times programs, which are IR text or packages: `disc`.
mod arguments;
mod bench;
mod compile;
mod explain;
mod gpu_code;
mod help;
mod inspect;
mod package;
mod python;
mod replay;
mod report;
mod run;
mod serve;
mod sign;
mod test;
mod torch_model;
mod view;

use crate::{
    answer::{Answer, Failure, conclude},
    source::Source,
};
use arguments::{Arguments, Command};
use clap::Parser;
use disc_ir::Diagnostic;
use std::{ffi::OsString, path::Path, process::ExitCode};

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
        Command::Compile(given) if given.is_of_model() => torch_model::compile(given).map_err(Failure::of_file),
        Command::Compile(given) => about(&given.file, |source| compile::text(given, source)),
        Command::Run(given) => either(&given.file, || run::package(given), |source| run::text(given, source)),
        Command::Explain(given) => match explain::code(&given.what) {
            Some(answer) => answer.map_err(Failure::of_nothing),
            None => {
                let package = || explain::plan(given, &package::program(&given.what)?);
                either(&given.what, package, |source| explain::plan(given, source))
            }
        },
        Command::View(given) => {
            let package = || view::view(given, &package::program(&given.file)?);
            either(&given.file, package, |source| view::view(given, source))
        }
        Command::Inspect(given) => {
            let package = || inspect::package(Path::new(&given.file), &package::open_options(&given.trust)?);
            either(&given.file, package, inspect::text)
        }
        Command::Bench(given) if given.start => bench::start(&given.file).map_err(Failure::of_file),
        Command::Bench(given) => either(&given.file, || bench::package(given), |source| bench::text(given, source)),
        Command::Serve(given) => serve::serve(given).map_err(Failure::of_file),
        Command::Replay(given) => replay::replay(given).map_err(Failure::of_file),
        Command::Reduce(given) => replay::reduce(given).map_err(Failure::of_file),
        Command::Sign(given) => sign::sign(given).map_err(Failure::of_file),
        Command::Test(given) => test::test(given).map_err(Failure::of_file),
        Command::Completions(given) => Ok(help::completions(given)),
        Command::Man(given) => help::man(given).map_err(Failure::of_nothing),
    }
}

type Outcome = Result<Answer, Vec<Diagnostic>>;

/// Runs `package` for a package, `text` for IR text.
fn either(path: &str, package: impl FnOnce() -> Outcome, text: impl FnOnce(&Source) -> Outcome) -> Result<Answer, Failure> {
    match package::is_package(path) {
        Err(error) => Err(Failure::of_nothing(error)),
        Ok(true) => package().map_err(Failure::of_file),
        Ok(false) => about(path, text),
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
