//! Opens packages for the commands, and makes values for their entries.
use super::arguments::{DeviceArguments, TrustArguments};
use crate::{
    answer::diagnostics,
    run::{self, Data, Integers, RunArguments},
    source::Source,
};
use disc::ral::{Entry, IR, OpenOptions, Package};
use disc_ir::{Code, Diagnostic};
use std::{fs::File, io::Read, path::Path};

/// The first bytes of every zip file.
const ZIP: &[u8] = b"PK\x03\x04";

/// Returns true for a package rather than IR text: by its name, else by its first bytes.
///
/// # Errors
/// A model that has to be compiled first.
pub(super) fn is_package(path: &str) -> Result<bool, Diagnostic> {
    if is_model(path) {
        let error = Diagnostic::new(Code::E0901, format!("{path} is a model of torch, not a package"));
        return Err(error.help(format!("disc compile {path} -o model.discpkg")));
    }
    Ok(path != "-" && (has_extension(path, "discpkg") || begins_as_zip(path)))
}

/// Returns true for the files in which torch keeps models.
pub(super) fn is_model(path: &str) -> bool {
    has_extension(path, "pt2") || has_extension(path, "pt")
}

pub(super) fn has_extension(path: impl AsRef<Path>, extension: &str) -> bool {
    path.as_ref().extension().is_some_and(|found| found == extension)
}

fn begins_as_zip(path: &str) -> bool {
    let mut start = [0; ZIP.len()];
    // A file that cannot be read is reported by who reads it.
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok_and(|()| start == ZIP)
}

pub(super) fn open_options(trust: &TrustArguments) -> Result<OpenOptions, Vec<Diagnostic>> {
    match &trust.require_signature {
        None => Ok(OpenOptions::default()),
        Some(key) => OpenOptions::default().require_signature_by(key).map_err(failed),
    }
}

/// Refuses to require a signature of text, which has none.
pub(super) fn check_text(trust: &TrustArguments) -> Result<(), Vec<Diagnostic>> {
    let refused = || vec![Diagnostic::new(Code::E0905, "a signature is required, and IR text has none: packages have")];
    if trust.require_signature.is_some() { Err(refused()) } else { Ok(()) }
}

/// Opens a package to run it on a device.
pub(super) fn open(
    path: &str,
    trust: &TrustArguments,
    target: Option<&String>,
    device: &DeviceArguments,
) -> Result<Package, Vec<Diagnostic>> {
    disc::simt::register();
    let options = OpenOptions { target: target.cloned(), device: device.device.clone(), ..open_options(trust)? };
    Package::open_with(path, &options).map_err(failed)
}

/// Returns the program that a package was compiled from.
///
/// # Errors
/// It was written without.
pub(super) fn program(path: &str) -> Result<Source, Vec<Diagnostic>> {
    let package = Package::open(path).map_err(failed)?;
    let text = package.part(IR).and_then(|bytes| std::str::from_utf8(bytes).ok()).ok_or_else(|| {
        let error = Diagnostic::new(Code::E0904, format!("{path} holds no program, it was written without: ir=False"));
        vec![error.help("write it with ir=True, or give the program")]
    })?;
    Ok(Source { path: path.into(), text: text.into(), ..Source::default() })
}

/// Returns the entry of this name; by default the only one, or `main`.
pub(super) fn entry<'p>(package: &'p Package, name: Option<&str>) -> Result<Entry<'p>, Vec<Diagnostic>> {
    let only = || match package.entries().collect::<Vec<_>>()[..] {
        [entry] => Some(entry),
        _ => package.entries().find(|entry| entry.name() == "main"),
    };
    match name {
        Some(name) => package.entry(name).map_err(failed),
        None => only().ok_or_else(|| {
            let names: Vec<&str> = package.entries().map(Entry::name).collect();
            let message = format!("there are {} entries: {}", names.len(), names.join(", "));
            vec![Diagnostic::new(Code::E0904, message).help("name one with --entry")]
        }),
    }
}

/// Returns the inputs of the calls that the command line asks for.
pub(super) fn calls(entry: Entry<'_>, arguments: &RunArguments) -> Result<Vec<Data>, Diagnostic> {
    if arguments.values.weights.is_some() || arguments.values.random_weights {
        return Err(Diagnostic::new(Code::E0608, "a package has its weights: they cannot be given"));
    }
    let module = run::module_of(entry)?;
    Data::calls(&module, &module.functions[0], arguments, Integers::Indices)
}

/// Converts a failure of the runtime to diagnostics.
pub(super) fn failed(error: disc::ral::Error) -> Vec<Diagnostic> {
    diagnostics(error.into())
}
