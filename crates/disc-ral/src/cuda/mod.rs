//! Runs kernels on GPUs of NVIDIA, through the driver that is on the machine; without one there is
//! no such device.
//!
//! The parts: [`driver`] finds the driver's functions, [`context`] holds the context of a GPU,
//! [`ptx`] and [`kernels`] load code, which the [`assembler`] makes of PTX if the machine has one,
//! [`queue`] launches it, [`graphs`] joins launches, [`overlap`] lets one begin while another runs,
//! [`pinned`] copies through pinned memory, [`memory`] and [`stream_memory`] allocate, [`report`]
//! has what assertions say, [`cublas_lt`] and [`cudnn`] compute matmuls and convolutions by
//! libraries.

pub mod assembler;
mod context;
mod cublas_lt;
mod cudnn;
mod device;
mod driver;
mod find_library;
mod graphs;
mod kernels;
mod memory;
mod overlap;
mod pinned;
mod ptx;
mod queue;
mod report;
mod shared_library;
mod stream_memory;

pub use driver::CudaError;
pub use memory::{MemorySource, set_memory_source};

use crate::{
    device::Device,
    devices::{Backend, DeviceName, Refusal},
};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

/// The kind of device in the list of devices.
pub(crate) const CUDA: Backend = Backend { kind: "cuda", names, open };

/// The folders of installed Python packages, which may have an assembler and libraries.
static PACKAGES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Sets the folders of installed Python packages (`site-packages`), where an assembler is looked
/// for when the first kernel is loaded, and a library when the first matmul or convolution is
/// offered to it.
pub fn set_package_folders(folders: Vec<PathBuf>) {
    *PACKAGES.lock().unwrap_or_else(PoisonError::into_inner) = folders;
}

/// Returns the folders that [`set_package_folders`] has set.
pub fn package_folders() -> Vec<PathBuf> {
    PACKAGES.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Names the GPUs, if there is a driver that works.
fn names() -> Vec<DeviceName> {
    let count = context::Gpu::count().unwrap_or(0);
    (0..count).filter_map(|ordinal| format!("cuda:{ordinal}").parse().ok()).collect()
}

fn open(name: &DeviceName) -> Result<Arc<dyn Device>, Refusal> {
    let name = name.to_string();
    let ordinal = name.strip_prefix("cuda:").and_then(|number| number.parse().ok()).unwrap_or(0);
    match context::Gpu::open(ordinal) {
        Ok(Some(gpu)) => Ok(Arc::new(device::Cuda(gpu))),
        Ok(None) => Err(Refusal::NotHere(Some("the CUDA driver finds no such GPU".into()))),
        Err(error) if error.is_start() => Err(Refusal::NotHere(Some(error.to_string()))),
        Err(error) => Err(Refusal::Failed(error.to_string())),
    }
}
