//! Compiles a builder or IR text to an artifact that can be loaded: `compile` and `Artifact`.
//!
//! The compiler runs on a thread of its own, so that Ctrl-C is noticed while it works. An abandoned
//! compilation runs on to its end, which the process awaits before it exits: LLVM must not be torn
//! down under it.
use crate::{
    call::{PyExecutable, read_weights, use_torch_memory},
    errors::{Failure, guarded},
    facade::{self, Artifact, Options, Report, SetError, Specializations, VariantReport, background, cache},
    ir::PyBuilder,
    logging,
};
use disc_ir::text::closest;
use disc_options::{OPTIONS, Reader, Value};
use disc_ral::{Decision, GemmDispatch, Policy, Way};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict, PyList, PyString},
};
use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Longest time that an interrupt goes unnoticed.
const POLL: Duration = Duration::from_millis(50);
/// Deep enough for the recursion of LLVM's passes.
const STACK: usize = 64 << 20;

static ABANDONED: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());

/// A compiled module without weights.
#[pyclass(name = "Artifact", module = "disc._disc", frozen)]
pub(crate) struct PyArtifact {
    artifact: Artifact,
    options: Options,
}

/// Compiles the module of a builder, or a module as IR text. `options` are those of the table in
/// disc-options; `cache` is the folder of the cache on disk, which keeps prepared weights too with
/// `cache_weights`. `first` are the sizes of the inputs of a first call, at hand: functions that it
/// does not run may be compiled later, while calls are served.
#[pyfunction]
#[pyo3(signature = (source, options = None, *, cache = None, cache_weights = false, first = None))]
pub(crate) fn compile(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    options: Option<&Bound<'_, PyDict>>,
    cache: Option<PathBuf>,
    cache_weights: bool,
    first: Option<Vec<Vec<i64>>>,
) -> PyResult<PyArtifact> {
    guarded(|| {
        let chosen = options.map_or_else(|| Ok(Options::default()), read_options)?;
        let options = Options { cache, cache_weights, ..chosen };
        let artifact = if let Ok(builder) = source.cast::<PyBuilder>() {
            let (module, options) = (builder.get().finished()?, options.clone());
            apart(py, move || facade::compile_first(module, &options, first.as_deref()))?
        } else if let Ok(text) = source.extract::<String>() {
            let options = options.clone();
            apart(py, move || facade::compile_text_first(&text, &options, first.as_deref()))?
        } else {
            let came = crate::describe(source);
            return Err(Failure::argument(format!("the module is {came}, expected a Builder or IR text")).into());
        };
        Ok(PyArtifact { artifact, options })
    })
}

#[pymethods]
impl PyArtifact {
    /// Loads the code with the model's weights, a dict of tensors by name (or pairs). `outputs` is
    /// the framework of outputs if no input determines it: "torch" or "numpy". `name` is that of
    /// the model, for profiles.
    #[pyo3(signature = (weights = None, *, entry = None, outputs = None, name = None))]
    fn load(
        &self,
        py: Python<'_>,
        weights: Option<&Bound<'_, PyAny>>,
        entry: Option<&str>,
        outputs: Option<&str>,
        name: Option<&str>,
    ) -> PyResult<PyExecutable> {
        guarded(|| {
            let weights = weights.map_or_else(|| Ok(Vec::new()), read_weights)?;
            let are_there = weights.iter().any(|(_, weight)| !weight.is_on_host());
            if are_there {
                use_torch_memory(py)?;
            }
            let loaded = py.detach(|| self.artifact.load(weights, &self.options)).map_err(Failure::from)?;
            Ok(PyExecutable::new(py, loaded, entry, outputs, name)?.with_weights_there(are_there))
        })
    }

    /// The machine code, a shared object.
    #[getter]
    fn code<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let code = py.detach(|| self.artifact.code()).map_err(Failure::from)?;
        Ok(PyBytes::new(py, &code))
    }

    /// Returns the report of the compilation: a dict.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        report_dict(py, &self.artifact.report)
    }
}

