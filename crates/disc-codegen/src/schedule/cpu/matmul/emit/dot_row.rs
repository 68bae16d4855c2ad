//! Multiplies one row by as many columns as a vector has lanes, along memory: the columns are read
//! in place, and nothing is packed.
//!
//! It serves a few rows that are multiplied by a long right operand, which is read once: the time
//! is that of reading it.
use super::{parameters::Parameters, partial_sums, write::store};
use crate::{
    element::matmul::multiply_add,
    kernel::{Index, KernelBuilder, Site},
    schedule::{Group, cpu::matmul::plan::MatmulPlan},
};
use disc_ir::{Function, FunctionKind, OpKind, Value};
use disc_kernel_macros::expr;

pub(in crate::schedule) fn name(part: &str) -> String {
    format!("{part}.dot_row")
}

/// Emits the routine, with its sites of failure. Its `block` is the first row that is in task
/// memory.
pub(in crate::schedule) fn emit(group: &Group<'_>, plan: &MatmulPlan) -> (Function, Vec<Site>) {
    let mut kb = group.builder(&name(&group.name), FunctionKind::Routine);
    let parameters = Parameters::declare(&mut kb, group, plan);
    let lanes = plan.tile.lanes;
    let sums = accumulate(&mut kb, group, plan, &parameters);
    // Lane by lane, the sums of a column are added up.
    let mut sums = kb.transpose_lanes(&sums);
    while sums.len() > 1 {
        sums = sums.chunks(2).map(|pair| kb.map(OpKind::Add, pair)).collect();
    }
    let left = expr!(kb, dim(&plan.shape.n.size) - parameters.column);
    let mask = kb.lane_mask(left, lanes);
    let mut at = vec![Index::uniform(kb.int(0)); plan.shape.rank];
    for (outer, &position) in plan.shape.outer.iter().zip(&parameters.outer) {
        at[outer.run.axis] = Index::uniform(position);
    }
    if let Some(axis) = plan.shape.m.dim {
        at[axis] = Index::uniform(parameters.row);
    }
    if let Some(axis) = plan.shape.n.dim {
        at[axis] = Index::Affine { base: parameters.column, stride: 1 };
    }
    let mut elements = parameters.elements(&mut kb, group, plan, parameters.block);
    elements.masked(Some(mask), |elements| store(&mut kb, group, plan, &parameters.operands, elements, &at, sums[0]));
    (kb.finish(), elements.sites)
}

/// Gives a vector of sums for each column: after the last column, that of the last one again.
fn accumulate(kb: &mut KernelBuilder, group: &Group<'_>, plan: &MatmulPlan, parameters: &Parameters) -> Vec<Value> {
    let lanes = plan.tile.lanes;
    let left = parameters.operands.left_rows(plan);
    let (one, columns, stride) = (kb.int(1), kb.dim(&plan.shape.n.size), kb.dim(&plan.shape.n.right));
    let last = expr!(kb, columns - one);
    let mut starts = Vec::new();
    for lane in 0..lanes {
        let offset = expr!(kb, min(parameters.column + int(i64::from(lane)), last) * stride);
        starts.push(expr!(kb, parameters.right + offset));
    }
    let step = |kb: &mut KernelBuilder, k: Value, sums: &[Value], mask: Option<Value>| -> Vec<Value> {
        let read = |kb: &mut KernelBuilder, buffer: Value, start: Value| {
            let here = expr!(kb, start + k);
            let loaded = kb.load(buffer, here, lanes, mask);
            kb.convert(loaded, plan.compute)
        };
        let row = read(kb, left, parameters.left);
        let mut next = Vec::with_capacity(sums.len());
        for (&start, &sum) in starts.iter().zip(sums) {
            let column = read(kb, parameters.operands.right(), start);
            next.push(multiply_add(kb, plan.compute, row, column, sum));
        }
        next
    };
    let zero = kb.zero(plan.compute, lanes);
    let (low, size, vector) = (kb.int(0), kb.dim(&plan.shape.k.size), kb.int(i64::from(lanes)));
    let whole = expr!(kb, size / vector * vector);
    let block = partial_sums::block(plan, &group.solver, &plan.shape.k.size, i64::from(lanes) * partial_sums::VECTORS);
    let none = vec![zero; lanes as usize];
    let sums = partial_sums::in_blocks(kb, plan, [low, whole], block, &none, &mut |kb, [from, to], sums| {
        kb.for_([from, to, vector], sums, |kb, k, carried| step(kb, k, carried, None))
    });
    if group.solver.divisible(&plan.shape.k.size, i64::from(lanes)) {
        return sums;
    }
    // At most one turn, for what is left.
    kb.for_([whole, size, vector], &sums, |kb, k, carried| {
        let left = expr!(kb, size - k);
        let mask = kb.lane_mask(left, lanes);
        step(kb, k, carried, Some(mask))
    })
}
