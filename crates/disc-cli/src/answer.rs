//! Ends a command: prints its answer, for people or for programs, and returns its exit status.
use crate::{render, source::Source};
use disc_ir::{Code, Diagnostic, text::Lines};
use serde_json::{Value, json};
use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
    thread,
};

/// Passes and code generation recurse over deep programs.
const STACK: usize = 64 << 20;

/// The answer of a command: text for people, and JSON for programs.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) json: Value,
    /// The command did its work, but the result is negative: a check failed, or a search found
    /// nothing.
    pub(crate) is_negative: bool,
}

impl Answer {
    pub(crate) fn new(text: impl Into<String>, json: Value) -> Self {
        Self { text: text.into(), json, is_negative: false }
    }
}

/// Errors, and the text that they are about.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) source: Source,
    pub(crate) errors: Vec<Diagnostic>,
}

/// Runs the body of a command on a stack of its own and prints its answer. Returns the status: 0,
/// or 1 for errors.
pub(crate) fn conclude(as_json: bool, body: impl FnOnce() -> Result<Answer, Failure> + Send) -> ExitCode {
    disc::log::start();
    let joined = thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, body);
        thread.map(thread::ScopedJoinHandle::join)
    });
    let outcome = match joined {
        Ok(Ok(outcome)) => outcome,
        // A bug is reported like an error of the program, with the status that scripts expect.
        Ok(Err(_)) => {
            Err(Failure::of_nothing(Diagnostic::new(Code::E0211, "the compiler met a bug of its own, see the message above")))
        }
        Err(error) => Err(Failure::of_nothing(Diagnostic::new(Code::E0605, format!("no thread for the command: {error}")))),
    };
    match outcome {
        Ok(answer) => {
            let text = if as_json { format!("{}\n", answer.json) } else { answer.text };
            let status = write_out(&text);
            if answer.is_negative { ExitCode::FAILURE } else { status }
        }
        Err(failure) if as_json => {
            write_out(&format!("{}\n", failure.json()));
            ExitCode::FAILURE
        }
        Err(failure) => {
            let text = if wants_colour() { coloured(&failure.text()) } else { failure.text() };
            // If standard error is closed, nobody can be told.
            let _ = std::io::stderr().write_all(text.as_bytes());
            ExitCode::FAILURE
        }
    }
}

impl Failure {
    /// Makes a failure that no text is the cause of.
    pub(crate) fn of_nothing(error: Diagnostic) -> Self {
        Self::of_file(vec![error])
    }

    /// Makes a failure about a file that is no text; the errors name it.
    pub(crate) fn of_file(errors: Vec<Diagnostic>) -> Self {
        Self { source: Source::default(), errors }
    }

    fn text(&self) -> String {
        let lines = Lines::new(&self.source.text);
        self.errors.iter().map(|error| render(error, &self.source.path, &lines)).collect()
    }

    fn json(&self) -> Value {
        let lines = Lines::new(&self.source.text);
        let errors = self.errors.iter().map(|error| {
            let place = error.span.map(|span| lines.position(span.start));
            json!({
                "code": error.code.to_string(), "message": error.message, "op": error.op, "file": self.source.path,
                "line": place.map(|at| at.line), "column": place.map(|at| at.column), "notes": error.notes, "help": error.help,
            })
        });
        json!({ "errors": errors.collect::<Vec<_>>() })
    }
}

/// Returns true if people read standard error on a terminal that shows colours.
fn wants_colour() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Marks the code of each error.
fn coloured(text: &str) -> String {
    const RED: &str = "\x1b[1;31m";
    const PLAIN: &str = "\x1b[0m";
    let line = |line: &str| match line.strip_prefix("error[").and_then(|rest| rest.split_once("]:")) {
        Some((code, message)) => format!("{RED}error[{code}]{PLAIN}:{message}\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

fn write_out(text: &str) -> ExitCode {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            let _ = writeln!(std::io::stderr(), "error: standard output: {e}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Converts a failure of the facade to diagnostics.
pub(crate) fn diagnostics(error: disc::Error) -> Vec<Diagnostic> {
    let code = |name: &str| Code::from_name(name).unwrap_or(Code::E0501);
    match error {
        disc::Error::Ir(found) => found,
        disc::Error::Compile { code: name, message } => vec![Diagnostic::new(code(name), message)],
        disc::Error::Run(error) => {
            let is_named = error.is_named();
            let found = Diagnostic::new(code(&error.code), error.message);
            vec![if is_named { found } else { found.in_op(&error.op) }]
        }
    }
}
