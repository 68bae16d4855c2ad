//! Reads weights from tensors: borrows contiguous ones, and copies the others.
use super::held::{Held, hold};
use crate::{errors::Failure, facade};
use disc_ral::{HostTensor, Weight};
use pyo3::{prelude::*, types::PyDict};
use std::sync::Arc;

/// Reads a dict of tensors by name, or pairs of name and tensor.
pub(crate) fn read(weights: &Bound<'_, PyAny>) -> PyResult<Vec<(String, Weight)>> {
    let pairs = match weights.cast::<PyDict>() {
        Ok(dict) => dict.items().into_any(),
        Err(_) => weights.clone(),
    };
    let weight = |pair: PyResult<Bound<'_, PyAny>>| {
        let (name, tensor) = pair?.extract::<(String, Bound<'_, PyAny>)>()?;
        let held = hold(&tensor, || format!("weight `{name}`"))?;
        Ok((name, one(held)?))
    };
    pairs.try_iter()?.map(weight).collect()
}

fn one(held: Held) -> PyResult<Weight> {
    if held.is_contiguous() {
        let (data, dtype, sizes) = (held.data(), held.dtype(), held.sizes().to_vec());
        // SAFETY: the memory is that of `held`, which becomes the owner. That nobody writes to it
        // is the duty of who passes weights.
        return Ok(unsafe { Weight::borrowed(data, dtype, sizes, Arc::new(held)) });
    }
    let fail = |error| Failure::from(facade::Error::from(error));
    let mut copy = HostTensor::zeros(held.dtype(), held.sizes()).map_err(fail)?;
    copy.bytes_mut().copy_from_slice(&held.elements());
    Ok(copy.into())
}
