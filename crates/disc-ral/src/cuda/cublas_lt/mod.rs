//! Computes matmuls by cuBLASLt, NVIDIA's library, where the machine has it.
//!
//! A matmul is offered by generated code ([`disc_abi::LibraryGemm`]), which has kernels for it too.
//! Descriptors and the algorithm of a shape are made when it is met first; nothing is looked up in
//! the library afterwards.
//!
//! Invariants:
//! - the algorithm is the first of the library's heuristics, so that one version of the library
//!   computes the same bits in every process; nothing is measured;
//! - a failure of the library is never one of the call: it declines, and kernels compute the
//!   matmul.
mod functions;
mod plan;
mod shape;

pub(super) use shape::Shape;

use super::{context::Gpu, driver::CudaError, find_library::Names};
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use disc_abi::LibraryGemm;
use functions::{Functions, Handle};
use plan::Plan;
use std::{
    collections::HashMap,
    fmt::{self, Display},
    ptr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// The names of the library: of the major versions that are called, the newest one first.
const NAMES: Names<'_> = Names { whole: &["libcublasLt.so.13", "libcublasLt.so.12"], parts: &[] };

/// The most shapes whose plans are kept: sizes of a model come in any number.
const MOST_PLANS: usize = 4096;

/// The library on one GPU.
pub(super) struct CublasLt {
    functions: Functions,
    handle: Handle,
    /// The plan of each shape; `None` if the library has no algorithm for it.
    plans: Mutex<HashMap<Shape, Option<Arc<Plan>>>>,
    has_failed: AtomicBool,
}

// SAFETY: the library's functions may be called by any thread, with one handle too.
unsafe impl Send for CublasLt {}
// SAFETY: as above.
unsafe impl Sync for CublasLt {}

/// The version.
impl fmt::Display for CublasLt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.functions.version();
        write!(f, "cuBLASLt {}.{}.{}", version / 10_000, version % 10_000 / 100, version % 100)
    }
}

impl Gpu {
    /// Returns the library for this GPU, which is looked for at the first call.
    ///
    /// # Errors
    /// The reason that there is none.
    pub(super) fn cublas_lt(&self) -> Result<&CublasLt, &str> {
        let found = self.cublas_lt.get_or_init(|| {
            let found = NAMES.first(&super::package_folders(), |library| {
                let functions = Functions::of(library).ok_or("it lacks functions")?;
                CublasLt::new(self, functions)
            });
            match &found {
                Ok(library) => tracing::info!("matmuls of {} may go to {library}", self.name),
                Err(reason) => tracing::info!("no cuBLASLt for {}: {reason}", self.name),
            }
            found
        });
        found.as_ref().map_err(String::as_str)
    }

    /// Returns the most bytes that an algorithm may work in: as NVIDIA advises for the chip.
    fn most_workspace(&self) -> usize {
        match self.sm {
            90..120 => 32 << 20,
            120.. => 12 << 20,
            _ => 4 << 20,
        }
    }
}

impl CublasLt {
    fn new(gpu: &Gpu, functions: Functions) -> Result<Self, String> {
        let mut handle = ptr::null_mut();
        // SAFETY: writes one handle, which is never destroyed: the context lives as long as the
        // process.
        let made = gpu.call(|_| Ok(unsafe { functions.create(&mut handle) }));
        made.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        Ok(Self { functions, handle, plans: Mutex::default(), has_failed: AtomicBool::new(false) })
    }

    /// Returns the plan of a shape; `None` if kernels compute it.
    ///
    /// # Errors
    /// A device that cannot be used any more.
    pub(super) fn plan(&self, gpu: &Gpu, shape: &Shape) -> Result<Option<Arc<Plan>>, CudaError> {
        let plans = || self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let known = plans().get(shape).cloned();
        if let Some(plan) = known {
            return Ok(plan);
        }
        // Nobody waits for the heuristics; of two threads with one shape the first one counts.
        // SAFETY: the handle is of these functions, in the context of the call.
        let made = gpu.call(|_| Ok(unsafe { Plan::new(self.functions, self.handle, shape, gpu.most_workspace()) }))?;
        let plan = match made {
            Ok(plan) => plan.map(Arc::new),
            Err(error) if error.is_unsupported() => None,
            Err(error) => {
                // The next call may have more memory.
                self.warn(&error);
                return Ok(None);
            }
        };
        if plan.is_none() {
            tracing::info!("{self} has no algorithm for {shape:?}");
        }
        let mut plans = plans();
        if plans.len() >= MOST_PLANS {
            plans.clear();
        }
        Ok(plans.entry(shape.clone()).or_insert(plan).clone())
    }

    /// Computes a matmul on a stream. Returns false if the library has not begun it.
    ///
    /// # Errors
    /// A device that cannot be used any more.
    pub(super) fn run(
        &self,
        gpu: &Gpu,
        plan: &Plan,
        gemm: &LibraryGemm,
        (workspace, bytes): (CUdeviceptr, usize),
        stream: CUstream,
    ) -> Result<bool, CudaError> {
        let workspace = (ptr::with_exposed_provenance_mut(workspace as usize), bytes);
        // SAFETY: generated code offers memory of the device; the workspace is the queue's own.
        let ran = gpu.call(|_| Ok(unsafe { plan.run(self.functions, self.handle, gemm, workspace, stream.cast()) }))?;
        if let Err(error) = &ran {
            self.warn(error);
        }
        Ok(ran.is_ok())
    }

    /// Logs a failure, the first one for all to see: a library that fails does so in each call.
    fn warn(&self, error: &impl Display) {
        if self.has_failed.swap(true, Ordering::Relaxed) {
            tracing::debug!("a matmul is left to kernels: {error}");
        } else {
            tracing::warn!("a matmul is left to kernels: {error}; further failures are logged at level debug");
        }
    }
}
