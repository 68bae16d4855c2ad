//! Makes the launches of a call that came several times into a graph, which starts as one launch.
//!
//! A call that may become a graph leaves its launches pending. When it ends, they are compared with
//! those of its graph: where only addresses differ, the nodes that name them are changed, and the
//! graph starts; otherwise the launches are made one by one. So a graph never decides what runs:
//! the host program does, at each call.
//!
//! The launches of a graph do not overlap: each node begins when the one before has ended.
//!
//! Invariant: a queue has at most [`MOST`] graphs, those of the calls that came last.

use super::{
    context::Gpu,
    driver::{CudaError, Driver},
    kernels::Loaded,
    overlap::Last,
};
use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUgraph, CUgraphExec, CUgraphNode, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue,
    CUlaunchConfig, CUstream,
};
use smallvec::SmallVec;
use std::{ffi::c_void, ptr, sync::Arc};

/// Graphs of a queue.
const MOST: usize = 8;
/// Calls of the same sizes before one becomes a graph.
const CALLS_BEFORE: u32 = 2;
/// A call of fewer launches starts as fast without a graph.
const LEAST_LAUNCHES: usize = 2;
/// Kinds of calls that are counted.
const MOST_COUNTED: usize = 64;

/// Ends the list of a launch's extra options.
const END: *mut c_void = ptr::null_mut();
/// The option with the address of the parameters.
const PARAMETERS: *mut c_void = ptr::without_provenance_mut(1);
/// The option with the bytes of the parameters.
const PARAMETERS_BYTES: *mut c_void = ptr::without_provenance_mut(2);

/// A launch with its parameters.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Ready {
    pub(super) loaded: Loaded,
    pub(super) blocks: u32,
    pub(super) threads: u32,
    pub(super) shared: u32,
    pub(super) words: SmallVec<[u64; 16]>,
    /// It may begin while the launch before runs, if that is a kernel.
    pub(super) waits: bool,
}

impl Ready {
    /// Returns true for launches that differ in the values of parameters at most.
    fn is_like(&self, other: &Self) -> bool {
        let shape = |ready: &Self| (ready.loaded, ready.blocks, ready.threads, ready.shared, ready.words.len());
        shape(self) == shape(other)
    }

    /// Calls `body` with the parameters in the form of an extra option.
    fn with_extra<R>(&self, body: impl FnOnce(*mut *mut c_void) -> R) -> R {
        let mut bytes = size_of_val(&self.words[..]);
        let words = self.words.as_ptr().cast_mut();
        let mut extra = [PARAMETERS, words.cast(), PARAMETERS_BYTES, (&raw mut bytes).cast(), END];
        body(extra.as_mut_ptr())
    }

    /// Launches it on a stream of the context that is current, after what the stream did last.
    pub(super) fn start(&self, driver: &Driver, stream: CUstream, last: &mut Last) -> Result<(), CudaError> {
        // After a failure nothing is known.
        let before = std::mem::take(last);
        match self.waits && before == Last::Kernel {
            true => self.start_early(driver, stream)?,
            false => self.start_behind(driver, stream)?,
        }
        *last = Last::Kernel;
        Ok(())
    }

    /// Launches it so that it may begin while the launch before runs.
    fn start_early(&self, driver: &Driver, stream: CUstream) -> Result<(), CudaError> {
        let value = CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 };
        let id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        let mut attribute = CUlaunchAttribute { id, pad: [0; 4], value };
        let launch = CUlaunchConfig {
            gridDimX: self.blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: self.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: self.shared,
            hStream: stream,
            attrs: &raw mut attribute,
            numAttrs: 1,
        };
        self.with_extra(|extra| {
            // SAFETY: the words are the kernel's parameters; all is read before this returns. The
            // kernel waits for the one before it.
            unsafe { driver.launch_with(&raw const launch, self.loaded.function, ptr::null_mut(), extra) }
        })
    }

    fn start_behind(&self, driver: &Driver, stream: CUstream) -> Result<(), CudaError> {
        let (function, blocks, threads, shared) = (self.loaded.function, self.blocks, self.threads, self.shared);
        self.with_extra(|extra| {
            // SAFETY: the words are the kernel's parameters, and are read before this returns.
            unsafe { driver.launch(function, blocks, 1, 1, threads, 1, 1, shared, stream, ptr::null_mut(), extra) }
        })
    }

    /// Calls `body` with the parameters in the form of a node.
    fn with_node<R>(&self, body: impl FnOnce(*const CUDA_KERNEL_NODE_PARAMS) -> R) -> R {
        self.with_extra(|extra| {
            let parameters = CUDA_KERNEL_NODE_PARAMS {
                func: self.loaded.function,
                gridDimX: self.blocks,
                gridDimY: 1,
                gridDimZ: 1,
                blockDimX: self.threads,
                blockDimY: 1,
                blockDimZ: 1,
                sharedMemBytes: self.shared,
                kernelParams: ptr::null_mut(),
                extra,
                kern: ptr::null_mut(),
                ctx: ptr::null_mut(),
            };
            body(&raw const parameters)
        })
    }
}

/// The launches of one kind of call, one after the other.
struct Graph {
    gpu: Arc<Gpu>,
    graph: CUgraph,
    instance: CUgraphExec,
    nodes: Vec<CUgraphNode>,
    launches: Vec<Ready>,
}

