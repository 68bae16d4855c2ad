//! Implements the device `cuda:N`: memory of a GPU, kernels as PTX, queues.

use super::{context::Gpu, kernels::CudaKernels, ptx::split, queue::CudaQueue};
use crate::{
    device::{Device, Image, Kernels, LaunchFailure, Queue},
    error::{AllocError, Error, code},
};
use cudarc::driver::sys::CUdeviceptr;
use disc_abi::DEVICE_CUDA;
use std::{ptr, ptr::NonNull, sync::Arc};

/// A GPU of NVIDIA.
pub(super) struct Cuda(pub(super) Arc<Gpu>);

/// Starts the name of a target whose code runs here.
const TARGET: &str = "nvptx:sm_";

impl Device for Cuda {
    fn kind(&self) -> u8 {
        DEVICE_CUDA
    }

    fn name(&self) -> &'static str {
        self.0.name
    }

    fn chip(&self) -> Option<String> {
        Some(format!("sm_{}", self.0.sm))
    }

    fn suits(&self, target: &str) -> Option<u32> {
        self.check(target).ok()
    }

    fn alloc(&self, bytes: usize) -> Result<NonNull<u8>, AllocError> {
        let at = self.0.alloc(bytes)?;
        NonNull::new(ptr::with_exposed_provenance_mut(at as usize)).ok_or(AllocError::System)
    }

    unsafe fn free(&self, at: NonNull<u8>, _bytes: usize) {
        self.0.free(at.as_ptr().expose_provenance() as CUdeviceptr);
    }

    fn nontemporal_bytes(&self) -> i64 {
        0
    }

    fn synchronize(&self) -> Result<(), LaunchFailure> {
        // SAFETY: waits.
        let waited = self.0.call(|driver| unsafe { driver.synchronize_context() });
        waited.map_err(|error| LaunchFailure::Driver(error.to_string()))
    }

    fn queue(&self) -> Box<dyn Queue> {
        Box::new(CudaQueue::new(Arc::clone(&self.0)))
    }

    fn gemm_library(&self) -> Result<String, String> {
        self.0.cublas_lt().map(ToString::to_string).map_err(str::to_owned)
    }

    fn convolution_library(&self) -> Result<String, String> {
        self.0.cudnn().map(ToString::to_string).map_err(str::to_owned)
    }

    fn load(&self, image: &Image) -> Result<Kernels, Error> {
        let refused = |why: String| {
            Error::new(code::LOAD, "", format!("kernels for `{}` on the device `{}`: {why}", image.target, self.name()))
        };
        self.check(&image.target).map_err(refused)?;
        let text = std::str::from_utf8(&image.code).map_err(|error| refused(error.to_string()))?;
        let mut kernels = split(text).map_err(refused)?;
        let place = |name: &str| image.kernels.iter().position(|kernel| **kernel == *name);
        if let Some(name) = image.kernels.iter().find(|name| kernels.iter().all(|kernel| kernel.name != ***name)) {
            return Err(refused(format!("there is no kernel @{name}")));
        }
        kernels.retain(|kernel| place(&kernel.name).is_some());
        kernels.sort_by_key(|kernel| place(&kernel.name));
        Ok(Arc::new(CudaKernels::new(Arc::clone(&self.0), kernels)))
    }
}

impl Cuda {
    /// Checks that the GPU runs code for a target: PTX of its own architecture, or of an older one
    /// that is not specific to its chip. Returns how well it suits: newer PTX may use more
    /// instructions, and that of the chip alone those that no other has.
    fn check(&self, target: &str) -> Result<u32, String> {
        let chip = target.strip_prefix(TARGET).ok_or("it is no GPU of NVIDIA's")?;
        let (number, is_specific) = chip.strip_suffix('a').map_or((chip, false), |number| (number, true));
        let sm: u32 = number.parse().map_err(|_| "it is no GPU of NVIDIA's")?;
        match if is_specific { sm == self.0.sm } else { sm <= self.0.sm } {
            true => Ok(2 * sm + u32::from(is_specific)),
            false => Err(format!("it is sm_{} ({})", self.0.sm, self.0.model)),
        }
    }
}