/// Returns times, kernels and target of a compilation. The inferred signature is `signature`.
pub(crate) fn report_dict<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let stages = PyDict::new(py);
    for (name, ms) in &report.stages_ms {
        stages.set_item(name, ms)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("stages_ms", stages)?;
    dict.set_item("passes_ms", &report.passes_ms)?;
    dict.set_item("kernels", report.kernels)?;
    dict.set_item("kernels_by_kind", report.kernels_by_kind.clone())?;
    dict.set_item("syncs", report.syncs)?;
    let variant = |variant: &VariantReport| {
        let dict = PyDict::new(py);
        dict.set_item("when", &variant.when)?;
        dict.set_item("kernels", variant.kernels)?;
        Ok(dict)
    };
    dict.set_item("plans", report.variants.iter().map(variant).collect::<PyResult<Vec<_>>>()?)?;
    dict.set_item("versions", report.versions)?;
    dict.set_item("deferred", report.deferred)?;
    dict.set_item("target", &report.target)?;
    dict.set_item("signature", &report.dims)?;
    dict.set_item("notes", &report.notes)?;
    dict.set_item("code_bytes", report.code_bytes)?;
    dict.set_item("code_cache", report.cache.name())?;
    Ok(dict)
}

/// Reads options by the table of disc-options; `None` leaves one as it is.
pub(crate) fn read_options(given: &Bound<'_, PyDict>) -> PyResult<Options> {
    let mut options = Options::default();
    for (name, value) in given {
        let name = name.cast::<PyString>()?.to_cow()?.into_owned();
        if value.is_none() {
            continue;
        }
        let text = value.extract::<String>();
        let read = match (value.extract::<bool>(), value.extract::<usize>(), &text) {
            (Ok(flag), ..) => Some(Value::Flag(flag)),
            (_, Ok(count), _) => Some(Value::Count(count)),
            (.., Ok(text)) => Some(Value::Text(text)),
            _ => None,
        };
        match read.map_or(Err(SetError::Value), |value| options.set(&name, value)) {
            Ok(()) => {}
            Err(SetError::Value) => {
                return Err(Failure::argument(format!("the option `{name}` cannot be {value}")).into());
            }
            Err(SetError::Name) => {
                let names = OPTIONS.iter().filter(|option| option.reader == Reader::Compiler).map(|option| option.name);
                let near = closest(&name, names).unwrap_or("target");
                let failure = Failure::argument(format!("there is no option `{name}`"));
                return Err(failure.help(format!("is `{near}` meant?")).into());
            }
        }
    }
    Ok(options)
}

/// Returns the dispatch of GEMMs: the library, or none, the policy, the counts, and the choices.
pub(crate) fn library_dict<'py>(py: Python<'py>, gemm: Option<&GemmDispatch>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", gemm.map(|gemm| gemm.library().name().to_owned()))?;
    let Some(gemm) = gemm else { return Ok(dict) };
    let [by_library, by_kernel] = gemm.counts();
    dict.set_item("policy", if gemm.policy() == Policy::Measured { "measured" } else { "always" })?;
    dict.set_item("by_library", by_library)?;
    dict.set_item("by_kernel", by_kernel)?;
    let choices = PyList::empty(py);
    for Decision { key, way, nanoseconds_per_row } in gemm.decisions() {
        let one = PyDict::new(py);
        one.set_item("rows_up_to", key.rows)?;
        one.set_item("columns", key.columns)?;
        one.set_item("sums", key.sums)?;
        one.set_item("dtype", disc_ral::DType::from_code(key.dtype).map(disc_ral::DType::name))?;
        one.set_item("threads", key.threads)?;
        one.set_item("choice", if way == Way::Library { "library" } else { "kernel" })?;
        one.set_item("kernel_ns_per_row", nanoseconds_per_row[0])?;
        one.set_item("library_ns_per_row", nanoseconds_per_row[1])?;
        choices.append(one)?;
    }
    dict.set_item("choices", choices)?;
    Ok(dict)
}

