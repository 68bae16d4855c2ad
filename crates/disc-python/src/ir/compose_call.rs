//! Reads the operands of a composition from Python objects.
use super::{
    dim::{self, PyDim},
    value::{self, PyValue},
};
use crate::errors::Failure;
use disc_import::{compose::Argument, emit::Operand};
use pyo3::{
    prelude::*,
    types::{PyBool, PyFloat, PyString},
};

/// Reads values of the builder `owner`, numbers, sizes, and None.
pub(super) fn operands(name: &str, given: &Bound<'_, PyAny>, owner: u64) -> PyResult<Vec<Argument>> {
    if given.is_instance_of::<PyValue>() || given.is_instance_of::<PyString>() {
        return Err(Failure::argument(format!("`{name}`: the operands are a sequence of values")).into());
    }
    given.try_iter()?.enumerate().map(|(i, item)| operand(&item?, owner, || format!("`{name}`: operand {i}"))).collect()
}

fn operand(object: &Bound<'_, PyAny>, owner: u64, what: impl FnOnce() -> String) -> PyResult<Argument> {
    if object.is_none() {
        return Ok(None);
    }
    if let Ok(truth) = object.cast::<PyBool>() {
        return Ok(Some(truth.is_true().into()));
    }
    if object.is_instance_of::<PyFloat>() {
        return Ok(Some(object.extract::<f64>()?.into()));
    }
    if object.is_instance_of::<PyDim>() {
        return Ok(Some(dim::read(object)?.into()));
    }
    match object.extract::<i64>() {
        Ok(number) => Ok(Some(number.into())),
        Err(_) => Ok(Some(Operand::Value(value::read(object, owner, what)?))),
    }
}
