//! Emits loops of several rows per task: what they read is computed before the first of them.
use super::{
    LoopNest,
    rows::{Rows, place},
};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::common::{
        hoisting::{Hoisted, HoistedRows},
        iteration_space::{each_tile, read_places},
        line_buffers::LineBufferMemory,
    },
};
use disc_ir::{Dim, Value};

/// Emits rows that read line buffers: values that rows read at other positions than they are
/// computed for. Returns the number of units.
pub(super) fn line_buffered(
    nest: &LoopNest<'_>,
    kb: &mut KernelBuilder,
    elements: &mut Elements<'_>,
    (targets, range): (&[Value], [Value; 2]),
    mut at: Vec<Index>,
) -> Dim {
    let mut rows = Rows::new(kb, elements, nest, targets, None);
    let lines = LineBufferMemory::new(kb, elements, &nest.line_buffers, &mut rows.outer).expect("there are line buffers");
    nest.know(kb, elements, &at, true);
    let know = |kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index]| nest.know(kb, elements, at, false);
    each_tile(kb, range, &rows.outer, |kb, positions| {
        elements.scoped(|elements| {
            place(&rows.outer, positions, &mut at);
            lines.each_row(kb, elements, (&nest.outputs.space, &rows.gathers), &at, &know, |kb, elements, at| {
                rows.write(kb, elements, at, None);
            });
        });
    });
    rows.units()
}

/// Emits rows with values that are constant along each, which are computed in vectors. Returns the
/// number of units.
pub(super) fn with_constants(
    nest: &LoopNest<'_>,
    kb: &mut KernelBuilder,
    elements: &mut Elements<'_>,
    (targets, range): (&[Value], [Value; 2]),
    mut at: Vec<Index>,
    constants: &[Hoisted],
) -> Dim {
    let space = &nest.outputs.space;
    let mut rows = Rows::new(kb, elements, nest, targets, None);
    nest.know(kb, elements, &at, true);
    let hoisted = HoistedRows::new(kb, elements, constants, &rows.inner.size, &mut rows.outer).expect("there are values");
    each_tile(kb, range, &rows.outer, |kb, positions| {
        elements.scoped(|elements| {
            place(&rows.outer, positions, &mut at);
            hoisted.each_row(kb, elements, space, &at, |kb, elements, at| {
                read_places(kb, elements, space, &rows.gathers, at);
                rows.write(kb, elements, at, None);
            });
        });
    });
    rows.units()
}
