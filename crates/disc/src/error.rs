//! Defines the failures of compiling and running.
use disc_ir::Diagnostic;

use std::fmt;

/// A failure, with a code that docs/errors.md explains.
#[derive(Clone, Debug)]
pub enum Error {
    /// The program is wrong; at least one diagnostic.
    Ir(Vec<Diagnostic>),
    /// The compiler failed, or an option cannot be used.
    Compile { code: &'static str, message: String },
    /// A call failed.
    Run(disc_ral::Error),
}

impl Error {
    pub(crate) fn compile(message: impl Into<String>) -> Self {
        Error::Compile { code: "E0501", message: message.into() }
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Error::Compile { code: "E0700", message: message.into() }
    }

    pub(crate) fn target(message: impl Into<String>) -> Self {
        Error::Compile { code: "E0502", message: message.into() }
    }

    /// Returns the code, such as `E0203`.
    pub fn code(&self) -> String {
        match self {
            Error::Ir(diagnostics) => diagnostics.first().map_or_else(|| "E0501".into(), |d| d.code.to_string()),
            Error::Compile { code, .. } => (*code).into(),
            Error::Run(error) => error.code.to_string(),
        }
    }

    /// Returns the op that the failure is about, if there is one.
    pub fn op(&self) -> Option<String> {
        match self {
            Error::Ir(diagnostics) => diagnostics.first().and_then(|d| d.op.clone()),
            Error::Compile { .. } => None,
            Error::Run(error) => Some(error.op.clone()).filter(|op| !op.is_empty()),
        }
    }

    /// Returns the dims that the failure is about, as text.
    pub fn dims(&self) -> Vec<String> {
        match self {
            Error::Ir(_) | Error::Compile { .. } => Vec::new(),
            Error::Run(error) => error.dims.clone(),
        }
    }

    /// Returns advice, if there is any.
    pub fn help(&self) -> Option<String> {
        match self {
            Error::Ir(diagnostics) => diagnostics.iter().find_map(|d| d.help.clone()),
            Error::Compile { .. } | Error::Run(_) => None,
        }
    }

    /// Returns the message without its code.
    pub fn message(&self) -> String {
        match self {
            Error::Ir(diagnostics) => {
                let lines = diagnostics.iter().map(|d| match &d.op {
                    Some(op) => format!("`{op}`: {}", d.message),
                    None => d.message.clone(),
                });
                lines.collect::<Vec<_>>().join("\n")
            }
            Error::Compile { message, .. } => message.clone(),
            Error::Run(error) if error.is_named() => error.message.clone(),
            Error::Run(error) => format!("`{}`: {}", error.op, error.message),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.code(), self.message())?;
        self.help().iter().try_for_each(|help| write!(f, "\n  help: {help}"))
    }
}

impl std::error::Error for Error {}

impl From<Diagnostic> for Error {
    fn from(diagnostic: Diagnostic) -> Self {
        Error::Ir(vec![diagnostic])
    }
}

impl From<Vec<Diagnostic>> for Error {
    fn from(diagnostics: Vec<Diagnostic>) -> Self {
        Error::Ir(diagnostics)
    }
}

impl From<disc_ral::Error> for Error {
    fn from(error: disc_ral::Error) -> Self {
        Error::Run(error)
    }
}

impl From<disc_llvm::Error> for Error {
    fn from(error: disc_llvm::Error) -> Self {
        Error::compile(error.to_string())
    }
}
