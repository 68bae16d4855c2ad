//! Computes convolutions by cuDNN, NVIDIA's library, where the machine has it.
//!
//! A convolution is offered by generated code ([`disc_abi::LibraryConvolution`]), which has kernels
//! for it too. The plan of a shape is made when it is met first; nothing is looked up in the
//! library afterwards.
//!
//! Invariants:
//! - the plan is the first of the library's heuristics that it can use, so that one version of the
//!   library computes the same bits in every process; nothing is measured;
//! - a failure of the library is never one of the call: it declines, and kernels compute the
//!   convolution;
//! - one thread calls the library at a time: a handle has one stream.
mod descriptor;
mod functions;
mod graph;
mod plan;
mod shape;

pub(super) use shape::Shape;

use super::{context::Gpu, driver::CudaError, find_library::Names, shared_library::SharedLibrary};
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use disc_abi::LibraryConvolution;
use functions::{CudnnError, Functions, Handle, Words};
use plan::Plan;
use std::{
    collections::HashMap,
    fmt, ptr,
    sync::{Arc, Mutex, PoisonError},
};

/// The names of the library: the whole, and the part that has the functions that are called.
const NAMES: Names<'_> = Names { whole: &["libcudnn.so.9"], parts: &["libcudnn_graph.so.9"] };
/// The versions whose numbers are known.
const MAJOR: usize = 9;
/// The most shapes whose plans are kept: sizes of a model come in any number.
const MOST_PLANS: usize = 1024;
/// The most bytes that a plan may work in. Plans of tensors that an engine has to turn around need
/// about as many as these have.
const MOST_WORKSPACE: usize = 256 << 20;

/// The library on one GPU.
pub(super) struct Cudnn {
    functions: Functions,
    words: Words,
    made: Mutex<Made>,
}

/// The handle and the plans, which one thread uses at a time.
struct Made {
    handle: Handle,
    /// The plan of each shape; `None` if the library has none for it.
    plans: HashMap<Shape, Option<Arc<Plan>>>,
}

// SAFETY: the library's functions may be called by any thread, with one handle by one at a time.
unsafe impl Send for Cudnn {}
// SAFETY: as above; the handle is under a lock.
unsafe impl Sync for Cudnn {}

/// The version.
impl fmt::Display for Cudnn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.functions.version();
        write!(f, "cuDNN {}.{}.{}", version / 10_000, version % 10_000 / 100, version % 100)
    }
}

impl Gpu {
    /// Returns the library for this GPU, which is looked for at the first call.
    ///
    /// # Errors
    /// The reason that there is none.
    pub(super) fn cudnn(&self) -> Result<&Cudnn, &str> {
        let found = self.cudnn.get_or_init(|| {
            let found = NAMES.first(&super::package_folders(), |library| Cudnn::new(self, library));
            match &found {
                Ok(library) => tracing::info!("convolutions of {} may go to {library}", self.name),
                Err(reason) => tracing::info!("no cuDNN for {}: {reason}", self.name),
            }
            found
        });
        found.as_ref().map_err(String::as_str)
    }
}

impl Cudnn {
    fn new(gpu: &Gpu, library: SharedLibrary) -> Result<Self, String> {
        // SAFETY: the types are those of the library's header.
        let words = unsafe {
            let of_status = library.function("cudnnGetErrorString");
            of_status.zip(library.function("cudnnGetLastErrorString")).map(|(of_status, of_last)| Words { of_status, of_last })
        };
        let (Some(functions), Some(words)) = (Functions::of(library), words) else { return Err("it lacks functions".into()) };
        let version = functions.version();
        if version / 10_000 != MAJOR {
            return Err(format!("it has version {version}, expected {MAJOR}.x"));
        }
        let mut handle = ptr::null_mut();
        // SAFETY: writes one handle, which is never destroyed: the context lives as long as the
        // process.
        let made = gpu.call(|_| Ok(unsafe { functions.create(&mut handle) }.map_err(|error| words.of(error))));
        made.map_err(|error| error.to_string())??;
        Ok(Self { functions, words, made: Mutex::new(Made { handle, plans: HashMap::new() }) })
    }

    /// Returns the plan of a shape; `None` if kernels compute it.
    ///
    /// # Errors
    /// A device that cannot be used any more.
    pub(super) fn plan(&self, gpu: &Gpu, shape: &Shape) -> Result<Option<Arc<Plan>>, CudaError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = made.plans.get(shape) {
            return Ok(plan.clone());
        }
        let handle = made.handle;
        let found = gpu.call(|_| {
            // SAFETY: the handle is of these functions, in the context of the call.
            let plan = unsafe { Plan::new(self.functions, handle, shape, MOST_WORKSPACE) };
            Ok(plan.map_err(|error| (error, self.words.of(error))))
        })?;
        let plan = match found {
            Ok(Some(plan)) => Some(Arc::new(plan)),
            Ok(None) => {
                tracing::info!("{self} has no engine for {shape:?}");
                None
            }
            Err((error, words)) if error.is_refusal() => {
                tracing::info!("{self} does not compute {shape:?}: {words}");
                None
            }
            Err((_, words)) => {
                // The next call may have more memory.
                tracing::warn!("a convolution is left to kernels: {words}");
                return Ok(None);
            }
        };
        if made.plans.len() >= MOST_PLANS {
            made.plans.clear();
        }
        made.plans.insert(shape.clone(), plan.clone());
        Ok(plan)
    }

    /// Computes a convolution on a stream. Returns false if the library has not begun it.
    ///
    /// # Errors
    /// A device that cannot be used any more.
    pub(super) fn run(
        &self,
        gpu: &Gpu,
        plan: &Plan,
        convolution: &LibraryConvolution,
        (workspace, _): (CUdeviceptr, usize),
        stream: CUstream,
    ) -> Result<bool, CudaError> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let workspace = ptr::with_exposed_provenance_mut(workspace as usize);
        let ran = gpu.call(|_| {
            // SAFETY: generated code offers memory of the device; the workspace is the queue's own.
            let ran = unsafe {
                let moved = self.functions.set_stream(made.handle, stream.cast());
                moved.and_then(|()| plan.run(self.functions, made.handle, convolution, workspace))
            };
            Ok(ran.map_err(|error: CudnnError| self.words.of(error)))
        })?;
        if let Err(words) = &ran {
            tracing::warn!("a convolution is left to kernels: {words}");
        }
        Ok(ran.is_ok())
    }
}
