//! Loads the kernels of a module: each when it is first launched.

use super::{
    assembler::{Assembler, CubinCache},
    context::Gpu,
    driver::CudaError,
    ptx::KernelPtx,
};
use cudarc::driver::sys::{CUfunction, CUfunction_attribute as Attribute, CUjit_option as Jit};
use std::{
    collections::HashMap,
    ffi::{CString, c_int, c_void},
    ptr,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// Bytes of shared memory that a kernel has without asking.
const USUAL_SHARED: i64 = 48 << 10;
/// The driver's function.
const LOAD: &str = "cuModuleLoadDataEx";
/// Bytes of what the driver says about PTX that it refuses.
const LOG_BYTES: usize = 4096;

/// The kernels of an image.
pub(super) struct CudaKernels {
    gpu: Arc<Gpu>,
    kernels: Vec<CudaKernel>,
}

/// One kernel.
pub(super) struct CudaKernel {
    pub(super) ptx: KernelPtx,
    loaded: OnceLock<Loaded>,
    /// The blocks that the device runs at once, if no launch decides.
    pub(super) resident: OnceLock<i64>,
}

/// A kernel in a context.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Loaded {
    pub(super) function: CUfunction,
}

// SAFETY: a function of a context, which any thread may launch.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

/// The kernels that are loaded on a GPU, by their PTX; never unloaded, for a launch of another
/// thread or a recorded graph may need them.
#[derive(Default)]
pub(super) struct LoadedKernels(Mutex<HashMap<blake3::Hash, Loaded>>);

impl CudaKernels {
    pub(super) fn new(gpu: Arc<Gpu>, kernels: Vec<KernelPtx>) -> Self {
        let kernels =
            kernels.into_iter().map(|ptx| CudaKernel { ptx, loaded: OnceLock::new(), resident: OnceLock::new() }).collect();
        Self { gpu, kernels }
    }

    /// Returns a kernel by its number, if there is one, and if the kernels are of this GPU.
    pub(super) fn get(&self, number: u32, gpu: &Arc<Gpu>) -> Option<&CudaKernel> {
        self.kernels.get(number as usize).filter(|_| Arc::ptr_eq(gpu, &self.gpu))
    }
}

impl CudaKernel {
    /// Returns the kernel in the GPU's context, which is loaded at the first call.
    pub(super) fn loaded(&self, gpu: &Gpu) -> Result<Loaded, CudaError> {
        if let Some(&loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let key = blake3::hash(self.ptx.text.as_bytes());
        let known = || gpu.kernels.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known().get(&key).copied();
        let loaded = match found {
            Some(loaded) => loaded,
            // Nobody waits for the assembler; of two threads with one kernel the first one counts.
            None => {
                let loaded = load(gpu, &self.ptx)?;
                *known().entry(key).or_insert(loaded)
            }
        };
        Ok(*self.loaded.get_or_init(|| loaded))
    }
}

/// Loads a kernel into the context of a GPU: its machine code, or where there is no assembler, or
/// the driver does not take what it made, its PTX.
fn load(gpu: &Gpu, ptx: &KernelPtx) -> Result<Loaded, CudaError> {
    if let Some(cubin) = assembled(gpu, ptx) {
        match load_image(gpu, ptx, &cubin) {
            Err(error) if error.is_about_code() => {
                tracing::info!("the driver does not take machine code of @{}: {error}", ptx.name)
            }
            loaded => return loaded,
        }
    }
    let text = CString::new(ptx.text.as_str()).map_err(|_| CudaError::new(LOAD, "the PTX has a zero byte"))?;
    load_image(gpu, ptx, text.as_bytes_with_nul())
}

/// Returns the machine code of a kernel, if this machine has an assembler.
fn assembled(gpu: &Gpu, ptx: &KernelPtx) -> Option<Vec<u8>> {
    let chip = format!("sm_{}", gpu.sm);
    let assembler = gpu.assembler.get_or_init(|| Assembler::find(&chip, &super::package_folders())).as_ref()?;
    // Code that only this chip runs is assembled under the name that it has there.
    let chip = ptx.specific_target().filter(|target| target.starts_with(&chip)).unwrap_or(&chip);
    let made = match CubinCache::open() {
        Some(cache) => assembler.assemble_cached(&cache, &ptx.text, chip),
        None => assembler.assemble(&ptx.text, chip),
    };
    match made {
        Ok(cubin) => Some(cubin.bytes),
        Err(error) => {
            tracing::warn!("kernel @{} is left to the driver: {error}", ptx.name);
            None
        }
    }
}

/// Loads machine code, or PTX that ends with a zero.
fn load_image(gpu: &Gpu, ptx: &KernelPtx, image: &[u8]) -> Result<Loaded, CudaError> {
    let name = CString::new(ptx.name.as_str()).map_err(|_| CudaError::new(LOAD, "the name of a kernel has a zero byte"))?;
    let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
    let mut log = [0_u8; LOG_BYTES];
    let mut names = [Jit::CU_JIT_ERROR_LOG_BUFFER as c_int, Jit::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as c_int];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), ptr::without_provenance_mut(LOG_BYTES - 1)];
    let result = gpu.call(|driver| {
        // SAFETY: the image and the name end with zeros; two options have two values, and the log
        // has room.
        unsafe {
            driver.load_module(&mut module, image.as_ptr().cast(), 2, names.as_mut_ptr(), values.as_mut_ptr())?;
            driver.function(&mut function, module, name.as_ptr())?;
            if ptx.is_sized_at_launch && gpu.most_shared > USUAL_SHARED {
                let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as c_int;
                driver.set_function_attribute(function, attribute, gpu.most_shared as c_int)?;
            }
        }
        Ok(())
    });
    result.map(|()| Loaded { function }).map_err(|mut error| {
        let said = String::from_utf8_lossy(&log).trim_end_matches('\0').trim().to_owned();
        error.text += &format!(" for kernel @{}", ptx.name);
        if !said.is_empty() {
            error.text += &format!(": {said}");
        }
        error
    })
}
