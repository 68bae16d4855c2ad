//! Imports models from files: a program of any format becomes a [`Program`], which packages, and so
//! `disc.load`, servers and the C and Rust runtimes, take as any other.
//!
//! ```no_run
//! use disc::{Options, import::{ImportOptions, open}, package::{ExportOptions, export}};
//! use std::path::Path;
//! let program = open(Path::new("model.mlir"), &ImportOptions::default())?;
//! let settings = ExportOptions::default();
//! export(vec![program], Path::new("model.discpkg"), &Options::default(), &settings)?;
//! # Ok::<(), disc::Error>(())
//! ```
//!
//! disc-import reads the formats; nothing here knows one from another beyond its name.
use crate::{
    Error,
    compile::guarded,
    package::{EntryView, Program},
    tensors::dtype,
};
use bytes::Bytes;
use disc_import::{
    program::{Imported, Weight as Stored, open_dims},
    source::{File, foreign},
    stablehlo, tensorflow,
};
use disc_ir::{Diagnostic, Module, dim::Fact, verify};
use disc_ral::{HostTensor, Source, Weight};
use std::{path::Path, sync::Arc};

pub use disc_import::{
    program::{Assumption, DimChoice, Input, Signature, Size},
    source::{Access, Format},
    stablehlo::{Argument, Found, Missing, Stated, Survey, named, signatures, survey},
    tensorflow::Output,
};

/// Settings of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The function of the file to import, for formats whose files have several; by default `main`,
    /// else the only one.
    pub function: Option<String>,
    /// The name of the entry; by default that of the function.
    pub entry: Option<String>,
    /// Names and numbers for sizes of inputs.
    pub dims: Vec<DimChoice>,
    /// The outputs, for formats whose files do not state them; by default all results that nothing
    /// reads.
    pub outputs: Vec<Output>,
    /// Facts about the sizes that `dims` names.
    pub facts: Vec<Fact>,
    /// The means to read the file.
    pub access: Access,
}

/// A model that was read, with everything that the program no longer shows.
pub struct Model {
    pub format: Format,
    pub program: Program,
    /// The names of the file.
    pub signature: Signature,
    /// The choices of the importer about sizes where the file allows more.
    pub assumed: Vec<Assumption>,
}

/// Imports the model in a file.
///
/// # Errors
/// E1001 to E1006: a file that is not of a format that disc imports, beyond a limit, with ops that
/// are missing, or contradictory.
pub fn open(path: &Path, options: &ImportOptions) -> Result<Program, Error> {
    open_model(path, options).map(|model| model.program)
}

/// Imports the model in a file. Returns the file's names and the assumptions beside the program.
///
/// # Errors
/// As [`open`].
pub fn open_model(path: &Path, options: &ImportOptions) -> Result<Model, Error> {
    guarded(|| read(&File::open(path, options.access)?, options))
}

/// Imports a model out of memory; `name` stands for a file in messages.
///
/// # Errors
/// As [`open`].
pub fn from_bytes(name: &str, bytes: &[u8], options: &ImportOptions) -> Result<Model, Error> {
    guarded(|| read(&File::of_bytes(name, Bytes::copy_from_slice(bytes))?, options))
}

/// Returns the error for a file that is of a kind that disc does not read as a program, and that
/// its contents tell.
pub fn refuse_foreign(path: &str, bytes: &[u8]) -> Option<Diagnostic> {
    foreign(path, bytes)
}

/// Returns the format of a text; `None` if it begins as none that disc reads.
pub fn format_of_text(text: &str) -> Option<Format> {
    Format::of_text(text.as_bytes())
}

/// Reads all functions of a text in one of the formats.
///
/// # Errors
/// As [`open`], with places in the text.
pub fn module_of_text(text: &str, format: Format) -> Result<Module, Vec<Diagnostic>> {
    match format {
        Format::StableHlo => stablehlo::module(text),
        Format::Ir => {
            let module = disc_ir::parse(text)?;
            verify::verify(&module, verify::stage_of(&module))?;
            Ok(module)
        }
        Format::TensorFlow => Err(vec![Diagnostic::new(disc_ir::Code::E1001, "a graph of TensorFlow is no text")]),
    }
}

/// Returns true for the bytes of a graph of TensorFlow.
pub fn is_graph(bytes: &[u8]) -> bool {
    tensorflow::begins_as_graph(bytes)
}

/// Reads a graph of TensorFlow, without the values of its weights.
///
/// # Errors
/// As [`open`].
pub fn module_of_graph(name: &str, bytes: &[u8]) -> Result<Module, Vec<Diagnostic>> {
    tensorflow::read(name, Bytes::copy_from_slice(bytes), &[]).map(|imported| imported.module)
}

fn read(file: &File, options: &ImportOptions) -> Result<Model, Error> {
    let format = Format::of(file)?;
    match format {
        Format::StableHlo => model(format, stablehlo::read(file.text()?, options.function.as_deref())?, options),
        Format::TensorFlow => model(format, tensorflow::read(&file.name, file.bytes.clone(), &options.outputs)?, options),
        Format::Ir => {
            let help = "disc compile, disc run and disc.export of text take it as it is";
            Err(disc_import::source::misfit(file, "a model to import: it is the IR of disc").help(help).into())
        }
    }
}

fn model(format: Format, mut imported: Imported, options: &ImportOptions) -> Result<Model, Error> {
    open_dims(&mut imported, &options.dims, &options.facts)?;
    let (signature, assumed) = (imported.signature.clone(), std::mem::take(&mut imported.assumed));
    Ok(Model { format, program: program(imported, options.entry.clone())?, signature, assumed })
}

/// Makes a program of what a reader returned; `entry` is the name of its entry, by default that of
/// the function.
///
/// # Errors
/// E1005, a weight whose bytes do not fit; no memory for one that has to be copied.
pub fn program(imported: Imported, entry: Option<String>) -> Result<Program, Error> {
    let Imported { module, weights, signature, .. } = imported;
    let weights = weights.into_iter().map(|weight| Ok((weight.name.clone(), borrowed(weight)?)));
    let weights = weights.collect::<Result<Vec<_>, Error>>()?;
    let outputs = signature.outputs.into_iter().enumerate().map(|(i, name)| (name, Source::Output(i)));
    let name = entry.unwrap_or(signature.entry);
    let view = EntryView { name, inputs: Some(signature.inputs), outputs: outputs.collect(), structure: None };
    Ok(Program { module, weights, entry: Some(view) })
}

/// Lends a weight's memory to the runtime, which keeps it alive; elements that are not aligned for
/// their type are copied.
fn borrowed(weight: Stored) -> Result<Weight, Error> {
    let Stored { name, dtype: element, sizes, bytes } = weight;
    let runtime = dtype(element);
    if disc_ral::bytes_of(runtime, &sizes) != Some(bytes.len()) {
        let message = format!("weight `{name}` of sizes {sizes:?} has {} bytes", bytes.len());
        return Err(Diagnostic::new(disc_ir::Code::E1005, message).into());
    }
    if bytes.as_ptr().align_offset(element.size()) != 0 {
        let mut copied = HostTensor::zeros(runtime, &sizes)?;
        copied.bytes_mut().copy_from_slice(&bytes);
        return Ok(copied.into());
    }
    let owner = Arc::new(bytes);
    // SAFETY: the owner holds the bytes, as many as the sizes need (checked above), aligned for
    // their elements, in memory of the host that nobody writes to.
    Ok(unsafe { Weight::borrowed(owner.as_ptr(), runtime, sizes, owner) })
}
