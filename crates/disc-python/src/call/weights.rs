//! Reads weights from tensors: borrows contiguous ones, and copies the others.
use super::{
    held::{Held, hold_there},
    place::Place,
};
use crate::{errors::Failure, facade};
use disc_ral::{HostTensor, Weight};
use pyo3::{intern, prelude::*, types::PyDict};
use std::sync::Arc;

/// Reads a dict of tensors by name, or pairs of name and tensor.
pub(crate) fn read(weights: &Bound<'_, PyAny>) -> PyResult<Vec<(String, Weight)>> {
    let pairs = match weights.cast::<PyDict>() {
        Ok(dict) => dict.items().into_any(),
        Err(_) => weights.clone(),
    };
    let weight = |pair: PyResult<Bound<'_, PyAny>>| {
        let (name, tensor) = pair?.extract::<(String, Bound<'_, PyAny>)>()?;
        let what = || format!("weight `{name}`");
        let mut held = hold_there(&tensor, what)?;
        if held.place() != Place::Host && !held.is_contiguous() {
            held = hold_there(&tensor.call_method0(intern!(tensor.py(), "contiguous"))?, what)?;
        }
        Ok((name, one(held)?))
    };
    pairs.try_iter()?.map(weight).collect()
}

fn one(held: Held) -> PyResult<Weight> {
    if held.is_contiguous() {
        let (data, dtype, sizes) = (held.data(), held.dtype(), held.sizes().to_vec());
        let kind = held.place().kind();
        // SAFETY: the memory is that of `held`, which becomes the owner. That nobody writes to it
        // is the duty of who passes weights.
        return Ok(unsafe { Weight::borrowed(data, dtype, sizes, Arc::new(held)) }.on_device(kind));
    }
    let fail = |error| Failure::from(facade::Error::from(error));
    let mut copy = HostTensor::zeros(held.dtype(), held.sizes()).map_err(fail)?;
    copy.bytes_mut().copy_from_slice(&held.elements());
    Ok(copy.into())
}
