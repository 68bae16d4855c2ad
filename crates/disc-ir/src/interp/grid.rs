//! Evaluates grid kernels: the threads of a block in lockstep.
use super::{
    Tensor,
    call::Call,
    machine::{Evaluated, Machine},
};

/// Refuses an op that threads do, where there are none.
pub(super) fn outside(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    Err(call.malformed("only threads of a grid kernel do this".into()))
}

/// Runs the blocks of a grid kernel.
pub(super) fn launch<'a>(_: &mut Machine<'a>, call: &Call<'a>) -> Evaluated {
    Err(call.malformed("grid kernels are not interpreted yet".into()))
}

/// Reads the first element of each buffer.
pub(super) fn fetch(machine: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let read = |position: usize| {
        let buffer = call.buffer(position)?;
        let bytes = machine.memory.read(buffer, 0)?.to_vec();
        Ok(Tensor::new(buffer.dtype, Vec::new(), bytes)?.into())
    };
    (0..call.args.len()).map(read).collect()
}

/// Answers that buffers are aligned, as all memory of an interpreter is.
pub(super) fn aligned(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    Ok(vec![Tensor::from_i64s(call.dtype(), &call.shape(), &[1])?.into()])
}
