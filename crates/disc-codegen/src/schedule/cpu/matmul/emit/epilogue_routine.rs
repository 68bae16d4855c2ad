//! Finishes blocks whose epilogue is a long program in a routine of its own: blocks leave their
//! sums in task memory, and a loop over rows finishes them.
//!
//! A micro-kernel unrolls its epilogue for each vector of its block, and there is one for each row
//! count. With a sine in it that is more code than all the rest of a model, and nothing is gained:
//! a long program takes far longer than to store and load a sum.
use super::{interleaved, parameters::Parameters, write};
use crate::{
    kernel::{KernelBuilder, Site},
    schedule::{
        Group,
        cpu::matmul::plan::{
            MatmulPlan,
            source::{Piece, Source},
        },
    },
};
use disc_ir::{Function, FunctionKind, Value};
use disc_kernel_macros::expr;

fn name(part: &str, source: Source) -> String {
    source.kernel_name(part, 0) + ".epilogue"
}

/// Ends a micro-kernel: leaves its sums, and calls the routine.
pub(in crate::schedule) fn leave(
    kb: &mut KernelBuilder,
    plan: &MatmulPlan,
    parameters: &Parameters,
    (part, source): (&str, Source),
    sums: &[Value],
    pieces: &[Piece],
) {
    for (i, &sum) in sums.iter().enumerate() {
        let (row, piece) = (i / pieces.len(), pieces[i % pieces.len()]);
        let place = kb.int(row as i64 * plan.sums_stride() + piece.shift);
        kb.store(parameters.operands.sums(), place, sum, None);
    }
    let mut arguments = parameters.arguments();
    arguments.push(kb.int((sums.len() / pieces.len()) as i64));
    kb.call(&name(part, source), &arguments);
}

/// Emits the routine for any number of rows, with its sites of failure.
pub(in crate::schedule) fn emit(group: &Group<'_>, plan: &MatmulPlan, part: &str, source: Source) -> (Function, Vec<Site>) {
    let mut kb = group.builder(&name(part, source), FunctionKind::Routine);
    let parameters = Parameters::declare(&mut kb, group, plan);
    let height = kb.position("height");
    if let Some(product) = plan.result.interleaved() {
        let mut elements = parameters.elements(&mut kb, group, plan, parameters.row);
        interleaved::finish(&mut kb, group, plan, product, &parameters, &mut elements, (source, height));
        return (kb.finish(), elements.sites);
    }
    let zero = kb.int(0);
    let sites = finish_rows(&mut kb, group, plan, parameters, source, [zero, height]);
    (kb.finish(), sites)
}

/// Finishes `height` rows, whose sums are in task memory after those of `before` others. Returns
/// the sites of failure.
pub(in crate::schedule) fn finish_rows(
    kb: &mut KernelBuilder,
    group: &Group<'_>,
    plan: &MatmulPlan,
    parameters: Parameters,
    source: Source,
    [before, height]: [Value; 2],
) -> Vec<Site> {
    let mut elements = parameters.elements(kb, group, plan, parameters.row);
    let vectors = parameters.vectors(kb, plan, source);
    let (zero, one, stride) = (kb.int(0), kb.int(1), kb.int(plan.sums_stride()));
    kb.for_each([zero, height, one], |kb, rows| {
        elements.open_scope();
        let start = expr!(kb, (rows + before) * stride);
        let load = |(piece, _): &(Piece, Option<Value>)| {
            let place = expr!(kb, start + int(piece.shift));
            kb.load(parameters.operands.sums(), place, piece.lanes, None)
        };
        let sums: Vec<Value> = vectors.iter().map(load).collect();
        let row = expr!(kb, parameters.row + rows);
        write::write(kb, group, plan, &Parameters { row, ..parameters }, &mut elements, &sums, &vectors);
        elements.close_scope();
    });
    elements.sites
}

/// Counts the operations of the routine of a plan whose epilogue is finished apart.
pub(in crate::schedule) fn length(group: &Group<'_>, plan: &MatmulPlan) -> usize {
    let (routine, _) = emit(group, plan, "", Source::Task);
    routine.walk(routine.body).len()
}
