//! Evaluates fusion groups: the group's ops, one after another. At the buffer stage it reads its
//! first operands and writes its last.
use super::{
    call::Call,
    machine::{Evaluated, Machine, Val},
};

pub(super) fn fusion<'a>(machine: &mut Machine<'a>, call: &Call<'a>) -> Evaluated {
    let body = call.region(0)?;
    if !call.args.iter().any(|value| matches!(value, Val::Buffer(_))) {
        return machine.run_block(body, call.args.clone());
    }
    let (inputs, outputs) = call.args.split_at(call.function.arguments(body).len().min(call.args.len()));
    let held = inputs.iter().map(|value| match value {
        Val::Buffer(buffer) => machine.memory.tensor(buffer).map(Val::from),
        Val::Tensor(_) => Ok(value.clone()),
    });
    let arguments = held.collect::<Result<Vec<_>, _>>()?;
    let results = machine.run_block(body, arguments)?;
    for (position, (result, output)) in results.into_iter().zip(outputs).enumerate() {
        let Val::Buffer(output) = output else {
            return Err(call.malformed(format!("output {position} is no buffer")));
        };
        machine.memory.write_tensor(output, &result.into_tensor()?)?;
    }
    Ok(Vec::new())
}
