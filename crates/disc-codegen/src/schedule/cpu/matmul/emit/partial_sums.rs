//! Long sums of products in blocks: after so many additions a sum is added to its total, and starts
//! again from zero.
//!
//! The error of one chain of additions grows with its length, in one direction where the products
//! are equal. The totals are spilled while a block is summed, so that a block has to be long.
use crate::{kernel::KernelBuilder, schedule::cpu::matmul::plan::MatmulPlan};
use disc_ir::{Dim, Solver, Value};
use disc_kernel_macros::expr;

/// Steps of a micro-kernel in a block: a multiple of the steps of any round.
pub(in crate::schedule) const STEPS: i64 = 512;
/// Vectors in a block of a dot product along memory.
pub(in crate::schedule) const VECTORS: i64 = 128;

/// Returns `length`, the positions of a block, where `size` may be longer and additions round.
pub(in crate::schedule) fn block(plan: &MatmulPlan, solver: &Solver, size: &Dim, length: i64) -> Option<i64> {
    let most = solver.range(size).hi.unwrap_or(i64::MAX);
    (plan.compute.is_float() && most > length).then_some(length)
}

/// The code of one block: takes its range and the sums at its start, returns those at its end.
pub(in crate::schedule) type Block<'b> = dyn FnMut(&mut KernelBuilder, [Value; 2], &[Value]) -> Vec<Value> + 'b;

/// Runs `body` for the blocks of a range and adds their sums to `sums`.
pub(in crate::schedule) fn in_blocks(
    kb: &mut KernelBuilder,
    plan: &MatmulPlan,
    [low, high]: [Value; 2],
    block: Option<i64>,
    sums: &[Value],
    body: &mut Block<'_>,
) -> Vec<Value> {
    let Some(block) = block else { return body(kb, [low, high], sums) };
    let block = kb.int(block);
    kb.for_([low, high, block], sums, |kb, from, totals| {
        let end = expr!(kb, min(from + block, high));
        let none: Vec<Value> = totals.iter().map(|&total| kb.zero(plan.compute, kb.lanes(total))).collect();
        let found = body(kb, [from, end], &none);
        totals.iter().zip(found).map(|(&total, sum)| expr!(kb, total + sum)).collect()
    })
}
