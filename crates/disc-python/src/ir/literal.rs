//! Reads constants from Python objects: numbers, arrays, tensors and bytes.
//!
//! Invariant: equal elements make a splat, so that a constant takes no more memory than it has
//! information.
use crate::{call::hold, errors::Failure, facade};
use disc_ir::{
    Code, DType, Literal,
    literal::{encode_f64, encode_i64},
};
use pyo3::{
    prelude::*,
    types::{PyBool, PyBytes, PyFloat, PyInt},
};

/// Reads the elements of an array, or one number for all; converted to `dtype` if given.
pub(super) fn read(object: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Literal> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return raw(bytes.as_bytes(), dtype);
    }
    if let Some(number) = number(object, dtype)? {
        return Ok(number);
    }
    let array = hold(object, || "a constant".into())?;
    let own = facade::dtype_of_runtime(array.dtype());
    let literal = Literal::dense(own, array.elements());
    Ok(compact(converted(literal, dtype.unwrap_or(own))))
}

fn number(object: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Option<Literal>> {
    if let Ok(truth) = object.cast_exact::<PyBool>() {
        let dtype = dtype.unwrap_or(DType::I1);
        return Ok(Some(Literal::splat(dtype, &encode_i64(dtype, truth.is_true().into()))));
    }
    if object.is_instance_of::<PyFloat>() {
        let dtype = dtype.unwrap_or(DType::F64);
        return Ok(Some(Literal::splat_f64(dtype, object.extract()?)));
    }
    if !object.is_instance_of::<PyInt>() {
        return Ok(None);
    }
    let dtype = dtype.unwrap_or(DType::I64);
    if dtype.is_float() {
        return Ok(Some(Literal::splat_f64(dtype, object.extract()?)));
    }
    let value = object.extract::<i64>().or_else(|_| object.extract::<u64>().map(|value| value as i64));
    let too_large = |_| Failure::new(Code::E0105, format!("the number {object} does not fit in 64 bits"));
    Ok(Some(Literal::splat_i64(dtype, value.map_err(too_large)?)))
}

/// Reads elements as raw bytes, little-endian and row-major.
fn raw(bytes: &[u8], dtype: Option<DType>) -> PyResult<Literal> {
    let Some(dtype) = dtype else {
        return Err(Failure::argument("the bytes of a constant need an element type").into());
    };
    if !bytes.len().is_multiple_of(dtype.size()) {
        return Err(Failure::argument(format!("{} bytes are no whole number of {dtype}", bytes.len())).into());
    }
    Ok(compact(Literal::dense(dtype, bytes)))
}

fn converted(literal: Literal, dtype: DType) -> Literal {
    if literal.dtype == dtype {
        return literal;
    }
    let integers = !literal.dtype.is_float();
    let encode = |i: usize| if integers { encode_i64(dtype, literal.i64_at(i)) } else { encode_f64(dtype, literal.f64_at(i)) };
    Literal::dense(dtype, (0..literal.stored_len()).flat_map(encode).collect::<Vec<u8>>())
}

/// Returns a splat if all elements are equal by their bytes.
fn compact(literal: Literal) -> Literal {
    let size = literal.dtype.size();
    match literal.bytes.get(..size) {
        Some(first) if literal.bytes.chunks_exact(size).all(|element| element == first) => Literal::splat(literal.dtype, first),
        _ => literal,
    }
}
