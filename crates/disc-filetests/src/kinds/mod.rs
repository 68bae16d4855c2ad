//! Dispatches to the kinds of tests. Each returns the correct text of the file, given the output of
//! the code.
mod cli;
mod explain;
mod pass;
mod random;
mod roundtrip;
mod run;
mod verify;

pub(crate) use run::runs_compiled;

use crate::{
    compiled::Hooks,
    file::{Command, TestFile},
};
use disc_ir::{Diagnostic, Module, ops::Stage, text::Lines};

/// The correct text of the file; or a failure that no text of the file could express.
pub(crate) type Tried = Result<String, String>;

pub(crate) fn run(file: &TestFile, command: &Command, hooks: Hooks) -> Tried {
    match &*command.kind {
        "cli" => cli::run(file, command, hooks),
        "explain" => explain::run(file),
        "roundtrip" => roundtrip::run(file),
        "verify" => verify::run(file, command),
        "pass" => pass::run(file, command),
        "pipeline" => pass::run_pipeline(file, command),
        "run" => run::run(file, command, hooks),
        other => Err(format!("there is no kind of test `{other}`")),
    }
}

/// Returns the command line that reproduces a test.
pub(crate) fn reproduce(file: &TestFile, command: &Command) -> String {
    let path = format!("filetests/{}", file.name);
    let option = |name: &str| command.options.get(name).map_or("", |value| &**value);
    let options = match &*command.kind {
        "pass" => option("pass").split(',').map(|name| format!(" --pass {name}")).collect(),
        "pipeline" => option("pipeline").split_once("..").map_or(String::new(), |(from, to)| format!(" --from {from} --to {to}")),
        _ => String::new(),
    };
    match &*command.kind {
        "cli" => format!("the commands of {path}, where FILE is itself"),
        "explain" => format!("disc explain {path}"),
        _ => format!("disc-opt {path}{options}"),
    }
}

/// Parses the module of a file, which must succeed.
fn parsed(file: &TestFile) -> Result<Module, String> {
    disc_ir::parse(&file.source).map_err(|errors| rendered(&file.source, &errors))
}

/// Renders errors with their lines, for failures that no annotation can expect.
fn rendered(source: &str, errors: &[Diagnostic]) -> String {
    let lines = Lines::new(source);
    let rendered = errors.iter().map(|error| {
        let at = error.span.map_or(String::new(), |span| format!("\n  --> line {}", lines.position(span.start).line));
        format!("{error}{at}\n")
    });
    rendered.collect()
}

/// Returns the stage that a command names.
fn stage(name: &str) -> Result<Stage, String> {
    Stage::from_name(name).ok_or_else(|| format!("there is no stage `{name}`"))
}
