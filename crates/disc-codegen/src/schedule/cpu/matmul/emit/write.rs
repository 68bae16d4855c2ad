//! Ends of a micro-kernel: the epilogue of each vector of sums, or the sums themselves.
use super::{operands::Operands, parameters::Parameters};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::{
        Group,
        cpu::matmul::plan::{MatmulPlan, epilogue::before_transpose, source::Piece},
    },
};
use disc_ir::Value;
use disc_kernel_macros::expr;

/// Applies the epilogue to each vector of results, from the parameters' row on, and stores it.
pub(in crate::schedule) fn write(
    kb: &mut KernelBuilder,
    group: &Group<'_>,
    plan: &MatmulPlan,
    parameters: &Parameters,
    elements: &mut Elements<'_>,
    sums: &[Value],
    vectors: &[(Piece, Option<Value>)],
) {
    let lanes = elements.lanes;
    for (i, &sum) in sums.iter().enumerate() {
        let (row, (piece, mask)) = (i / vectors.len(), vectors[i % vectors.len()]);
        let mut at = parameters.row_of_result(kb, plan, row as i64);
        if let Some(axis) = plan.shape.n.dim {
            let base = expr!(kb, parameters.column + int(piece.shift));
            at[axis] = if piece.lanes == 1 { Index::uniform(base) } else { Index::Affine { base, stride: 1 } };
        }
        elements.lanes = piece.lanes;
        elements.masked(mask, |elements| store(kb, group, plan, &parameters.operands, elements, &at, sum));
    }
    elements.lanes = lanes;
}

/// Computes the outputs at a position from the sum of products there, and stores them.
pub(in crate::schedule) fn store(
    kb: &mut KernelBuilder,
    group: &Group<'_>,
    plan: &MatmulPlan,
    operands: &Operands,
    elements: &mut Elements<'_>,
    at: &[Index],
    sum: Value,
) {
    let product = group.function.result(plan.dot);
    elements.conclude(kb, product, at, sum);
    let computed: Vec<Value> =
        plan.outputs.iter().map(|&o| elements.element(kb, before_transpose(group.function, o), at)).collect();
    for ((o, &output), value) in plan.outputs.iter().enumerate().zip(computed) {
        let there: Vec<Index> = plan.shape.orders[o].iter().map(|&d| at[d]).collect();
        elements.store(kb, operands.outputs[o], group.tensor(output), &there, value);
    }
}

/// Computes `totals = totals * factor + sums`, with a factor for each row. The rows of totals are
/// whole panels.
pub(in crate::schedule) fn add_to_totals(
    kb: &mut KernelBuilder,
    plan: &MatmulPlan,
    parameters: &Parameters,
    [totals, factors]: [Value; 2],
    sums: &[Value],
    vectors: usize,
) {
    let (lanes, stride) = (plan.tile.lanes, kb.dim(&plan.total_columns()));
    for (row, sums) in sums.chunks(vectors).enumerate() {
        let row = expr!(kb, parameters.row + int(row as i64));
        let factor = kb.load(factors, row, 1, None);
        let factor = kb.widen(factor, lanes);
        let start = expr!(kb, row * stride + parameters.column);
        for (v, &sum) in sums.iter().enumerate() {
            let place = expr!(kb, start + int(v as i64 * i64::from(lanes)));
            let before = kb.load(totals, place, lanes, None);
            let after = kb.fma(before, factor, sum);
            kb.store(totals, place, after, None);
        }
    }
}

/// Stores sums without an epilogue, in rows of all columns from an element on.
pub(in crate::schedule) fn leave(
    kb: &mut KernelBuilder,
    plan: &MatmulPlan,
    parameters: &Parameters,
    [parts, from]: [Value; 2],
    sums: &[Value],
    vectors: &[(Piece, Option<Value>)],
) {
    let stride = kb.dim(&plan.shape.n.size);
    for (row, sums) in sums.chunks(vectors.len()).enumerate() {
        let start = expr!(kb, (parameters.row + int(row as i64)) * stride + parameters.column + from);
        for (&sum, &(piece, mask)) in sums.iter().zip(vectors) {
            let place = expr!(kb, start + int(piece.shift));
            kb.store(parts, place, sum, mask);
        }
    }
}
