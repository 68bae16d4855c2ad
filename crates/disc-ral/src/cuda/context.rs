//! Holds the primary context of a GPU, which the process shares with its framework.
//!
//! Invariants:
//! - the context that a thread had is current again when a call of the driver has returned;
//! - after a failure that ends the context, and in a forked child, the driver is not called.

use super::{
    assembler::Assembler,
    cublas_lt::CublasLt,
    cudnn::Cudnn,
    driver::{CudaError, Driver},
    kernels::LoadedKernels,
    pinned::SpareBlocks,
    stream_memory::Pool,
};
use cudarc::driver::sys::{self, CUcontext, CUdevice, CUdevice_attribute as Attribute};
use std::{
    collections::HashSet,
    ffi::{CStr, c_int},
    ptr,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// One GPU of the machine.
pub(super) struct Gpu {
    driver: &'static Driver,
    context: CUcontext,
    pub(super) ordinal: u32,
    /// `cuda:0`.
    pub(super) name: &'static str,
    /// Its maker's name, such as `NVIDIA H100 80GB HBM3`.
    pub(super) model: String,
    /// The compute capability, as in `sm_90`.
    pub(super) sm: u32,
    /// Multiprocessors.
    pub(super) processors: u32,
    /// Bytes that a block may share, if its kernel asks for more than is usual.
    pub(super) most_shared: i64,
    /// The tool that makes machine code for it, found at the first kernel.
    pub(super) assembler: OnceLock<Option<Assembler>>,
    /// The kernels that are loaded.
    pub(super) kernels: LoadedKernels,
    /// Launches can begin while the ones before run.
    pub(super) has_launch_attributes: bool,
    /// Memory can be allocated in the order of a stream.
    pub(super) has_pools: bool,
    /// The pool of such memory, made when it is first asked for.
    pub(super) pool: OnceLock<Option<Pool>>,
    /// Pinned memory for copies that no queue has.
    pub(super) spare_blocks: SpareBlocks,
    /// Addresses of memory that a framework allocated.
    pub(super) lent: Mutex<HashSet<u64>>,
    /// The library for matmuls, found when the first one is offered; an error is the reason that
    /// there is none.
    pub(super) cublas_lt: OnceLock<Result<CublasLt, String>>,
    /// The same for convolutions.
    pub(super) cudnn: OnceLock<Result<Cudnn, String>>,
    /// The failure that ended the context.
    lost: OnceLock<CudaError>,
}

// SAFETY: the driver's functions may be called by any thread, and a context by all of them.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

/// Set in a forked child of a process that has used a GPU.
static FORKED: AtomicBool = AtomicBool::new(false);

impl Gpu {
    /// Returns a GPU by its number, if there is one; the process opens each once.
    pub(super) fn open(ordinal: u32) -> Result<Option<Arc<Self>>, CudaError> {
        static OPEN: Mutex<Vec<(u32, Arc<Gpu>)>> = Mutex::new(Vec::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, gpu)) = open.iter().find(|(number, _)| *number == ordinal) {
            return Ok(Some(Arc::clone(gpu)));
        }
        if ordinal >= Self::count()? {
            return Ok(None);
        }
        let gpu = Arc::new(Self::new(ordinal)?);
        open.push((ordinal, Arc::clone(&gpu)));
        Ok(Some(gpu))
    }

    /// Returns how many GPUs there are.
    pub(super) fn count() -> Result<u32, CudaError> {
        let driver = Driver::get()?;
        let mut count = 0;
        // SAFETY: writes one number.
        unsafe { driver.device_count(&mut count)? };
        Ok(u32::try_from(count).unwrap_or(0))
    }

    fn new(ordinal: u32) -> Result<Self, CudaError> {
        watch_forks();
        let driver = Driver::get()?;
        let mut device: CUdevice = 0;
        let mut context: CUcontext = ptr::null_mut();
        let mut name = [0; 256];
        // SAFETY: each writes to what it is given; the name is ended by a zero.
        unsafe {
            driver.device(&mut device, ordinal as c_int)?;
            driver.device_name(name.as_mut_ptr(), name.len() as c_int - 1, device)?;
            // Never released: modules and allocations of the process belong to it.
            driver.retain_primary_context(&mut context, device)?;
        }
        // SAFETY: as above.
        let model = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
        let attribute = |attribute: Attribute| {
            let mut value = 0;
            // SAFETY: writes one number.
            unsafe { driver.device_attribute(&mut value, attribute as c_int, device) }.map(|()| value)
        };
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok(Self {
            driver,
            context,
            ordinal,
            name: Box::leak(format!("cuda:{ordinal}").into_boxed_str()),
            model,
            sm: (major * 10 + minor) as u32,
            processors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?.max(1) as u32,
            most_shared: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?.into(),
            assembler: OnceLock::new(),
            kernels: LoadedKernels::default(),
            has_launch_attributes: driver.has_launch_attributes(),
            // A driver that does not know the attribute has no pools.
            has_pools: driver.has_pools()
                && attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED).is_ok_and(|answer| answer != 0),
            pool: OnceLock::new(),
            spare_blocks: SpareBlocks::default(),
            lent: Mutex::default(),
            cublas_lt: OnceLock::new(),
            cudnn: OnceLock::new(),
            lost: OnceLock::new(),
        })
    }

    /// Calls the driver with the context of this GPU.
    ///
    /// # Errors
    /// A failure of the driver; once the context has ended, the one that ended it.
    pub(super) fn call<R>(&self, body: impl FnOnce(&Driver) -> Result<R, CudaError>) -> Result<R, CudaError> {
        let current = self.enter()?;
        let result = body(self.driver);
        drop(current);
        if let Err(error) = &result
            && error.is_sticky()
        {
            let _ = self.lost.set(error.clone());
        }
        result
    }

    fn enter(&self) -> Result<Current<'_>, CudaError> {
        if FORKED.load(Ordering::Relaxed) {
            let summary = "a process that was forked after its parent used a GPU cannot use one: spawn it";
            return Err(CudaError { summary, ..CudaError::new("fork", summary) });
        }
        if let Some(error) = self.lost.get() {
            let text =
                format!("the device `{}` is lost since an earlier failure ({error}); the process has to start anew", self.name);
            return Err(CudaError { text, summary: "it is lost since an earlier failure", ..error.clone() });
        }
        let mut current = ptr::null_mut();
        // SAFETY: writes one address; the context lives as long as the process.
        unsafe {
            self.driver.current_context(&mut current)?;
            if current == self.context {
                return Ok(Current(None));
            }
            self.driver.push_context(self.context)?;
        }
        Ok(Current(Some(self.driver)))
    }
}

/// Makes the context that the thread had current again.
struct Current<'d>(Option<&'d Driver>);

impl Drop for Current<'_> {
    fn drop(&mut self) {
        let mut popped = ptr::null_mut();
        if let Some(driver) = self.0 {
            // SAFETY: writes one address. A context that cannot be popped has ended.
            let _ = unsafe { driver.pop_context(&mut popped) };
        }
    }
}

/// Notes forks from now on.
fn watch_forks() {
    static WATCHED: OnceLock<()> = OnceLock::new();
    unsafe extern "C" fn forked() {
        FORKED.store(true, Ordering::Relaxed);
    }
    WATCHED.get_or_init(|| {
        // SAFETY: the handler only stores to an atomic, which is allowed in a forked child.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
}

/// The flags of a stream that does not wait for the default one.
pub(super) const NON_BLOCKING: u32 = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
/// The flags of an event that orders streams, and takes no time.
pub(super) const NO_TIMING: u32 = sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32;
/// The flags of host memory that kernels of every GPU may write.
pub(super) const MAPPED: u32 = 0x1 | 0x2;
