//! Calls loaded modules with tensors: `Executable`.
use super::{
    arguments::Arguments,
    meta,
    outputs::{Framework, Objects, Outputs},
    place::Place,
    profile::{is_watched, watchers},
    stream, weights,
};
use crate::{
    compile::{library_dict, report_dict, specializations_dict},
    errors::{Failure, guarded},
    facade::{Error, Executable, Options},
    logging,
};
use disc_ral::{EntryMeta, SessionState, TensorRef};
use pyo3::{
    prelude::*,
    types::{PyDict, PyList},
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// A compiled module with its weights. Any number of threads may call it at once.
#[pyclass(name = "Executable", module = "disc._disc", frozen)]
pub(crate) struct PyExecutable {
    executable: Executable,
    /// The entry of the module that a call runs.
    entry: usize,
    /// The framework of outputs if no input determines it.
    fallback: Option<Framework>,
    /// The memory that calls take tensors in as they are.
    place: Place,
    /// Weights are in memory of the device, so outputs are too.
    has_weights_there: bool,
    /// Tells executables of the process apart.
    pub(super) number: u64,
    /// The name of the model, for profiles.
    pub(super) name: String,
}

#[pymethods]
impl PyExecutable {
    /// Runs the module on a tuple or list of torch tensors, NumPy arrays and numbers. Returns the
    /// list of outputs, which are NumPy arrays unless an input is a torch tensor. Releases the GIL
    /// during the call.
    fn __call__<'py>(&self, py: Python<'py>, inputs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        guarded(|| self.call(py, inputs))
    }

    /// Does the same as a call; as a method it costs less.
    fn run<'py>(&self, py: Python<'py>, inputs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        guarded(|| self.call(py, inputs))
    }

    /// Replaces the weights: a dict of tensors by name, or pairs. Running calls keep the old ones.
    fn set_weights(&self, py: Python<'_>, weights: &Bound<'_, PyAny>) -> PyResult<()> {
        guarded(|| {
            let weights = weights::read(weights)?;
            py.detach(|| self.executable.refresh(weights)).map_err(|error| Failure::from(error).into())
        })
    }

    /// A number that no other executable of the process has.
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    /// The name of the device that calls run on.
    #[getter]
    fn device(&self) -> &'static str {
        self.executable.device().name()
    }

    /// Number of calls that were made.
    #[getter]
    fn calls(&self) -> u64 {
        self.executable.calls()
    }

    /// Most bytes of temporary memory that one call had in use at once.
    #[getter]
    fn peak_arena_bytes(&self) -> usize {
        self.executable.peak_arena_bytes()
    }

    /// Bytes of plain weights that are kept alive, and of those in a prepared form.
    #[getter]
    fn weight_bytes(&self) -> (usize, usize) {
        self.executable.weight_bytes()
    }

    /// The signature of the entry: a dict with name, inputs, outputs and constraints.
    #[getter]
    fn entry<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        meta::entry_dict(py, self.meta())
    }

    /// Returns the report of the compilation, and the memory of the calls so far: a dict.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = match self.executable.report() {
            Some(report) => {
                let (dict, found) = (report_dict(py, report)?, self.executable.specializations());
                dict.set_item("specializations", found.compiled)?;
                dict.set_item("specialized", specializations_dict(py, &found)?)?;
                dict
            }
            None => PyDict::new(py),
        };
        dict.set_item("layers", self.executable.meta().sources.clone())?;
        dict.set_item("lines", self.executable.meta().lines.clone())?;
        dict.set_item("library", library_dict(py, self.executable.gemm().map(|gemm| &**gemm))?)?;
        dict.set_item("weights_cache", self.executable.prepared().name())?;
        dict.set_item("calls", self.calls())?;
        dict.set_item("peak_arena_bytes", self.peak_arena_bytes())?;
        dict.set_item("weight_bytes", self.weight_bytes().0)?;
        dict.set_item("prepared_weight_bytes", self.weight_bytes().1)?;
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        let entry = self.meta();
        let inputs: Vec<String> =
            entry.inputs.iter().map(|input| format!("{}: {} [{}]", input.name, input.dtype, input.dims.join(", "))).collect();
        format!("<disc executable {}({})>", entry.name, inputs.join(", "))
    }
}

