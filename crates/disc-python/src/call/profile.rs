//! Records calls and their kernels for `disc.profile`, and shows them to torch's profiler.
//!
//! Invariant: a call that nobody watches compares one number, and the flag of torch's profiler.
use super::{
    executable::PyExecutable,
    outputs::Framework,
    torch_profiler::{self, Ranges},
};
use disc_ral::{LaunchNames, LaunchRecord, SessionState, TensorRef};
use pyo3::{
    prelude::*,
    types::{PyDict, PyList},
};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread::{self, ThreadId},
    time::Instant,
};

/// Launches that one profile keeps; those after them are counted.
const MOST_LAUNCHES: usize = 1 << 20;

/// The number of profiles that are running.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
static RECORDERS: Mutex<Vec<Arc<Recorder>>> = Mutex::new(Vec::new());

/// A call that somebody watched.
struct CallRecord {
    /// The number of the executable.
    executable: u64,
    name: String,
    sizes: Vec<(String, i64)>,
    thread: u64,
    start: Instant,
    nanoseconds: u64,
    launches: Vec<LaunchRecord>,
}

/// One running profile.
struct Recorder {
    /// The thread whose calls are recorded; `None`: those of all threads.
    thread: Option<ThreadId>,
    began: Instant,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    calls: Vec<Arc<CallRecord>>,
    launches: usize,
    /// Calls that came when there were launches enough.
    left_out: usize,
}

impl Recorder {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, call: &Arc<CallRecord>) {
        let mut held = self.held();
        if held.launches + call.launches.len() > MOST_LAUNCHES {
            held.left_out += 1;
            return;
        }
        held.launches += call.launches.len();
        held.calls.push(Arc::clone(call));
    }
}

fn recorders() -> MutexGuard<'static, Vec<Arc<Recorder>>> {
    RECORDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The parties that watch a call.
pub(super) struct Watchers {
    recorders: Vec<Arc<Recorder>>,
    ranges: Option<Ranges>,
}

/// Returns true if somebody may watch a call: on the path of every call.
#[inline]
pub(super) fn is_watched(py: Python<'_>, framework: Framework) -> bool {
    RUNNING.load(Ordering::Relaxed) != 0 || torch_profiler::runs(py, framework)
}

/// Returns those who watch the calls of this thread.
pub(super) fn watchers(py: Python<'_>, framework: Framework) -> Watchers {
    let ranges = Ranges::wanted(py, framework);
    let this = thread::current().id();
    let recorders = recorders().iter().filter(|r| r.thread.is_none_or(|thread| thread == this)).cloned().collect();
    Watchers { recorders, ranges }
}

impl Watchers {
    /// Opens the range of a call, where torch's profiler wants one.
    pub(super) fn begin(&mut self, py: Python<'_>, name: &str) {
        if let Some(ranges) = &mut self.ranges {
            ranges.open(py, &format!("disc::{name}"));
        }
    }

    /// Runs a call, without the GIL.
    pub(super) fn run<E>(
        &mut self,
        executable: &PyExecutable,
        session: &mut SessionState,
        inputs: &[TensorRef<'_>],
        run: impl FnOnce(&mut SessionState) -> Result<(), E>,
    ) -> Result<(), E> {
        match &self.ranges {
            None => session.start_profile(),
            Some(ranges) => session.observe(Box::new(ranges.of_kernels())),
        }
        let start = Instant::now();
        let result = run(session);
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let launches = session.take_profile();
        if self.recorders.is_empty() {
            return result;
        }
        let sizes = executable.meta().sizes_of(inputs).map(|(dim, size)| (dim.to_owned(), size)).collect();
        let (executable, name) = (executable.number, executable.name.clone());
        let call = Arc::new(CallRecord { executable, name, sizes, thread: thread_number(), start, nanoseconds, launches });
        self.recorders.iter().for_each(|recorder| recorder.record(&call));
        result
    }

    pub(super) fn end(&mut self, py: Python<'_>) {
        if let Some(ranges) = &mut self.ranges {
            ranges.close(py);
        }
    }
}

/// Numbers threads in the order of their first watched call.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local!(static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed));
    NUMBER.with(|number| *number)
}

/// Records calls between `start` and `stop`.
#[pyclass(name = "Profiler", module = "disc._disc", frozen)]
pub(crate) struct PyProfiler {
    recorder: Arc<Recorder>,
}

#[pymethods]
impl PyProfiler {
    /// Starts to record: the calls of this thread, or those of all threads.
    #[new]
    #[pyo3(signature = (*, all_threads = true))]
    fn new(all_threads: bool) -> Self {
        let thread = (!all_threads).then(|| thread::current().id());
        let recorder = Arc::new(Recorder { thread, began: Instant::now(), held: Mutex::default() });
        recorders().push(Arc::clone(&recorder));
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Self { recorder }
    }

    /// Ends the recording; a second time nothing happens.
    fn stop(&self) {
        let mut all = recorders();
        if let Some(at) = all.iter().position(|other| Arc::ptr_eq(other, &self.recorder)) {
            all.remove(at);
            RUNNING.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The calls that were left out, since there were launches enough.
    #[getter]
    fn left_out(&self) -> usize {
        self.recorder.held().left_out
    }

    /// Returns the modules whose weights each kernel reads, by the address of the kernel.
    fn sources<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.by_kernel(py, |launch| &launch.sources)
    }

    /// Returns the lines of the model that each kernel computes, by the address of the kernel.
    fn lines<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.by_kernel(py, |launch| &launch.lines)
    }

    /// Returns the calls so far: dicts, each with its kernels in the order of their launches. Times
    /// are nanoseconds; `start` is that since the recording began.
    fn calls<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let calls = self.recorder.held().calls.clone();
        let since = |at: Instant| u64::try_from(at.saturating_duration_since(self.recorder.began).as_nanos()).unwrap_or(u64::MAX);
        let (made, mut names) = (PyList::empty(py), LaunchNames::default());
        for call in calls {
            let kernels = PyList::empty(py);
            for launch in &call.launches {
                let row = PyDict::new(py);
                row.set_item("kernel", launch.kernel)?;
                row.set_item("name", names.of(launch))?;
                row.set_item("units", launch.units)?;
                row.set_item("threads", launch.threads)?;
                row.set_item("estimated_ns", launch.cost)?;
                row.set_item("start", since(launch.start))?;
                row.set_item("ns", launch.nanoseconds)?;
                kernels.append(row)?;
            }
            let row = PyDict::new(py);
            row.set_item("executable", call.executable)?;
            row.set_item("name", &call.name)?;
            row.set_item("sizes", call.sizes.clone())?;
            row.set_item("thread", call.thread)?;
            row.set_item("start", since(call.start))?;
            row.set_item("ns", call.nanoseconds)?;
            row.set_item("kernels", kernels)?;
            made.append(row)?;
        }
        Ok(made)
    }
}

impl PyProfiler {
    /// Returns what is known of each kernel, by its address.
    fn by_kernel<'py>(&self, py: Python<'py>, of: impl Fn(&LaunchRecord) -> &[String]) -> PyResult<Bound<'py, PyDict>> {
        let (calls, made) = (self.recorder.held().calls.clone(), PyDict::new(py));
        for launch in calls.iter().flat_map(|call| &call.launches) {
            if !of(launch).is_empty() && !made.contains(launch.kernel)? {
                made.set_item(launch.kernel, of(launch).to_vec())?;
            }
        }
        Ok(made)
    }
}

impl Drop for PyProfiler {
    fn drop(&mut self) {
        self.stop();
    }
}