/// Returns the state of background compilation.
pub(crate) fn specializations_dict<'py>(py: Python<'py>, found: &Specializations) -> PyResult<Bound<'py, PyDict>> {
    let versions = PyList::empty(py);
    for version in &found.versions {
        let one = PyDict::new(py);
        one.set_item("dims", &version.dims)?;
        one.set_item("hits", version.hits)?;
        one.set_item("code_bytes", version.code_bytes)?;
        one.set_item("weight_bytes", version.weight_bytes)?;
        one.set_item("compile_ms", version.compile_ms)?;
        one.set_item("ratio", version.ratio)?;
        versions.append(one)?;
    }
    let reasons = |pairs: &[(String, String)]| {
        let list = PyList::empty(py);
        for (dims, reason) in pairs {
            let one = PyDict::new(py);
            one.set_item("dims", dims)?;
            one.set_item("reason", reason)?;
            list.append(one)?;
        }
        Ok::<_, PyErr>(list)
    };
    let dict = PyDict::new(py);
    dict.set_item("versions", versions)?;
    dict.set_item("hits", found.versions.iter().map(|version| version.hits).sum::<u64>())?;
    dict.set_item("code_bytes", found.versions.iter().map(|version| version.code_bytes).sum::<usize>())?;
    dict.set_item("compile_ms", found.compile_ms)?;
    dict.set_item("pending", found.pending)?;
    dict.set_item("rejected", reasons(&found.rejected)?)?;
    dict.set_item("failed", reasons(&found.failed)?)?;
    Ok(dict)
}

/// Returns the names of the devices that compiled code can run on here.
#[pyfunction]
pub(crate) fn devices() -> Vec<String> {
    facade::devices()
}

/// Raises for options whose code could not run here: an unknown target, one of another CPU or of
/// another device, or a device that is not there.
#[pyfunction]
pub(crate) fn check_runs(options: &Bound<'_, PyDict>) -> PyResult<()> {
    guarded(|| Ok(read_options(options)?.check_runs().map_err(Failure::from)?))
}

/// Sets the folders of installed packages, where an assembler and libraries for GPUs are looked
/// for.
#[pyfunction]
pub(crate) fn set_package_folders(folders: Vec<std::path::PathBuf>) {
    disc_ral::cuda::set_package_folders(folders);
}

/// Waits until all background compilations have ended: for tests and measurements.
#[pyfunction]
pub(crate) fn await_specializations(py: Python<'_>) {
    py.detach(background::wait);
    logging::deliver(py);
}

/// Runs the compiler on another thread and waits for it; an exception of a signal handler ends the
/// wait.
pub(crate) fn apart<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, facade::Error> + Send + 'static,
) -> PyResult<T> {
    logging::look(py);
    let (sender, receiver) = mpsc::sync_channel(1);
    // A receiver alone may not be lent to code that runs without the GIL.
    let receiver = Mutex::new(receiver);
    let run = move || {
        // Nobody waits for an abandoned compilation.
        let _ = sender.send(work());
    };
    let spawned = thread::Builder::new().name("disc-compile".into()).stack_size(STACK).spawn(run);
    let thread = spawned.map_err(|error| Failure::new("E0605", format!("no thread for the compiler: {error}")))?;
    loop {
        let received = py.detach(|| receiver.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(POLL));
        logging::deliver(py);
        match received {
            Ok(result) => return result.map_err(|error| Failure::from(error).into()),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(Failure::new(disc_ir::Code::E0211, "the compiler ended without a result").into());
            }
        }
        if let Err(interrupt) = py.check_signals() {
            ABANDONED.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
            return Err(interrupt);
        }
    }
}

/// Awaits abandoned compilations, finishes the code that the cache keeps, ends the compilations of
/// the background, and writes prepared weights that are not on disk yet; registered to run when the
/// process exits.
#[pyfunction]
pub(crate) fn finish_abandoned(py: Python<'_>) {
    let threads = std::mem::take(&mut *ABANDONED.lock().unwrap_or_else(PoisonError::into_inner));
    py.detach(|| {
        for thread in threads {
            // It has reported its panic itself.
            let _ = thread.join();
        }
        cache::finish_code(|| Python::attach(|py| py.check_signals().is_ok()));
        background::stop();
        // A signal handler that raises means that the user wants to leave.
        cache::write_out(|| Python::attach(|py| py.check_signals().is_ok()));
    });
    logging::deliver(py);
}
