//! Emits blocks of rows, which share the costly values in tables.
use super::{LoopNest, rows::Rows};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::common::{iteration_space::CountedUnits, row_blocking::RowBlocking, vector_loop::vector_loop},
};
use disc_ir::{Dim, Value};
use disc_kernel_macros::expr;

/// Emits the blocks; returns the number of units.
pub(super) fn emit(
    nest: &LoopNest<'_>,
    kb: &mut KernelBuilder,
    elements: &mut Elements<'_>,
    (targets, range): (&[Value], [Value; 2]),
    blocks: &RowBlocking,
) -> Dim {
    let rows = Rows::new(kb, elements, nest, targets, Some(blocks));
    let mut at = vec![Index::uniform(kb.int(0)); nest.outputs.space.len()];
    nest.know(kb, elements, &at, true);
    let counted = blocks.counted();
    let mut enter = |kb: &mut KernelBuilder, positions: &[Value]| {
        let mut at = at.clone();
        let block = blocks.enter(kb, positions, &mut at);
        rows.tables.fill_outer(kb, elements, &at, Some(block));
    };
    let units = CountedUnits::open_entering(kb, range, &counted, &mut enter);
    let [first, stop] = blocks.place(kb, &units.positions, &mut at);
    if nest.is_flat() {
        // The rows of a block are walked as one.
        let length = kb.dim(&rows.inner.size);
        let range = [expr!(kb, first * length), expr!(kb, stop * length)];
        rows.enter(kb, elements, &at);
        vector_loop(kb, elements, range, false, &mut |kb, elements, index| {
            at[rows.inner.axis] = index;
            rows.tables.recall_of_block(kb, elements, &at, first);
            nest.write(kb, elements, targets, std::slice::from_ref(&at));
        });
    } else {
        blocks.each_row(kb, [first, stop], 1, &at, &mut |kb, at, _| {
            elements.scoped(|elements| {
                rows.enter(kb, elements, at);
                rows.write(kb, elements, at, Some(first));
            });
        });
    }
    units.close(kb, &counted);
    blocks.units()
}
