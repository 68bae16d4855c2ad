//! Lane masks of the vectors of a panel that may end after the last column.
use crate::{
    kernel::KernelBuilder,
    schedule::cpu::matmul::plan::{MatmulPlan, source::Piece},
};
use disc_ir::Value;
use disc_kernel_macros::expr;

/// Masks the lanes of each vector of the panel that are columns; `None` if all of them always are.
pub(in crate::schedule) fn column_masks(kb: &mut KernelBuilder, plan: &MatmulPlan, column: Value) -> Vec<Option<Value>> {
    let (lanes, vectors) = (plan.tile.lanes, plan.tile.columns / plan.tile.lanes);
    if plan.partition.whole_panels {
        return vec![None; vectors as usize];
    }
    let left = expr!(kb, dim(&plan.shape.n.size) - column);
    let masks = (0..vectors).map(|v| {
        let count = expr!(kb, left - int(i64::from(v * lanes)));
        Some(kb.lane_mask(count, lanes))
    });
    masks.collect()
}

/// Masks the vectors of a last panel, of which the last one alone may have lanes after the columns.
pub(in crate::schedule) fn tail_masks(
    kb: &mut KernelBuilder,
    plan: &MatmulPlan,
    column: Value,
    pieces: &[Piece],
) -> Vec<Option<Value>> {
    let Some((last, whole)) = pieces.split_last() else { return Vec::new() };
    let (size, shift) = (kb.dim(&plan.shape.n.size), kb.int(last.shift));
    let left = expr!(kb, size - column - shift);
    let mask = kb.lane_mask(left, last.lanes);
    whole.iter().map(|_| None).chain([Some(mask)]).collect()
}
