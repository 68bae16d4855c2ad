//! Multiplies the last few columns of a product along the sums: see the plan's
//! [`tail_columns`](crate::schedule::cpu::matmul::plan::tail_columns). Each such column is copied
//! out of its panel first.
use super::{dot, operands::Operands, parameters::Parameters, step::starts};
use crate::{
    kernel::KernelBuilder,
    schedule::{Group, cpu::matmul::plan::MatmulPlan},
};
use disc_ir::Value;
use disc_kernel_macros::expr;

/// Copies the columns that are left over out of the panel that starts with `column`.
pub(in crate::schedule) fn copy_columns(kb: &mut KernelBuilder, plan: &MatmulPlan, operands: &Operands, column: Value) {
    let Some(memory) = operands.rest else { return };
    let [first, count] = rest(kb, plan, column);
    let (zero, one, depth) = (kb.int(0), kb.int(1), kb.dim(&plan.shape.k.size));
    let (stride, width) = (kb.dim(&plan.rest_stride()), kb.int(i64::from(plan.tile.columns)));
    kb.for_each([zero, count, one], |kb, columns| {
        let (from, to) = (expr!(kb, first + columns), expr!(kb, columns * stride));
        kb.for_each([zero, depth, one], |kb, k| {
            let (row, there) = (expr!(kb, k * width), expr!(kb, to + k));
            let here = expr!(kb, from + row);
            let element = kb.load(operands.panel(), here, 1, None);
            kb.store(memory, there, element, None);
        });
    });
}

/// Gives the first column of the panel at `column` that is left over, as its number there, and the
/// number of such columns.
pub(super) fn rest(kb: &mut KernelBuilder, plan: &MatmulPlan, column: Value) -> [Value; 2] {
    let (columns, width, narrow) = (kb.dim(&plan.shape.n.size), i64::from(plan.tile.columns), i64::from(plan.narrow()));
    let (zero, width, narrow, up) = (kb.int(0), kb.int(width), kb.int(narrow), kb.int(narrow - 1 - i64::from(plan.most_rest())));
    let left = expr!(kb, min(columns - column, width));
    let first = expr!(kb, (left + up) / narrow * narrow);
    let count = expr!(kb, left - first);
    [first, kb.max(count, zero)]
}

/// Gives the sums of `rows` rows and so many columns that are left over.
pub(in crate::schedule) fn accumulate(
    kb: &mut KernelBuilder,
    group: &Group<'_>,
    plan: &MatmulPlan,
    parameters: &Parameters,
    [rows, columns]: [u32; 2],
) -> Vec<Value> {
    let operands = &parameters.operands;
    let left = operands.left_rows(plan);
    let right = operands.rest.expect("columns that are left over have memory");
    let lefts = starts(kb, parameters.left, &plan.shape.m.left, rows);
    let rights = starts(kb, parameters.right, &plan.rest_stride(), columns);
    dot::accumulate(kb, group, plan, [(left, lefts), (right, rights)])
}
