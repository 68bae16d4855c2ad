//! Finds the stream that a framework works in.
use super::{kind::loaded_torch, place::Place};
use pyo3::{intern, prelude::*, sync::PyOnceLock};

/// CUDA's legacy default stream, which every other blocking stream is ordered with.
const LEGACY: usize = 0;

/// Returns the stream for a call on tensors of a GPU, in the driver's form: torch's current one for
/// tensors of torch; None for tensors of the host.
pub(super) fn current(py: Python<'_>, place: Place, is_torch: bool) -> PyResult<Option<usize>> {
    static OF_TORCH: PyOnceLock<Option<Py<PyAny>>> = PyOnceLock::new();
    let Place::Cuda(number) = place else { return Ok(None) };
    if !is_torch {
        return Ok(Some(LEGACY));
    }
    let ask = OF_TORCH.get_or_try_init(py, || match loaded_torch(py)? {
        // A build of torch without CUDA has no streams.
        Some(torch) => {
            let inner = torch.getattr(intern!(py, "_C"))?;
            Ok::<_, PyErr>(inner.getattr(intern!(py, "_cuda_getCurrentRawStream")).ok().map(Bound::unbind))
        }
        None => Ok(None),
    })?;
    match ask {
        Some(ask) => Ok(Some(ask.bind(py).call1((number,))?.extract::<usize>()?)),
        None => Ok(Some(LEGACY)),
    }
}
