//! Gives the outputs of a call on a GPU to frameworks other than torch: `DeviceTensor`.
use super::{
    dlpack::{CPU, CUDA},
    owned::Owned,
    place::Place,
};
use crate::errors::guarded;
use disc_ral::{AllocError, DType, Device};
use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple},
};
use std::{ptr::NonNull, sync::Arc};

/// Memory of a device.
pub(super) struct DeviceBlock {
    device: Arc<dyn Device>,
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: plain memory; who accesses it is its owners' matter.
unsafe impl Send for DeviceBlock {}
// SAFETY: as above.
unsafe impl Sync for DeviceBlock {}

impl DeviceBlock {
    pub(super) fn new(device: &Arc<dyn Device>, bytes: usize) -> Result<Arc<Self>, AllocError> {
        let bytes = bytes.max(1);
        Ok(Arc::new(Self { device: Arc::clone(device), at: device.alloc(bytes)?, bytes }))
    }

    pub(super) fn at(&self) -> *mut u8 {
        self.at.as_ptr()
    }
}

impl Drop for DeviceBlock {
    fn drop(&mut self) {
        // SAFETY: memory of this device, which nobody uses any more.
        unsafe { self.device.free(self.at, self.bytes) };
    }
}

/// A result in memory of a GPU, which frameworks read by DLPack (`cupy.from_dlpack(x)`).
#[pyclass(name = "DeviceTensor", module = "disc._disc", frozen)]
pub(crate) struct PyDeviceTensor {
    pub(super) memory: Arc<DeviceBlock>,
    pub(super) place: Place,
    pub(super) dtype: DType,
    pub(super) sizes: Vec<i64>,
}

#[pymethods]
impl PyDeviceTensor {
    /// The size of each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.sizes)
    }

    /// The name of the element type, such as "f32".
    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype.name()
    }

    /// The name of the device, such as "cuda:0".
    #[getter]
    fn device(&self) -> String {
        self.place.to_string()
    }

    /// Returns DLPack's kind and number of the device.
    fn __dlpack_device__(&self) -> (i32, i32) {
        match self.place {
            Place::Host => (CPU, 0),
            Place::Cuda(number) => (CUDA, number),
        }
    }

    /// Lends the memory. The call that made it has ended, so any stream may read it.
    #[pyo3(signature = (**_options))]
    fn __dlpack__<'py>(&self, py: Python<'py>, _options: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        guarded(|| Owned::shared(&self.memory, self.dtype, &self.sizes, self.place).capsule(py))
    }

    fn __repr__(&self) -> String {
        format!("<{} {:?} on {}>", self.dtype.name(), self.sizes, self.place)
    }
}
