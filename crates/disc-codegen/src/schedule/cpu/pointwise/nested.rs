//! Emits loops over rows: a work unit is a row, or a tile of transposed rows.
use super::{
    LoopNest,
    rows::{Rows, place},
};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::common::iteration_space::{CountedUnits, each_unit},
};
use disc_ir::{Dim, Value};

/// Emits rows one after the other; returns the number of units.
pub(super) fn emit(
    nest: &LoopNest<'_>,
    kb: &mut KernelBuilder,
    elements: &mut Elements<'_>,
    (targets, range): (&[Value], [Value; 2]),
    mut at: Vec<Index>,
) -> Dim {
    let rows = Rows::new(kb, elements, nest, targets, None);
    nest.know(kb, elements, &at, true);
    each_unit(kb, range, &rows.outer, |kb, positions| write_row(&rows, kb, elements, positions, &mut at));
    rows.units()
}

/// Emits the same, with tables of the values that the rows at a position of the outer runs share:
/// the position fills them before its rows.
pub(super) fn with_outer_tables(
    nest: &LoopNest<'_>,
    kb: &mut KernelBuilder,
    elements: &mut Elements<'_>,
    (targets, range): (&[Value], [Value; 2]),
    mut at: Vec<Index>,
) -> Dim {
    let rows = Rows::new(kb, elements, nest, targets, None);
    nest.know(kb, elements, &at, true);
    let mut outside = at.clone();
    let mut enter = |kb: &mut KernelBuilder, positions: &[Value]| {
        place(&rows.outer, positions, &mut outside);
        rows.tables.fill_outer(kb, elements, &outside, None);
    };
    let units = CountedUnits::open_entering(kb, range, &rows.outer, &mut enter);
    write_row(&rows, kb, elements, &units.positions, &mut at);
    units.close(kb, &rows.outer);
    rows.units()
}

fn write_row(rows: &Rows<'_>, kb: &mut KernelBuilder, elements: &mut Elements<'_>, positions: &[Value], at: &mut [Index]) {
    elements.scoped(|elements| {
        place(&rows.outer, positions, at);
        rows.enter(kb, elements, at);
        rows.write(kb, elements, at, None);
    });
}
