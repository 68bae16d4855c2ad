//! Reads the text that a command is given, and its module.
use disc_ir::{
    Code, Diagnostic, Module,
    ops::Stage,
    verify::{stage_of, verify},
};
use std::io::Read;

/// A text with its name in messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// Reads a file, or standard input for `-`.
    pub(crate) fn read(path: &str) -> Result<Self, Diagnostic> {
        let mut bytes = Vec::new();
        let read = match path {
            "-" => std::io::stdin().read_to_end(&mut bytes).map(|_| ()),
            path => std::fs::read(path).map(|found| bytes = found),
        };
        read.map_err(|e| Diagnostic::new(Code::E0101, format!("{path} cannot be read: {e}")))?;
        let text = String::from_utf8(bytes).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            Diagnostic::new(Code::E0101, format!("{path} is not UTF-8 text: byte {at} is wrong"))
        })?;
        Ok(Self { path: if path == "-" { "<stdin>".into() } else { path.into() }, text })
    }

    /// Parses the module, checked at `stage`, or at the first stage at which all of it is legal.
    pub(crate) fn module(&self, stage: Option<Stage>) -> Result<(Module, Stage), Vec<Diagnostic>> {
        let module = disc_ir::parse(&self.text)?;
        let stage = stage.unwrap_or_else(|| stage_of(&module));
        verify(&module, stage)?;
        Ok((module, stage))
    }
}
