//! Makes regions of ops, given from Python in one of two forms: the name of an op that combines two
//! scalars, or argument types with a function that emits the body.
//!
//! Invariant: whatever the function does, the builder is back at its block afterwards.
use super::{attr, builder::PyBuilder, value};
use crate::errors::Failure;
use disc_ir::{Block, Builder, Code, DType, OpKind, Type, Value, ops::body};
use pyo3::{
    prelude::*,
    types::{PyString, PyTuple},
};

/// The given form of one region.
pub(super) enum Region<'py> {
    /// Combines two scalars of the first operand's element type by this op.
    Applies(OpKind),
    /// The function takes values of these types and returns the results.
    Emitted(Vec<Type>, Bound<'py, PyAny>),
}

impl<'py> Region<'py> {
    pub(super) fn read(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(name) = object.cast::<PyString>() {
            return Ok(Region::Applies(super::builder::find_op(&name.to_cow()?)?));
        }
        let Ok((arguments, emit)) = object.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>() else {
            let came = crate::describe(object);
            let message = format!("a region is {came}, expected the name of an op, or a pair of argument types and function");
            return Err(Failure::argument(message).into());
        };
        let types = arguments.try_iter()?.map(|pair| attr::read_type(&pair?)).collect::<PyResult<_>>()?;
        Ok(Region::Emitted(types, emit))
    }

    /// Makes the block. `dtype` is the element type of the op's first operand.
    pub(super) fn make(self, builder: &PyBuilder, dtype: Option<DType>) -> PyResult<Block> {
        match self {
            Region::Applies(op) => {
                let message = || Failure::new(Code::E0202, format!("`{}` cannot be applied: the op has no operand", op.name()));
                let dtype = dtype.ok_or_else(message)?;
                builder.with(|b| body::combine(b, op, dtype))
            }
            Region::Emitted(types, emit) => builder.emit_region(types, &emit),
        }
    }
}

/// Calls `emit` with the arguments of a region and reads the values that it returns.
pub(super) fn call(emit: &Bound<'_, PyAny>, arguments: Vec<value::PyValue>, owner: u64) -> PyResult<Vec<Value>> {
    let returned = emit.call1(PyTuple::new(emit.py(), arguments)?)?;
    if returned.is_none() {
        return Ok(Vec::new());
    }
    if returned.is_instance_of::<value::PyValue>() {
        return Ok(vec![value::read(&returned, owner, || "the result of a region".into())?]);
    }
    let result =
        |(i, item): (usize, PyResult<Bound<'_, PyAny>>)| value::read(&item?, owner, || format!("result {i} of a region"));
    returned.try_iter()?.enumerate().map(result).collect()
}

/// Ends a region.
pub(super) fn end(b: &mut Builder<'_>, values: &[Value]) -> Result<(), disc_ir::Diagnostic> {
    b.ret(values).map(drop)
}
