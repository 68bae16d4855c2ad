//! Runs Python for what needs torch: a module of the package, which answers with one line of JSON.
use disc_ir::{Code, Diagnostic};
use serde::{Deserialize, de::DeserializeOwned};
use std::{
    ffi::OsString,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

/// An answer: an error, or what the worker was asked for.
#[derive(Deserialize)]
struct Reply<T> {
    error: Option<Fault>,
    #[serde(flatten)]
    found: Option<T>,
}

/// An error of a worker.
#[derive(Deserialize)]
struct Fault {
    code: String,
    message: String,
    op: Option<String>,
    help: Option<String>,
}

impl From<Fault> for Diagnostic {
    fn from(Fault { code, message, op, help }: Fault) -> Self {
        let found = Diagnostic::new(Code::from_name(&code).unwrap_or(Code::E0501), message);
        Diagnostic { op: op.filter(|op| !op.is_empty()), help, ..found }
    }
}

/// A module of the package as a command.
pub(super) struct Worker {
    python: OsString,
    command: Command,
}

impl Worker {
    /// Names the module, for the interpreter that runs this script, or that the user chose.
    pub(super) fn new(module: &str) -> Self {
        let python = std::env::var_os("DISC_PYTHON").filter(|name| !name.is_empty()).unwrap_or_else(|| "python3".into());
        let mut command = Command::new(&python);
        command.args(["-m", module]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Self { python, command }
    }

    pub(super) fn argument(mut self, argument: &str) -> Self {
        self.command.arg(argument);
        self
    }

    pub(super) fn variable(mut self, name: &str, value: &Path) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs the command with `input`. Returns its answer.
    pub(super) fn ask<T: DeserializeOwned>(mut self, input: &str) -> Result<T, Diagnostic> {
        let broken = |why: String| {
            let error =
                Diagnostic::new(Code::E0700, format!("a model of torch is compiled by `{}`: {why}", self.python.display()));
            error.help("DISC_PYTHON names an interpreter that has torch and disc")
        };
        let mut child = self.command.spawn().map_err(|error| broken(error.to_string()))?;
        // A worker that ends early is reported by its status.
        let _ = child.stdin.take().map(|mut pipe| pipe.write_all(input.as_bytes()));
        let done = child.wait_with_output().map_err(|error| broken(error.to_string()))?;
        let text = String::from_utf8_lossy(&done.stdout);
        let reply: Option<Reply<T>> = text.lines().last().and_then(|line| serde_json::from_str(line).ok());
        match reply {
            Some(Reply { error: Some(fault), .. }) => Err(fault.into()),
            Some(Reply { found: Some(found), .. }) => Ok(found),
            _ => Err(broken(format!("it ended with {} and no answer", done.status))),
        }
    }
}

/// Refuses a file that cannot be read, before Python is asked.
pub(super) fn check_file(file: &str) -> Result<(), Diagnostic> {
    std::fs::File::open(file).map(drop).map_err(|error| Diagnostic::new(Code::E0101, format!("{file} cannot be read: {error}")))
}