impl PyExecutable {
    /// `outputs`: the framework of outputs if no input determines it ("torch" or "numpy"); `name`:
    /// that of the model, for profiles.
    pub(crate) fn new(
        py: Python<'_>,
        executable: Executable,
        entry: Option<&str>,
        outputs: Option<&str>,
        name: Option<&str>,
    ) -> PyResult<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let meta = executable.meta();
        let entry = match entry {
            None => 0,
            Some(name) => meta.entry(name).ok_or_else(|| Failure::argument(format!("there is no entry `{name}`")))?,
        };
        if entry >= meta.entries.len() {
            return Err(Failure::argument("the module has no entry").into());
        }
        let fallback = match outputs {
            None => None,
            Some("numpy") => Some(Framework::Numpy),
            Some("torch") => Some(Framework::torch(py)?),
            Some(other) => return Err(Failure::argument(format!("outputs = {other:?}: expected \"torch\" or \"numpy\"")).into()),
        };
        let name = name.unwrap_or(&executable.meta().entries[entry].name).to_owned();
        let place = Place::of_device(executable.device().name());
        Ok(Self {
            executable,
            entry,
            fallback,
            place,
            has_weights_there: false,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            name,
        })
    }

    /// Says that the weights are in memory of the device.
    pub(crate) fn with_weights_there(self, are_there: bool) -> Self {
        Self { has_weights_there: are_there, ..self }
    }

    /// Reads inputs that were found one by one; returns false unless they have the types and ranks
    /// of the entry's.
    pub(crate) fn read<'py>(
        &self,
        arguments: &mut Arguments<'py>,
        inputs: impl IntoIterator<Item = Option<Bound<'py, PyAny>>>,
    ) -> PyResult<bool> {
        arguments.read_all(inputs, self.meta(), self.place)?;
        Ok(arguments.fit(self.meta()))
    }

    pub(crate) fn meta(&self) -> &EntryMeta {
        &self.executable.meta().entries[self.entry]
    }

    fn call<'py>(&self, py: Python<'py>, inputs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let mut arguments = Arguments::new();
        arguments.read(inputs, self.meta(), self.place)?;
        PyList::new(py, self.run_read(py, &arguments)?)
    }

    /// Runs the module on inputs that were read.
    pub(crate) fn run_read<'py>(&self, py: Python<'py>, arguments: &Arguments<'py>) -> PyResult<Objects<'py>> {
        let entry = self.meta();
        let mut framework = arguments.framework().or(self.fallback).unwrap_or(Framework::Numpy);
        let is_there = arguments.is_there() || self.has_weights_there;
        let there = is_there.then(|| (Arc::clone(self.executable.device()), self.place));
        let is_torch =
            arguments.has_torch() || (arguments.framework().is_none() && self.fallback.is_some_and(Framework::is_torch));
        if is_there && !is_torch {
            framework = Framework::Capsules;
        }
        let stream = if is_there { stream::current(py, self.place, is_torch)? } else { None };
        let mut outputs = Outputs::new(framework, entry.outputs.len(), there);
        let tensors = arguments.tensors(entry);
        let lent = Detached(&tensors[..]);
        let run = |session: &mut SessionState| {
            if self.place == Place::Host {
                return self.executable.run(self.entry, session, lent.get(), &mut outputs);
            }
            session.use_stream(stream);
            self.executable.run(self.entry, session, lent.get(), &mut outputs)?;
            // Other frameworks do not say in which stream they go on.
            if is_torch { Ok(()) } else { Ok(session.synchronize()?) }
        };
        let result = match is_watched(py, framework) {
            false => py.detach(|| self.executable.with_session(run)),
            true => self.watched(py, framework, &lent, run),
        };
        if logging::is_waiting() {
            logging::deliver(py);
        }
        result.map_err(Failure::from)?;
        outputs.into_python(py, entry, arguments.objects())
    }
}

impl PyExecutable {
    /// Runs a call that a profiler watches.
    #[cold]
    fn watched(
        &self,
        py: Python<'_>,
        framework: Framework,
        lent: &Detached<'_>,
        run: impl FnOnce(&mut SessionState) -> Result<(), Error> + Send,
    ) -> Result<(), Error> {
        let mut watchers = watchers(py, framework);
        watchers.begin(py, &self.name);
        let result = py.detach(|| self.executable.with_session(|session| watchers.run(self, session, lent.get(), run)));
        watchers.end(py);
        result
    }
}

/// Descriptors that are used on this thread while it does not hold the GIL.
struct Detached<'t>(&'t [TensorRef<'t>]);

impl<'t> Detached<'t> {
    fn get(&self) -> &'t [TensorRef<'t>] {
        self.0
    }
}

// SAFETY: `Python::detach` asks for `Send` to keep objects of Python out; it runs on the same
// thread, and these are addresses.
unsafe impl Send for Detached<'_> {}
// SAFETY: as above.
unsafe impl Sync for Detached<'_> {}

/// Loads machine code that keeps the runtime's contract, with its metadata as a dict and weights by
/// name. Wrong metadata is undefined behaviour: for tests of the runtime, and for code that disc
/// itself wrote.
#[pyfunction]
#[pyo3(signature = (code, metadata, weights = None, *, entry = None, outputs = None))]
pub(crate) fn load_code(
    py: Python<'_>,
    code: &[u8],
    metadata: &Bound<'_, PyDict>,
    weights: Option<&Bound<'_, PyAny>>,
    entry: Option<&str>,
    outputs: Option<&str>,
) -> PyResult<PyExecutable> {
    guarded(|| {
        let weights = weights.map_or_else(|| Ok(Vec::new()), weights::read)?;
        // SAFETY: the caller's promise, see above.
        let executable =
            unsafe { Executable::from_code(code, meta::read(metadata)?, weights, &Options::default()) }.map_err(Failure::from)?;
        PyExecutable::new(py, executable, entry, outputs, None)
    })
}
