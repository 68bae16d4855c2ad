//! Emits one loop over all dimensions, cut into chunks.
use super::LoopNest;
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::common::{
        iteration_space::{Merged, each_unit},
        vector_loop::vector_loop,
    },
};
use disc_ir::{Dim, Value};
use disc_kernel_macros::expr;

/// The elements of a work unit.
const CHUNK: i64 = 4096;

/// Emits the loop of a nest of one run; returns the number of chunks.
pub(super) fn emit(
    nest: &LoopNest<'_>,
    kb: &mut KernelBuilder,
    elements: &mut Elements<'_>,
    (targets, range): (&[Value], [Value; 2]),
    mut at: Vec<Index>,
) -> Dim {
    let run = nest.runs.last().expect("there is a loop");
    let chunk = CHUNK / nest.interleaved.as_ref().map_or(1, |interleaved| interleaved.size);
    let units = Merged { size: run.size.ceil_div(&Dim::constant(chunk)), axis: run.axis };
    let count = units.size.clone();
    each_unit(kb, range, &[units], |kb, unit| {
        elements.scoped(|elements| {
            nest.know(kb, elements, &at, true);
            let (size, chunk) = (kb.dim(&run.size), kb.int(chunk));
            let low = expr!(kb, unit[0] * chunk);
            let high = expr!(kb, min(low + chunk, size));
            let exact = nest.group.solver.divisible(&run.size, i64::from(nest.lanes));
            vector_loop(kb, elements, [low, high], exact, &mut |kb, elements, index| {
                at[run.axis] = index;
                nest.write(kb, elements, targets, std::slice::from_ref(&at));
            });
        });
    });
    count
}
