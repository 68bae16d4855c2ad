//! Lets memory of GPUs come from torch's allocator.
use super::kind::loaded_torch;
use disc_ral::cuda::{MemorySource, set_memory_source};
use pyo3::{intern, prelude::*};

/// torch's caching allocator.
struct TorchMemory;

impl MemorySource for TorchMemory {
    fn alloc(&self, gpu: u32, bytes: usize) -> Option<u64> {
        // A background compilation may ask while Python ends.
        let made = Python::try_attach(|py| -> PyResult<u64> {
            let cuda = torch_cuda(py)?;
            cuda.call_method1(intern!(py, "caching_allocator_alloc"), (bytes, gpu))?.extract()
        });
        made?.ok()
    }

    fn free(&self, _gpu: u32, at: u64) {
        // While Python ends, torch's memory ends with the process.
        let _ = Python::try_attach(|py| -> PyResult<()> {
            torch_cuda(py)?.call_method1(intern!(py, "caching_allocator_delete"), (at,)).map(drop)
        });
    }
}

fn torch_cuda(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    match loaded_torch(py)? {
        Some(torch) => torch.getattr(intern!(py, "cuda")),
        None => Err(pyo3::exceptions::PyImportError::new_err("torch is not imported")),
    }
}

/// Lets memory of GPUs that calls need come from torch's caching allocator from now on, if torch
/// has GPUs: neither of the two then lacks what the other keeps.
pub(crate) fn use_torch_memory(py: Python<'_>) -> PyResult<()> {
    let Some(torch) = loaded_torch(py)? else { return Ok(()) };
    let cuda = torch.getattr(intern!(py, "cuda"))?;
    if cuda.call_method0(intern!(py, "is_available"))?.is_truthy()? {
        set_memory_source(Box::new(TorchMemory));
    }
    Ok(())
}
