//! Evaluates ops of host programs: memory of a call, and launches.
use super::{
    Tensor,
    call::Call,
    machine::{Evaluated, Machine, Val},
    memory::Buffer,
    tensor::count,
};
use crate::{
    diag::{Code, Diagnostic},
    layout::{first_fit, parts_met},
};

/// Number of tasks that a launch is split into, if it has as many units: work units must not depend
/// on their neighbours.
const TASKS: i64 = 3;

/// Assumed threshold for non-temporal stores, so that small tests run the code of large sizes.
const CACHED: i64 = 1 << 10;

/// New memory of the first result's type, for an output or for a frame.
fn fresh(machine: &mut Machine<'_>, call: &Call<'_>, is_output: bool) -> Result<Buffer, Diagnostic> {
    let count = count(&call.shape()).unwrap_or(usize::MAX) as u64;
    machine.reserve_bytes(count.saturating_mul(call.dtype().size() as u64))?;
    let (dtype, dims) = (call.dtype(), call.shape());
    Ok(if is_output { machine.memory.output(dtype, dims) } else { machine.memory.fresh(dtype, dims) })
}

pub(super) fn arena(machine: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let (bytes, held) = (call.dim("bytes")?, call.shape());
    let needed = count(&held).and_then(|count| count.checked_mul(call.dtype().size()));
    if needed.is_none() || needed != usize::try_from(bytes).ok() {
        return Err(call.malformed(format!("{bytes} bytes, but the type is {}", call.result_type(0))));
    }
    Ok(vec![Val::Buffer(fresh(machine, call, false)?)])
}

pub(super) fn layout_arena<'a>(machine: &mut Machine<'a>, call: &Call<'a>) -> Evaluated {
    let sizes = call.dims("sizes")?;
    let met = parts_met(sizes.len(), call.ints("meets")).ok_or_else(|| call.malformed("`meets` is no list of parts".into()))?;
    let (offsets, total) = first_fit(&sizes, &met);
    for (symbol, value) in call.bound_symbols().zip(offsets.into_iter().chain([total])) {
        machine.bind_dim(symbol, value)?;
    }
    Ok(Vec::new())
}

pub(super) fn alloc(machine: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let place = [call.dim("offset")?, call.dim("bytes")?];
    Ok(vec![Val::Buffer(machine.memory.part(call.buffer(0)?, place, call.dtype(), call.shape())?)])
}

pub(super) fn alloc_output(machine: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let buffer = fresh(machine, call, true)?;
    machine.set_output(call.int("index", 0), buffer.clone())?;
    Ok(vec![Val::Buffer(buffer)])
}

pub(super) fn launch<'a>(machine: &mut Machine<'a>, call: &Call<'a>) -> Evaluated {
    let name = call.symbol("kernel")?;
    let Some(kernel) = machine.module.function(name) else {
        return Err(call.failure(Code::E0103, format!("there is no kernel @{name}")));
    };
    let (units, scratch) = (call.dim("units")?, call.dim("scratch")?);
    let Some([begin_type, _]) = kernel.parameters().last_chunk() else {
        return Err(call.malformed(format!("@{name} does not take a range of units")));
    };
    let index_type = kernel.ty(*begin_type).dtype();
    let bound = |value: i64| Tensor::from_i64s(index_type, &[], &[value]).map(Val::from);
    let tasks = TASKS.min(units);
    for task in 0..tasks {
        let part = |task: i64| (i128::from(units) * i128::from(task) / i128::from(tasks)) as i64;
        let range = [part(task), part(task + 1)];
        let range = range.into_iter().map(bound).collect::<Result<Vec<_>, Diagnostic>>()?;
        machine.begin_task(scratch as u64);
        let before = machine.memory.mark();
        machine.call(kernel, call.args.iter().cloned().chain(range).collect())?;
        machine.memory.release(before);
    }
    Ok(Vec::new())
}

pub(super) fn mark(machine: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let mark = machine.memory.mark() as i64;
    Ok(vec![Tensor::from_i64s(call.dtype(), &call.shape(), &[mark])?.into()])
}

pub(super) fn release(machine: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    machine.memory.release(call.int_operand(0)? as usize);
    Ok(Vec::new())
}

pub(super) fn nontemporal(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let more = i64::from(call.dim("bytes")? > CACHED);
    Ok(vec![Tensor::from_i64s(call.dtype(), &call.shape(), &[more])?.into()])
}
