//! Reads small planes in place: a vector holds a row of results, and masks exclude positions beside
//! the plane.
//!
//! If results may be written over the input, they are written later ([`super::plane_walk`]).
//!
//! Invariant: only for convolutions, whose padding is the zero that a lane without an element
//! reads.
use super::{
    pack::Place,
    plan::{Form, WindowPlan},
};
use crate::{element::Elements, kernel::KernelBuilder, schedule::Group};
use disc_ir::Value;
use disc_kernel_macros::expr;

/// The values that are the same for all rows of a unit.
pub(super) struct InPlace {
    input: Value,
    /// The start of the plane.
    base: Value,
    /// For each element of a window along a row, the mask of lanes that have one.
    masks: Vec<Value>,
}

/// A row of the input.
pub(super) struct Row<'l> {
    lying: &'l InPlace,
    from: Value,
    exists: Value,
}

/// Emits the test that rows of results fit one vector; returns `None` if the windows or the target
/// do not allow reading them in place.
pub(super) fn is_narrow(kb: &mut KernelBuilder, group: &Group<'_>, plan: &WindowPlan) -> Option<Value> {
    let lanes = i64::from(plan.lanes);
    let fits = matches!(plan.form, Form::Products { .. })
        && plan.holds_kernel
        && plan.slides.len() == 2
        && plan.columns().step == 1
        && (!plan.walks || plan.rows_above() <= plan.block[0])
        && plan.columns().count.as_const().is_none_or(|count| count <= lanes)
        && group.target.has_mask_registers()
        && group.inputs().contains(&plan.input)
        && group.tensor(plan.input).dtype == plan.compute;
    if !fits {
        return None;
    }
    let (count, lanes) = (kb.dim(&plan.columns().count), kb.int(lanes));
    Some(expr!(kb, count <= lanes))
}

impl InPlace {
    pub(super) fn of(kb: &mut KernelBuilder, elements: &Elements<'_>, plan: &WindowPlan, place: &Place) -> Self {
        let shape = &elements.tensor(plan.input).dims;
        let (features, plane) = (kb.dim(&shape[1]), kb.dim(&(&shape[2] * &shape[3])));
        // Groups have one input feature.
        let base = expr!(kb, (place.lead[0] * features + place.lead[1]) * plane);
        let columns = plan.columns();
        let (zero, width, low) = (kb.int(0), kb.dim(&columns.size), kb.dim(&columns.low));
        let masks = (0..columns.taps).map(|tap| {
            let first = expr!(kb, int(tap * columns.dilation) - low);
            let (start, stop) = (expr!(kb, zero - first), expr!(kb, width - first));
            let (before, until) = (kb.lane_mask(start, plan.lanes), kb.lane_mask(stop, plan.lanes));
            expr!(kb, until & !before)
        });
        Self { masks: masks.collect(), input: elements.buffer(plan.input), base }
    }

    /// The row that is `row` below the first one that the windows of row `block` of the unit read.
    pub(super) fn row(&self, kb: &mut KernelBuilder, plan: &WindowPlan, place: &Place, block: Value, row: i64) -> Row<'_> {
        let (rows, columns) = (plan.rows().expect("planes have rows"), plan.columns());
        let (step, row, low) = (kb.int(rows.step), kb.int(row), kb.dim(&rows.low));
        let y = expr!(kb, (place.first[0] + block) * step + row - low);
        let (zero, all, height) = (kb.int(0), kb.int(i64::from(plan.lanes)), kb.dim(&rows.size));
        let lanes = expr!(kb, select((y >= zero) & (y < height), all, zero));
        let (width, left) = (kb.dim(&columns.size), kb.dim(&columns.low));
        let from = expr!(kb, self.base + y * width);
        Row { lying: self, from: expr!(kb, from - left), exists: kb.lane_mask(lanes, plan.lanes) }
    }
}

impl Row<'_> {
    /// The elements that a vector of windows has in one column.
    pub(super) fn read(&self, kb: &mut KernelBuilder, plan: &WindowPlan, column: i64) -> Value {
        let at = expr!(kb, self.from + int(column * plan.columns().dilation));
        let mask = expr!(kb, self.lying.masks[column as usize] & self.exists);
        kb.load(self.lying.input, at, plan.lanes, Some(mask))
    }
}
