//! Reads the text that a command is given, and its module.
use disc::import::{self, Format};
use disc_ir::{
    Code, Diagnostic, Function, Module,
    ops::Stage,
    verify::{stage_of, verify},
};
use std::{
    fs::File,
    io::{self, Read},
};

/// More bytes than any text of a program has. A device such as /dev/zero has no end.
const LONGEST: u64 = 1 << 30;

/// Reads a file to its end.
///
/// # Errors
/// It has more bytes than this.
pub(crate) fn read_at_most(file: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}

/// A text with its name in messages, or a graph of TensorFlow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
    /// The bytes of a model that is no text; else there are none.
    pub(crate) graph: Vec<u8>,
}

impl Source {
    /// Reads a file, or standard input for `-`.
    pub(crate) fn read(path: &str) -> Result<Self, Diagnostic> {
        let read = match path {
            "-" => read_at_most(io::stdin(), LONGEST),
            path => File::open(path).and_then(|file| read_at_most(file, LONGEST)),
        };
        let bytes = read.map_err(|e| Diagnostic::new(Code::E0101, format!("{path} cannot be read: {e}")))?;
        if bytes.starts_with(b"PK\x03\x04") {
            let message = format!("{path} is a package or a captured call, and the text of a program is expected");
            return Err(Diagnostic::new(Code::E0101, message));
        }
        if let Some(error) = import::refuse_foreign(path, &bytes) {
            return Err(error);
        }
        if import::is_graph(&bytes) {
            return Ok(Self { path: path.into(), graph: bytes, ..Self::default() });
        }
        let text = String::from_utf8(bytes).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            Diagnostic::new(Code::E0101, format!("{path} is not UTF-8 text: byte {at} is wrong"))
        })?;
        Ok(Self { path: if path == "-" { "<stdin>".into() } else { path.into() }, text, graph: Vec::new() })
    }

    /// Returns the bytes of the text or of the graph.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.graph.is_empty() { self.text.as_bytes() } else { &self.graph }
    }

    /// Returns the format of the text: by its first word, else by the file's extension.
    pub(crate) fn format(&self) -> Format {
        if !self.graph.is_empty() {
            return Format::TensorFlow;
        }
        let by_name = || if self.path.ends_with(".mlir") { Format::StableHlo } else { Format::Ir };
        import::format_of_text(&self.text).unwrap_or_else(by_name)
    }

    /// Returns a function whose inputs have the names of the file, for values by name, and the
    /// names of its outputs.
    pub(crate) fn named(&self, function: &Function) -> (Function, Vec<String>) {
        let mut named = function.clone();
        if self.format() == Format::Ir {
            return (named, (0..function.results.len()).map(|i| format!("output{i}")).collect());
        }
        let signature = import::named(import::signatures(&self.text).get(&*function.name), function);
        for (&parameter, name) in function.parameters().iter().zip(signature.inputs) {
            named.set_name(parameter, name);
        }
        (named, signature.outputs)
    }

    /// Reads the module, checked at `stage`, or at the first stage at which all of it is legal.
    pub(crate) fn module(&self, stage: Option<Stage>) -> Result<(Module, Stage), Vec<Diagnostic>> {
        let module = match self.format() {
            Format::StableHlo => import::module_of_text(&self.text, Format::StableHlo)?,
            Format::Ir => disc_ir::parse(&self.text)?,
            Format::TensorFlow => import::module_of_graph(&self.path, &self.graph)?,
        };
        let stage = stage.unwrap_or_else(|| stage_of(&module));
        verify(&module, stage)?;
        Ok((module, stage))
    }
}
