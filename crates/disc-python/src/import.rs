//! Imports models of other tools and writes them as packages: `import_package`.
use crate::{
    compile::{apart, read_options},
    errors::{Failure, guarded},
    facade::{
        Error, Options,
        import::{DimChoice, ImportOptions, Input, Output, Size, from_bytes, open},
        package::{ExportOptions, export, export_bytes},
    },
};
use disc_ir::dim::Fact;
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict},
};
use std::path::PathBuf;

/// An axis of an input: the input's name or position, the axis, and a name or a number for its
/// size.
type PyAxis = (NameOrNumber<usize>, usize, NameOrNumber<i64>);

#[derive(FromPyObject)]
pub(crate) enum NameOrNumber<N> {
    Name(String),
    Number(N),
}

/// The bytes of a model, or the path of its file.
enum Model {
    Bytes(Vec<u8>),
    File(PathBuf),
}

/// Imports a model, from a path or bytes, and writes it as a package; without an output, returns
/// its bytes.
#[pyfunction]
#[pyo3(signature = (source, output = None, options = None, *, dims = Vec::new(), facts = Vec::new(), outputs = Vec::new(), targets = Vec::new(), ir = true, prepared = true, cache = None))]
#[allow(clippy::too_many_arguments, reason = "they are keywords of Python")]
pub(crate) fn import_package<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    output: Option<PathBuf>,
    options: Option<&Bound<'py, PyDict>>,
    dims: Vec<PyAxis>,
    facts: Vec<String>,
    outputs: Vec<(String, String)>,
    targets: Vec<String>,
    ir: bool,
    prepared: bool,
    cache: Option<PathBuf>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    guarded(|| {
        let chosen = options.map_or_else(|| Ok(Options::default()), read_options)?;
        let options = Options { cache, ..chosen };
        let settings = ExportOptions { targets, ir, prepared };
        let import = ImportOptions {
            dims: dims.into_iter().map(choice).collect(),
            facts: facts.iter().map(|text| fact(text)).collect::<PyResult<_>>()?,
            outputs: outputs.into_iter().map(|(name, result)| Output { name, result }).collect(),
            ..ImportOptions::default()
        };
        let model = match source.cast::<PyBytes>() {
            Ok(bytes) => Model::Bytes(bytes.as_bytes().to_vec()),
            Err(_) => Model::File(source.extract()?),
        };
        let bytes = apart(py, move || {
            let program = read(&model, &import)?;
            match output {
                Some(path) => export(vec![program], &path, &options, &settings).map(|()| None),
                None => export_bytes(vec![program], &options, &settings).map(Some),
            }
        })?;
        Ok(bytes.map(|bytes| PyBytes::new(py, &bytes)))
    })
}

fn read(model: &Model, import: &ImportOptions) -> Result<crate::facade::package::Program, Error> {
    match model {
        Model::Bytes(bytes) => from_bytes("the model", bytes, import).map(|model| model.program),
        Model::File(path) => open(path, import),
    }
}

fn choice((input, axis, size): PyAxis) -> DimChoice {
    let input = match input {
        NameOrNumber::Name(name) => Input::Named(name),
        NameOrNumber::Number(position) => Input::At(position),
    };
    let size = match size {
        NameOrNumber::Name(name) => Size::Named(name),
        NameOrNumber::Number(size) => Size::Fixed(size),
    };
    DimChoice { input, axis, size }
}

fn fact(text: &str) -> PyResult<Fact> {
    Ok(Fact::parse(text).map_err(|error| Failure::argument(format!("the fact `{text}`: {error}")))?)
}
