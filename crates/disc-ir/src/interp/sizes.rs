//! Evaluates ops of data-dependent sizes.
use super::{
    Tensor,
    call::Call,
    machine::{Evaluated, Machine},
};
use crate::types::DType;

pub(super) fn bind_dim(machine: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let Some(symbol) = call.bound_symbol() else {
        return Err(call.malformed("no dim is bound".into()));
    };
    machine.bind_dim(symbol, call.int_operand(0)?)?;
    Ok(Vec::new())
}

pub(super) fn nonzero(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let (operand, shape) = (call.tensor(0)?, call.shape());
    let found = (0..operand.len()).filter(|&i| operand.at(i).is_true()).map(|i| i as i64);
    let positions: Vec<i64> = found.chain(std::iter::repeat(-1)).take(shape[0] as usize).collect();
    Ok(vec![Tensor::from_i64s(DType::I64, &shape, &positions)?.into()])
}
