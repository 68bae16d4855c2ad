//! Evaluates structured control flow.
use super::{
    call::Call,
    machine::{Evaluated, Machine, Val},
};
use crate::diag::Code;

/// Evaluates a terminator: the machine takes its operands, so there is nothing to do.
pub(super) fn return_(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    Ok(call.args.clone())
}

pub(super) fn if_<'a>(machine: &mut Machine<'a>, call: &Call<'a>) -> Evaluated {
    let taken = if call.tensor(0)?.at(0).is_true() { 0 } else { 1 };
    machine.run_block(call.region(taken)?, Vec::new())
}

pub(super) fn while_<'a>(machine: &mut Machine<'a>, call: &Call<'a>) -> Evaluated {
    let (cond, body) = (call.region(0)?, call.region(1)?);
    let mut carried = call.args.clone();
    loop {
        machine.charge(1)?;
        let truth = machine.run_block(cond, carried.clone())?;
        let Some(Val::Tensor(truth)) = truth.first() else {
            return Err(call.malformed("`cond` returns nothing".into()));
        };
        if !truth.at(0).is_true() {
            return Ok(carried);
        }
        carried = machine.run_block(body, carried)?;
    }
}

pub(super) fn call<'a>(machine: &mut Machine<'a>, call: &Call<'a>) -> Evaluated {
    let name = call.symbol("callee")?;
    let Some(function) = machine.module.function(name) else {
        return Err(call.failure(Code::E0103, format!("there is no function @{name}")));
    };
    machine.call(function, call.args.clone())
}

pub(super) fn assert(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    if call.tensor(0)?.at(0).is_true() {
        return Ok(Vec::new());
    }
    let message = match call.string("message") {
        Some(message) => message.to_owned(),
        None => format!("assertion {} failed", call.int("site", 0)),
    };
    let values = (1..call.args.len()).map(|i| call.int_operand(i)).collect::<Result<Vec<_>, _>>()?;
    let note = values.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let failure = call.failure(if call.word("about") == "size" { Code::E0602 } else { Code::E0604 }, message);
    Err(if values.is_empty() { failure } else { failure.note(format!("with values {note}")) })
}
