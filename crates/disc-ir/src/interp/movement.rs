//! Evaluates ops that create or rearrange elements.
use super::{
    Tensor,
    call::Call,
    index_space::{checked_offset, for_each, offset, strides},
    machine::{Evaluated, Machine, Val},
    scalar::Scalar,
};
use crate::{diag::Code, diag::Diagnostic, types::Type};

/// Makes a tensor whose element at an index is the element of `source` at the index that `place`
/// writes, or `fill` if `place` returns false.
pub(super) fn pick(
    call: &Call<'_>,
    source: &Tensor,
    fill: Option<&Tensor>,
    mut place: impl FnMut(&[i64], &mut [i64]) -> bool,
) -> Result<Tensor, Diagnostic> {
    let mut result = Tensor::zeros(source.dtype(), call.shape());
    let (sizes, steps) = (source.dims(), strides(source.dims()));
    let mut from = vec![0; sizes.len()];
    for_each(&call.shape(), |i, index| {
        if place(index, &mut from) {
            let outside = || call.malformed(format!("index {from:?} of a tensor with sizes {sizes:?}"));
            result.set_element(i, source.element(checked_offset(&from, sizes, &steps).ok_or_else(outside)?));
        } else if let Some(fill) = fill {
            result.set_element(i, fill.element(0));
        }
        Ok(())
    })?;
    Ok(result)
}

pub(super) fn constant(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    Ok(vec![Tensor::from_literal(call.literal("value")?, call.shape()).into()])
}

pub(super) fn weight(machine: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let name = call.symbol("name")?;
    let declared = machine.module.weight(name);
    let constant = declared.and_then(|weight| weight.data.as_ref());
    let given = match (constant, declared.and_then(|weight| weight.prepared)) {
        (Some(data), _) => Some(Tensor::from_literal(data, call.shape())),
        (None, Some(result)) => machine.prepared(result)?,
        (None, None) => (machine.weights)(name),
    };
    let Some(tensor) = given else {
        return Err(call.failure(Code::E0601, format!("no value is given for weight @{name}")));
    };
    if tensor.dims() != call.shape() || tensor.dtype() != call.dtype() {
        let found = format!("{} with sizes {:?}", tensor.dtype(), tensor.dims());
        return Err(call.failure(Code::E0601, format!("weight @{name} is {found}, expected {}", call.result_type(0))));
    }
    match call.result_type(0) {
        Type::Buffer { .. } => Ok(vec![Val::Buffer(machine.memory.input(&tensor))]),
        Type::Tensor(_) | Type::Vector { .. } => Ok(vec![tensor.into()]),
    }
}

pub(super) fn dim_value(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let value = call.dim("value")?;
    Ok(vec![Tensor::from_fn(call.dtype(), call.shape(), |_| Scalar::Int(value.into())).into()])
}

pub(super) fn get_dimension_size(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let size = call.tensor(0)?.dims()[call.axis("dimension")];
    Ok(vec![Tensor::from_fn(call.dtype(), call.shape(), |_| Scalar::Int(size.into())).into()])
}

pub(super) fn iota(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let axis = call.axis("dim");
    let mut result = Tensor::zeros(call.dtype(), call.shape());
    for_each::<Diagnostic>(&call.shape(), |i, index| {
        result.set(i, Scalar::Int(index[axis].into()));
        Ok(())
    })?;
    Ok(vec![result.into()])
}

pub(super) fn broadcast_in_dim(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let (operand, axes) = (call.tensor(0)?, call.axes("dims"));
    let result = pick(call, operand, None, |index, from| {
        for (i, &axis) in axes.iter().enumerate() {
            from[i] = if operand.dims()[i] == 1 { 0 } else { index[axis] };
        }
        true
    });
    Ok(vec![result?.into()])
}

pub(super) fn reshape(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let (operand, shape) = (call.tensor(0)?, call.shape());
    if shape.iter().product::<i64>() != operand.len() as i64 {
        return Err(call.failure(Code::E0602, format!("{} elements for sizes {shape:?}", operand.len())));
    }
    Ok(vec![operand.clone().recast(operand.dtype(), shape).into()])
}

pub(super) fn transpose(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let axes = call.axes("dims");
    let result = pick(call, call.tensor(0)?, None, |index, from| {
        axes.iter().enumerate().for_each(|(i, &axis)| from[axis] = index[i]);
        true
    });
    Ok(vec![result?.into()])
}

pub(super) fn reverse(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let (axes, sizes) = (call.axes("dims"), call.shape());
    let result = pick(call, call.tensor(0)?, None, |index, from| {
        from.copy_from_slice(index);
        axes.iter().for_each(|&axis| from[axis] = sizes[axis] - 1 - index[axis]);
        true
    });
    Ok(vec![result?.into()])
}

pub(super) fn slice(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let operand = call.tensor(0)?;
    let start = call.dims("start")?;
    let steps = call.ints_or("strides", 1, start.len());
    let result = pick(call, operand, None, |index, from| {
        (0..index.len()).for_each(|axis| from[axis] = start[axis] + index[axis] * steps[axis]);
        true
    });
    Ok(vec![result?.into()])
}

pub(super) fn pad(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let (operand, fill) = (call.tensor(0)?, call.tensor(1)?);
    let (low, sizes) = (call.dims("low")?, operand.dims());
    let steps: Vec<i64> = call.ints_or("interior", 0, low.len()).iter().map(|n| n + 1).collect();
    let result = pick(call, operand, Some(fill), |index, from| {
        (0..index.len()).all(|axis| {
            let place = index[axis] - low[axis];
            from[axis] = place.div_euclid(steps[axis]);
            place.rem_euclid(steps[axis]) == 0 && (0..sizes[axis]).contains(&from[axis])
        })
    });
    Ok(vec![result?.into()])
}

pub(super) fn concatenate(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let (axis, shape) = (call.axis("dim"), call.shape());
    let mut result = Tensor::zeros(call.dtype(), shape.clone());
    let steps = strides(&shape);
    let mut start = 0;
    for input in call.tensors(0..call.args.len())? {
        for_each::<Diagnostic>(input.dims(), |i, index| {
            let mut to = index.to_vec();
            to[axis] += start;
            result.set_element(offset(&to, &steps), input.element(i));
            Ok(())
        })?;
        start += input.dims()[axis];
    }
    Ok(vec![result.into()])
}
