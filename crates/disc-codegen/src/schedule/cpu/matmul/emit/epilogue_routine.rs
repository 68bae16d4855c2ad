//! Epilogues that are long programs, in a routine of their own: blocks leave their sums in task memory, and a loop over rows finishes them.
//!
//! A micro-kernel writes its epilogue once for each vector of its block, and there is one for each row count. With a sine in it that is more
//! code than all the rest of a model, and nothing is gained: a long program takes far longer than to store and load a sum.
use super::{
    interleaved,
    micro::{self, Piece, Source},
    parameters::Parameters,
};
use crate::{
    kernel::{KernelBuilder, Site, cost},
    schedule::{
        Group,
        cpu::matmul::plan::{MatmulPlan, Right},
    },
};
use disc_ir::{DType, Dim, Function, FunctionKind, TensorType, Type, Value};

/// Operations for a vector of results from which on an epilogue is a long program. A GELU by the error function has about half as many.
const LONG: usize = 128;

impl MatmulPlan {
    /// Has the epilogue finished apart, where that is a long program. Dot products along memory finish theirs themselves.
    pub(in crate::schedule) fn choose_finish(&mut self, group: &Group<'_>) {
        // Most epilogues are seen to be short without writing one.
        if self.right_form == Right::Dots || !cost::is_long(group.function) {
            return;
        }
        self.finishes_apart = true;
        let (routine, _) = emit(group, self, "", Source::Task);
        self.finishes_apart = routine.walk(routine.body).len() > LONG * self.pieces(Source::Task).len();
    }
}

/// The memory that the sums of a block are left in: rows of the widest panel.
pub(in crate::schedule) fn memory(plan: &MatmulPlan) -> TensorType {
    TensorType::new([Dim::constant(i64::from(plan.tile.rows) * row_stride(plan))], plan.compute)
}

pub(in crate::schedule) fn row_stride(plan: &MatmulPlan) -> i64 {
    plan.pieces(Source::Wide).iter().map(|piece| i64::from(piece.lanes)).sum()
}

fn name(part: &str, source: Source) -> String {
    micro::name(part, source, 0) + ".epilogue"
}

/// Ends a micro-kernel: leaves its sums, and has them finished.
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
        let place = kb.int(row as i64 * row_stride(plan) + piece.shift);
        kb.store(parameters.operands.sums(), place, sum, None);
    }
    let mut arguments = parameters.arguments();
    arguments.push(kb.int((sums.len() / pieces.len()) as i64));
    kb.call(&name(part, source), &arguments);
}

/// The routine, for any number of rows, and where it can fail.
pub(in crate::schedule) fn emit(group: &Group<'_>, plan: &MatmulPlan, part: &str, source: Source) -> (Function, Vec<Site>) {
    let mut kb = KernelBuilder::new(&name(part, source), FunctionKind::Routine);
    let parameters = Parameters::declare(&mut kb, group, plan);
    let height = kb.parameter("height", Type::scalar(DType::I64));
    let mut elements = parameters.elements(&mut kb, group, plan, parameters.row);
    if let Some(product) = &plan.interleaved {
        interleaved::finish(&mut kb, group, plan, product, &parameters, &mut elements, (source, height));
        return (kb.finish(), elements.sites);
    }
    let vectors = parameters.vectors(&mut kb, plan, source);
    let (zero, one, stride) = (kb.int(0), kb.int(1), kb.int(row_stride(plan)));
    let rows = kb.open_for([zero, height, one]);
    elements.open_scope();
    let start = kb.mul(rows.index, stride);
    let load = |(piece, _): &(Piece, Option<Value>)| {
        let shift = kb.int(piece.shift);
        let place = kb.add(start, shift);
        kb.load(parameters.operands.sums(), place, piece.lanes, None)
    };
    let sums: Vec<Value> = vectors.iter().map(load).collect();
    let row = kb.add(parameters.row, rows.index);
    micro::write(&mut kb, group, plan, &Parameters { row, ..parameters }, &mut elements, &sums, &vectors);
    elements.close_scope();
    kb.close_for(rows);
    (kb.finish(), elements.sites)
}