impl Graph {
    fn new(gpu: &Arc<Gpu>, launches: &[Ready]) -> Result<Self, CudaError> {
        let (graph, instance) = (ptr::null_mut(), ptr::null_mut());
        let mut made = Self { gpu: Arc::clone(gpu), graph, instance, nodes: Vec::new(), launches: launches.to_vec() };
        // What was made before a failure is freed with it.
        gpu.call(|driver| {
            // SAFETY: each writes one handle; a node names the one before it.
            unsafe {
                driver.create_graph(&mut made.graph, 0)?;
                for launch in launches {
                    let mut node = ptr::null_mut();
                    let before = made.nodes.last().map_or(ptr::null(), ptr::from_ref);
                    let count = made.nodes.len().min(1);
                    launch.with_node(|node_of| driver.add_kernel_node(&mut node, made.graph, before, count, node_of))?;
                    made.nodes.push(node);
                }
                driver.instantiate_graph(&mut made.instance, made.graph, 0)
            }
        })?;
        Ok(made)
    }

    fn is_like(&self, launches: &[Ready]) -> bool {
        self.launches.len() == launches.len() && self.launches.iter().zip(launches).all(|(known, new)| known.is_like(new))
    }

    /// Starts the graph for launches that are like its own.
    fn start(&mut self, launches: &[Ready], stream: CUstream) -> Result<(), CudaError> {
        let Self { gpu, instance, nodes, launches: known, .. } = self;
        gpu.call(|driver| {
            for ((known, &node), new) in known.iter_mut().zip(&*nodes).zip(launches) {
                if known.words != new.words {
                    // SAFETY: a node of this graph, and parameters of its kernel.
                    new.with_node(|parameters| unsafe { driver.set_kernel_node(*instance, node, parameters) })?;
                    known.words.copy_from_slice(&new.words);
                }
            }
            // SAFETY: a graph of this context.
            unsafe { driver.launch_graph(*instance, stream) }
        })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let (graph, instance) = (self.graph, self.instance);
        // SAFETY: handles of this graph. One that runs is freed when it has ended.
        let _ = self.gpu.call(|driver| unsafe {
            if !instance.is_null() {
                driver.destroy_instance(instance)?;
            }
            if graph.is_null() { Ok(()) } else { driver.destroy_graph(graph) }
        });
    }
}

/// The kinds of calls that a queue has made, the last ones first.
#[derive(Default)]
pub(super) struct Graphs {
    kinds: Vec<Kind>,
    /// Launches of the running call that are left pending.
    pending: Vec<Ready>,
    state: State,
}

/// The kind of the running call.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Launches are made at once.
    #[default]
    Direct,
    /// Launches are pending.
    Waiting,
}

struct Kind {
    key: u64,
    calls: u32,
    graph: Option<Graph>,
}

// SAFETY: handles of the driver, which any thread may use; one at a time does.
unsafe impl Send for Graphs {}

impl Graphs {
    /// Begins a call of a kind.
    pub(super) fn begin(&mut self, key: u64) {
        self.pending.clear();
        let known = self.kinds.iter().position(|kind| kind.key == key);
        let mut kind = known.map_or(Kind { key, calls: 0, graph: None }, |at| self.kinds.remove(at));
        kind.calls = kind.calls.saturating_add(1);
        self.state = if kind.calls > CALLS_BEFORE { State::Waiting } else { State::Direct };
        self.kinds.insert(0, kind);
        self.kinds.truncate(MOST_COUNTED);
        // The graphs of the calls that came last stay, and there is room for one of this call.
        self.kinds[1..].iter_mut().filter(|kind| kind.graph.is_some()).skip(MOST - 1).for_each(|kind| kind.graph = None);
    }

    /// Keeps a launch for the end of the call. Returns it, if it is to be made at once.
    pub(super) fn keep(&mut self, launch: Ready) -> Option<Ready> {
        if self.state == State::Direct {
            return Some(launch);
        }
        self.pending.push(launch);
        None
    }

    /// Makes the pending launches one by one: something has to run after them.
    pub(super) fn flush(&mut self, gpu: &Gpu, stream: CUstream, last: &mut Last) -> Result<(), CudaError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.state = State::Direct;
        let pending = std::mem::take(&mut self.pending);
        gpu.call(|driver| pending.iter().try_for_each(|launch| launch.start(driver, stream, last)))
    }

    /// Ends the call: starts its graph, or makes the pending launches.
    pub(super) fn finish(&mut self, gpu: &Arc<Gpu>, stream: CUstream, last: &mut Last) -> Result<(), CudaError> {
        if self.pending.len() < LEAST_LAUNCHES {
            let flushed = self.flush(gpu, stream, last);
            self.state = State::Direct;
            return flushed;
        }
        self.state = State::Direct;
        let pending = std::mem::take(&mut self.pending);
        let Some(kind) = self.kinds.first_mut() else { return Ok(()) };
        if kind.graph.as_ref().is_none_or(|graph| !graph.is_like(&pending)) {
            kind.graph =
                Graph::new(gpu, &pending).inspect_err(|error| tracing::info!("a call stays without a graph: {error}")).ok();
        }
        match &mut kind.graph {
            Some(graph) => {
                *last = Last::Other;
                graph.start(&pending, stream).inspect_err(|_| kind.graph = None)
            }
            None => gpu.call(|driver| pending.iter().try_for_each(|launch| launch.start(driver, stream, last))),
        }
    }
}
