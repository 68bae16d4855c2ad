//! Runs kernels on GPUs of NVIDIA, through the driver that is on the machine; without one there is
//! no such device.
//!
//! The parts: [`driver`] finds the driver's functions, [`context`] holds the context of a GPU,
//! [`ptx`] and [`kernels`] load code, [`queue`] launches it, [`report`] has what assertions say.

mod context;
mod device;
mod driver;
mod kernels;
mod ptx;
mod queue;
mod report;

pub use driver::CudaError;

use crate::{
    device::Device,
    devices::{Backend, DeviceName},
};
use std::sync::Arc;

/// The kind of device in the list of devices.
pub(crate) const CUDA: Backend = Backend { kind: "cuda", names, open };

/// Names the GPUs, if there is a driver that works.
fn names() -> Vec<DeviceName> {
    let count = context::Gpu::count().unwrap_or(0);
    (0..count).filter_map(|ordinal| format!("cuda:{ordinal}").parse().ok()).collect()
}

fn open(name: &DeviceName) -> Result<Arc<dyn Device>, String> {
    let name = name.to_string();
    let ordinal = name.strip_prefix("cuda:").and_then(|number| number.parse().ok()).unwrap_or(0);
    let gpu = context::Gpu::open(ordinal).map_err(|error| error.to_string())?;
    Ok(Arc::new(device::Cuda(gpu)))
}

/// Returns the reason why there is no GPU, for a message.
pub(crate) fn missing() -> Option<String> {
    match context::Gpu::count() {
        Ok(0) => Some("the CUDA driver finds no GPU".into()),
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}
