//! The kinds of tests. Each says how the file should read, given what it does.
mod pass;
mod roundtrip;
mod verify;

use crate::file::{Command, TestFile};
use disc_ir::{Diagnostic, Module, ops::Stage, text::Lines};

/// What a test of this kind came to.
pub(crate) enum Outcome {
    /// How the file should read.
    Reads(String),
    /// It cannot be said, because a hook is not there.
    Skipped,
}

pub(crate) type Tried = Result<Outcome, String>;

/// The compiler's passes, as the tests of `pass`, `pipeline` and `explain` need them.
pub trait Passes: Sync {
    /// Runs one pass by its name.
    ///
    /// # Errors
    /// The pass's own, or that there is none of the name.
    fn pass(&self, module: &mut Module, name: &str) -> Result<(), Diagnostic>;

    /// Runs the pipeline between two stages.
    ///
    /// # Errors
    /// Those of the passes.
    fn pipeline(&self, module: &mut Module, from: Stage, to: Stage) -> Result<(), Diagnostic>;
}

/// What the harness does not know itself.
#[derive(Clone, Copy, Default)]
pub struct Hooks {
    pub passes: Option<&'static dyn Passes>,
}

pub(crate) fn run(file: &TestFile, command: &Command, hooks: Hooks) -> Tried {
    match &*command.kind {
        "roundtrip" => roundtrip::run(file),
        "verify" => verify::run(file, command),
        "pass" => pass::run(file, command, hooks),
        "pipeline" => pass::run_pipeline(file, command, hooks),
        other => Err(format!("there is no kind of test `{other}`")),
    }
}

/// The command line that shows the same.
pub(crate) fn reproduce(file: &TestFile, command: &Command) -> String {
    let path = format!("filetests/{}", file.name);
    let options = match &*command.kind {
        "pass" => command.options["pass"].split(',').map(|name| format!(" --pass {name}")).collect(),
        "pipeline" => {
            let (from, to) = command.options["pipeline"].split_once("..").unwrap_or(("tensor", ""));
            format!(" --from {from} --to {to}")
        }
        _ => String::new(),
    };
    format!("disc-opt {path}{options}")
}

/// The module of a file that must parse.
fn parsed(file: &TestFile) -> Result<Module, String> {
    disc_ir::parse(&file.source).map_err(|errors| rendered(&file.source, &errors))
}

/// Errors with their lines, for failures that no annotation can expect.
fn rendered(source: &str, errors: &[Diagnostic]) -> String {
    let lines = Lines::new(source);
    let rendered = errors.iter().map(|error| {
        let at = error.span.map_or(String::new(), |span| format!("\n  --> line {}", lines.position(span.start).line));
        format!("{error}{at}\n")
    });
    rendered.collect()
}

/// The stage that a command names.
fn stage(name: &str) -> Result<Stage, String> {
    Stage::from_name(name).ok_or_else(|| format!("there is no stage `{name}`"))
}
