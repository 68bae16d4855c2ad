//! Serves calls of a graph of dynamo's with weights that were prepared before: `WarmGraph`.
//!
//! Invariant: a set of weights is dropped here when one of them is gone; its addresses may be those
//! of others then.
use crate::{
    call::{Arguments as Tensors, Objects, PyExecutable, PyWatch},
    errors::{Failure, guarded},
};
use pyo3::{
    PyTraverseError, PyVisit,
    prelude::*,
    types::{PyList, PyTuple},
};
use smallvec::SmallVec;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

/// The sets of weights of one graph, each with the code that holds it.
#[pyclass(name = "WarmGraph", module = "disc._disc", frozen)]
pub(crate) struct PyWarmGraph {
    sets: Mutex<Sets>,
    results: Results,
    /// The recordings of calls that are open.
    recordings: Py<PyList>,
    calls: AtomicU64,
}

/// Sets of weights, and the one that the last call passed. Layers that share a graph pass theirs in
/// turn, so that the next one follows.
#[derive(Default)]
struct Sets {
    held: Vec<Arc<Set>>,
    last: usize,
}

/// A set of weights as it was, and the code that holds it.
struct Set {
    watch: Py<PyWatch>,
    executable: Py<PyExecutable>,
    /// Positions of the inputs among the arguments.
    inputs: Vec<usize>,
}

/// The results of a graph.
enum Results {
    Each(Vec<Leaf>),
    /// A function of the arguments and the outputs makes them.
    Function(Py<PyAny>),
}

enum Leaf {
    Output(usize),
    Argument(usize),
}

/// A function that calls a graph; another one serves what is not warm.
#[pyclass(name = "GraphCall", module = "disc._disc", frozen)]
pub(crate) struct PyGraphCall {
    graph: Py<PyWarmGraph>,
    function: Py<PyAny>,
}

#[pymethods]
impl PyWarmGraph {
    /// `leaves`: `("output" or "arg", number)` for each result, or None where
    /// `finish(arguments, outputs)` makes them; `recordings`: the list of open ones.
    #[new]
    fn new(leaves: Option<Vec<(String, usize)>>, finish: Py<PyAny>, recordings: &Bound<'_, PyList>) -> PyResult<Self> {
        let leaf = |(kind, number): (String, usize)| match kind.as_str() {
            "output" => Ok(Leaf::Output(number)),
            "arg" => Ok(Leaf::Argument(number)),
            other => Err(PyErr::from(Failure::argument(format!("there is no kind {other:?} of results")))),
        };
        let results = match leaves {
            Some(leaves) => Results::Each(leaves.into_iter().map(leaf).collect::<PyResult<_>>()?),
            None => Results::Function(finish),
        };
        let recordings = recordings.clone().unbind();
        Ok(Self { sets: Mutex::default(), results, recordings, calls: AtomicU64::new(0) })
    }

    /// The number of calls that were served here.
    #[getter]
    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Serves calls with the weights that `watch` has noted by `executable`; `inputs` are positions
    /// among the arguments.
    fn remember(&self, watch: Py<PyWatch>, executable: Py<PyExecutable>, inputs: Vec<usize>) {
        let mut sets = self.sets();
        sets.last = sets.held.len();
        sets.held.push(Arc::new(Set { watch, executable, inputs }));
    }

    /// Serves no more calls by `executable`.
    fn forget(&self, executable: &Bound<'_, PyExecutable>) {
        let mut sets = self.sets();
        let (kept, gone): (Vec<_>, Vec<_>) = sets.held.drain(..).partition(|set| !set.executable.is(executable));
        *sets = Sets { held: kept, last: 0 };
        drop(sets);
        drop(gone);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match &self.results {
            Results::Each(_) => Ok(()),
            Results::Function(function) => visit.call(function),
        }
    }
}

#[pymethods]
impl PyGraphCall {
    #[new]
    fn new(graph: Py<PyWarmGraph>, function: Py<PyAny>) -> Self {
        Self { graph, function }
    }

    #[pyo3(signature = (*arguments))]
    fn __call__<'py>(&self, py: Python<'py>, arguments: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        match guarded(|| self.graph.get().serve(py, arguments))? {
            Some(results) => Ok(results),
            None => self.function.bind(py).call1(arguments),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.graph)?;
        visit.call(&self.function)
    }
}

impl PyWarmGraph {
    /// Serves a call; returns `None` for one with weights that are not held, or that fails.
    fn serve<'py>(&self, py: Python<'py>, arguments: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !self.recordings.bind(py).is_empty() {
            return Ok(None);
        }
        let Some(set) = self.set_of(arguments)? else { return Ok(None) };
        let executable = set.executable.get();
        let mut inputs: SmallVec<[_; 8]> = SmallVec::new();
        for &position in &set.inputs {
            inputs.push(Some(arguments.get_item(position)?));
        }
        let mut tensors = Tensors::new();
        if executable.read(&mut tensors, inputs).is_err() {
            return Ok(None);
        }
        let Ok(outputs) = executable.run_read(py, &tensors) else { return Ok(None) };
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.results(py, arguments, outputs).map(Some)
    }

    /// Returns the set of weights of a call.
    fn set_of(&self, arguments: &Bound<'_, PyTuple>) -> PyResult<Option<Arc<Set>>> {
        let (count, last) = {
            let sets = self.sets();
            (sets.held.len(), sets.last)
        };
        for i in 0..count {
            let place = (last + i) % count;
            // A watch may ask Python, which may change the sets.
            let Some(set) = self.sets().held.get(place).map(Arc::clone) else { break };
            if set.watch.get().are_unchanged(arguments)? {
                if i > 0 {
                    self.sets().last = place;
                }
                return Ok(Some(set));
            }
        }
        Ok(None)
    }

    fn results<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
        outputs: Objects<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let leaves = match &self.results {
            Results::Each(leaves) => leaves,
            Results::Function(function) => return function.bind(py).call1((arguments, PyList::new(py, outputs)?)),
        };
        let leaf = |leaf: &Leaf| match leaf {
            Leaf::Output(i) => outputs.get(*i).cloned().ok_or_else(|| PyErr::from(Failure::new("E0211", "an output is missing"))),
            Leaf::Argument(i) => arguments.get_item(*i),
        };
        let made: Objects<'py> = leaves.iter().map(leaf).collect::<PyResult<_>>()?;
        Ok(PyTuple::new(py, made)?.into_any())
    }

    fn sets(&self) -> MutexGuard<'_, Sets> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
