//! Writes packages and opens them: `export_package` and `Package`.
use crate::{
    call::{PyExecutable, read_weights},
    compile::{apart, read_options},
    errors::{Failure, guarded},
    facade::{
        self, Executable, Options,
        package::{EntryView, ExportOptions, Program, export, export_bytes},
    },
    ir::PyBuilder,
};
use disc_ral::{Entry, OpenOptions, Package, Source, Verify};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict, PyList},
};
use std::path::PathBuf;

/// A program of `export_package`: the name of the entry, a Builder or IR text, weights, outputs as
/// name, kind ("output" or "input") and index, and the structure as JSON.
type PyProgram<'py> = (String, Bound<'py, PyAny>, Bound<'py, PyAny>, Vec<(String, String, usize)>, Option<String>);

/// Compiles programs and writes them as one package; without a path, returns its bytes.
#[pyfunction]
#[pyo3(signature = (programs, path = None, options = None, *, targets = Vec::new(), ir = true, prepared = true, cache = None))]
#[allow(clippy::too_many_arguments, reason = "they are keywords of Python")]
pub(crate) fn export_package<'py>(
    py: Python<'py>,
    programs: Vec<PyProgram<'py>>,
    path: Option<PathBuf>,
    options: Option<&Bound<'py, PyDict>>,
    targets: Vec<String>,
    ir: bool,
    prepared: bool,
    cache: Option<PathBuf>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    guarded(|| {
        let chosen = options.map_or_else(|| Ok(Options::default()), read_options)?;
        let options = Options { cache, ..chosen };
        let settings = ExportOptions { targets, ir, prepared };
        let programs = programs.into_iter().map(program).collect::<PyResult<Vec<_>>>()?;
        match path {
            Some(path) => apart(py, move || export(programs, &path, &options, &settings)).map(|()| None),
            None => {
                let bytes = apart(py, move || export_bytes(programs, &options, &settings))?;
                Ok(Some(PyBytes::new(py, &bytes)))
            }
        }
    })
}

fn program((name, source, weights, outputs, structure): PyProgram<'_>) -> PyResult<Program> {
    let module = match source.cast::<PyBuilder>() {
        Ok(builder) => builder.get().finished()?,
        Err(_) => facade::parse(&source.extract::<String>()?).map_err(Failure::from)?,
    };
    let source = |(name, kind, index): (String, String, usize)| match &*kind {
        "output" => Ok((name, Source::Output(index))),
        "input" => Ok((name, Source::Input(index))),
        other => Err(PyErr::from(Failure::argument(format!("an output of kind {other:?}")))),
    };
    let outputs = outputs.into_iter().map(source).collect::<PyResult<_>>()?;
    let structure = structure.map(|text| serde_json::from_str(&text)).transpose();
    let structure = structure.map_err(|error| Failure::argument(format!("the structure is no JSON: {error}")))?;
    Ok(Program { module, weights: read_weights(&weights)?, entry: Some(EntryView { name, inputs: None, outputs, structure }) })
}

/// A compiled model in a file.
#[pyclass(name = "Package", module = "disc._disc", frozen)]
pub(crate) struct PyPackage {
    package: Package,
}

#[pymethods]
impl PyPackage {
    /// Opens the package in a file, or in bytes. `verify` is "first seen", "all" or "off";
    /// `require_signature` is the path of a public key; `device` names the device of entries that
    /// name none.
    #[new]
    #[pyo3(signature = (source, *, verify = "first seen", require_signature = None, device = None))]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        verify: &str,
        require_signature: Option<PathBuf>,
        device: Option<String>,
    ) -> PyResult<Self> {
        guarded(|| {
            facade::simt::register();
            let verify = match verify {
                "first seen" => Verify::FirstSeen,
                "all" => Verify::All,
                "off" => Verify::Off,
                other => return Err(Failure::argument(format!("verify = {other:?}")).into()),
            };
            let mut options = OpenOptions { verify, device, ..OpenOptions::default() };
            if let Some(key) = require_signature {
                options = options.require_signature_by(&key).map_err(facade::Error::from).map_err(Failure::from)?;
            }
            let opened = if let Ok(bytes) = source.cast::<PyBytes>() {
                Package::from_bytes(bytes.as_bytes(), &options)
            } else {
                let path = source.extract::<PathBuf>()?;
                py.detach(|| Package::open_with(path, &options))
            };
            Ok(Self { package: opened.map_err(facade::Error::from).map_err(Failure::from)? })
        })
    }

    /// The name of the target whose code was picked.
    #[getter]
    fn target(&self) -> &str {
        &self.package.target().name
    }

    /// The entries: dicts with name, inputs, outputs, facts and structure (JSON, or None).
    fn entries<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        guarded(|| self.package.entries().map(|entry| entry_dict(py, entry)).collect())
    }

    /// The manifest as JSON.
    fn manifest(&self) -> PyResult<String> {
        guarded(|| {
            let text = serde_json::to_string(self.package.manifest());
            text.map_err(|error| Failure::argument(error.to_string()).into())
        })
    }

    /// Returns name, element type and sizes of each weight.
    fn weights(&self) -> PyResult<Vec<(String, &'static str, Vec<i64>)>> {
        guarded(|| {
            let weights = self.package.weights().map_err(facade::Error::from).map_err(Failure::from)?;
            Ok(weights.into_iter().map(|(name, dtype, sizes)| (name, dtype.name(), sizes)).collect())
        })
    }

    /// Loads the code on a device, once for all entries, and returns an entry to be called; `name`
    /// is the name that profiles show.
    #[pyo3(signature = (entry, device = None, *, name = None))]
    fn executable(&self, py: Python<'_>, entry: &str, device: Option<&str>, name: Option<&str>) -> PyResult<PyExecutable> {
        guarded(|| {
            self.package.entry(entry).map_err(facade::Error::from).map_err(Failure::from)?;
            let loaded = py.detach(|| self.package.executable(device));
            let loaded = loaded.map_err(facade::Error::from).map_err(Failure::from)?;
            PyExecutable::new(py, Executable::from_loaded(loaded), Some(entry), Some("numpy"), name)
        })
    }
}

fn entry_dict<'py>(py: Python<'py>, entry: Entry<'_>) -> PyResult<Bound<'py, PyDict>> {
    let inputs = PyList::empty(py);
    for input in entry.inputs() {
        inputs.append((input.name(), input.dtype().name(), input.dims(), input.is_written()))?;
    }
    let outputs = PyList::empty(py);
    for output in entry.outputs() {
        let (kind, index) = match output.source() {
            Source::Output(index) => ("output", index),
            Source::Input(index) => ("input", index),
        };
        outputs.append((output.name(), output.dtype().name(), output.dims(), kind, index))?;
    }
    let dict = PyDict::new(py);
    dict.set_item("name", entry.name())?;
    dict.set_item("inputs", inputs)?;
    dict.set_item("outputs", outputs)?;
    dict.set_item("facts", entry.facts())?;
    dict.set_item("structure", entry.structure().map(ToString::to_string))?;
    Ok(dict)
}
