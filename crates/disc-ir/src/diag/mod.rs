//! Represents diagnostics: a code, a message, a place.
//!
//! Nothing is rendered here; the command-line tools and the Python package do that.
//!
//! Invariant: a message is lower case, names the op and the dims it is about, and states the
//! expected and the actual value.
mod codes;

pub use codes::{Code, CodeDoc, CodeFamily, FAMILIES, docs};

use std::fmt;

/// A range of bytes in a source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

/// An error, its place, and advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub code: Code,
    pub message: String,
    pub span: Option<Span>,
    /// The op the message is about, such as `add`.
    pub op: Option<String>,
    pub notes: Vec<String>,
    pub help: Option<String>,
}

impl Diagnostic {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), span: None, op: None, notes: Vec::new(), help: None }
    }

    /// Sets the place, unless there is an earlier, more precise one.
    pub fn at(mut self, span: Option<Span>) -> Self {
        self.span = self.span.or(span);
        self
    }

    pub fn in_op(mut self, op: &str) -> Self {
        self.op.get_or_insert_with(|| op.to_owned());
        self
    }

    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: ", self.code)?;
        if let Some(op) = &self.op {
            write!(f, "`{op}`: ")?;
        }
        f.write_str(&self.message)?;
        self.notes.iter().try_for_each(|note| write!(f, "\n  note: {note}"))?;
        self.help.iter().try_for_each(|help| write!(f, "\n  help: {help}"))
    }
}

impl std::error::Error for Diagnostic {}
