//! Loops over the chunks and row blocks that a plan cuts the work into.
use crate::{
    kernel::{Index, KernelBuilder},
    schedule::cpu::matmul::plan::MatmulPlan,
};
use disc_ir::Value;
use disc_kernel_macros::expr;

/// Gives the starts of the operands for a batch position.
pub(in crate::schedule) fn bases(kb: &mut KernelBuilder, plan: &MatmulPlan, at: &[Index]) -> [Value; 2] {
    let mut bases = [kb.int(0), kb.int(0)];
    for outer in &plan.shape.outer {
        let here = at[outer.run.axis].as_uniform().expect("a batch position is a scalar");
        for (base, stride) in bases.iter_mut().zip([&outer.left, &outer.right]) {
            *base = expr!(kb, *base + here * dim(stride));
        }
    }
    bases
}

/// Gives the first row of a chunk and the end of it: chunks are as even as can be.
pub(in crate::schedule) fn chunk_rows(kb: &mut KernelBuilder, plan: &MatmulPlan, chunk: Value) -> [Value; 2] {
    if plan.shape.m.size.is_const(1) {
        return [kb.int(0), kb.int(1)];
    }
    let (one, rows, chunks) = (kb.int(1), kb.dim(&plan.shape.m.size), kb.dim(&plan.chunks()));
    let next = expr!(kb, chunk + one);
    let (low, high) = (expr!(kb, chunk * rows), expr!(kb, next * rows));
    [expr!(kb, low / chunks), expr!(kb, high / chunks)]
}

/// Gives the number of blocks that the rows from `first` to below `last` are cut into.
pub(in crate::schedule) fn row_blocks(kb: &mut KernelBuilder, plan: &MatmulPlan, [first, last]: [Value; 2]) -> Value {
    let (tallest, up) = (kb.int(i64::from(plan.tile.rows)), kb.int(i64::from(plan.tile.rows) - 1));
    expr!(kb, (last - first + up) / tallest)
}

/// Runs `body` for even blocks of rows, or blocks of as many tiles as possible, with the number of
/// the block, its first row and its height.
pub(in crate::schedule) fn for_row_blocks(
    kb: &mut KernelBuilder,
    plan: &MatmulPlan,
    [first, last]: [Value; 2],
    body: impl FnOnce(&mut KernelBuilder, Value, [Value; 2]),
) {
    let (zero, one) = (kb.int(0), kb.int(1));
    if plan.keeps_tiles() {
        let tall = kb.int(plan.block_rows());
        kb.for_([first, last, tall], &[zero], |kb, row, carried| {
            let height = expr!(kb, min(last - row, tall));
            body(kb, carried[0], [row, height]);
            vec![expr!(kb, carried[0] + one)]
        });
        return;
    }
    let count = expr!(kb, last - first);
    let blocks = row_blocks(kb, plan, [first, last]);
    kb.for_([zero, blocks, one], &[first], |kb, block, carried| {
        let stop = expr!(kb, first + (block + one) * count / blocks);
        let height = expr!(kb, stop - carried[0]);
        body(kb, block, [carried[0], height]);
        vec![stop]
    });
}
