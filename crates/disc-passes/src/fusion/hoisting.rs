//! Decides where costly values are hoisted to that do not depend on all axes of a kernel.
//!
//! A value that is constant along a row is computed once per row. One that depends only on the
//! position in the row is computed once per task and kept in task memory; one that also depends on
//! outer axes, once for all consecutive rows that share it. A value shared by distant rows (such as
//! the angles of positions, shared across a batch) is computed once per block of rows, and the
//! kernel walks all rows that share it before the next block. So no kernel has to write such values
//! first.
//!
//! Code generation hoists the same values (`schedule/common/hoisting.rs` and `row_blocking.rs`).
use super::{
    layout::Layout,
    legality::costly,
    line_buffers::WOVEN,
    space::{Map, axes_of, counted_quotient, reads},
};
use disc_ir::{Dim, Function, Inst, OpKind, Solver, Value, ops::Trait};
use std::collections::HashSet;

/// The most costly ops that are computed once per row or task although other rows or tasks repeat
/// them.
pub(super) const MOST_SHARED: usize = 6;

/// With fewer consecutive rows, a value that depends on outer axes is hoisted per block only.
const LEAST_NEXT: i64 = 8;

/// The level to which a costly value is hoisted that does not depend on all kept axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoistLevel {
    /// Once for each row.
    PerRow,
    /// Once for each task, and for each position along outer axes.
    PerTask,
    /// Once for a block of rows, and for all distant rows that share it.
    PerBlock,
}

/// The level of a value that depends on these axes; `None` if it is computed for each element.
pub fn hoist_level(solver: &Solver, layout: &Layout, axes: &[usize]) -> Option<HoistLevel> {
    let last = last_of(solver, layout)?;
    if !axes.iter().any(|&axis| is_in_row(layout, axis, last)) {
        return Some(HoistLevel::PerRow);
    }
    let rows = rows_of(solver, layout);
    let next = *rows.last().filter(|_| is_in_row(layout, last, last))?;
    let follows_rows = axes.iter().any(|axis| !is_in_row(layout, *axis, last));
    let are_few = follows_rows && solver.range(&layout.space[next]).hi.is_some_and(|most| most < LEAST_NEXT);
    if !axes.contains(&next) && !are_few {
        return Some(HoistLevel::PerTask);
    }
    // With interleaved lanes, vectors run along other rows.
    let is_woven = !layout.reduces && layout.space[last].as_const().is_some_and(|size| WOVEN.contains(&size));
    let are_elsewhere = rows.iter().any(|axis| !axes.contains(axis));
    (are_elsewhere && !is_woven).then_some(HoistLevel::PerBlock)
}

/// The axes that distinguish rows.
pub(super) fn rows_of(solver: &Solver, layout: &Layout) -> Vec<usize> {
    let Some(last) = last_of(solver, layout) else { return Vec::new() };
    (0..=last).filter(|&axis| is_long(solver, layout, axis) && !is_in_row(layout, axis, last)).collect()
}

/// The row axes that values hoisted per block depend on, and those of values hoisted per task;
/// `None` without values per block. Rows that differ along other axes share all of them.
pub fn block_axes(function: &Function, solver: &Solver, layout: &Layout, roots: &[(Value, Map)]) -> Option<Vec<usize>> {
    let rows = rows_of(solver, layout);
    let (mut stack, mut seen) = (roots.to_vec(), HashSet::new());
    let (mut found, mut are_blocks) = (Vec::new(), false);
    while let Some((value, map)) = stack.pop() {
        let Some(inst) = function.defining(value).filter(|_| seen.insert((value, map.clone()))) else { continue };
        let shared = axes_of(&map).filter(|_| costs_something(function, inst) && !may_fail(function, inst, &|_| true));
        let how = shared.as_ref().and_then(|axes| hoist_level(solver, layout, axes));
        if let (Some(axes), Some(HoistLevel::PerTask | HoistLevel::PerBlock)) = (shared, how)
            && rows.iter().any(|axis| !axes.contains(axis))
        {
            are_blocks |= how == Some(HoistLevel::PerBlock);
            found.extend(rows.iter().copied().filter(|axis| axes.contains(axis)));
        }
        if !matches!(function.kind_of(inst), OpKind::Reduce | OpKind::Cumulative) {
            stack.extend(reads(function, solver, &layout.space, inst, &map).operands);
        }
    }
    found.sort_unstable();
    found.dedup();
    (are_blocks && found.len() < rows.len()).then_some(found)
}

/// Returns true if an op is worth hoisting. A quotient of positions is a few ops per vector.
pub fn costs_something(function: &Function, inst: Inst) -> bool {
    costly(function.kind_of(inst)) && counted_quotient(function, inst).is_none()
}

/// Returns true if computing an op may fail, including what it is computed from inside.
pub fn may_fail(function: &Function, inst: Inst, is_inside: &dyn Fn(Inst) -> bool) -> bool {
    let (mut stack, mut seen) = (vec![inst], HashSet::new());
    while let Some(inst) = stack.pop() {
        if !seen.insert(inst) {
            continue;
        }
        if function.def(inst).has(Trait::MayFail) {
            return true;
        }
        let operands = function.operands(inst).iter().filter_map(|&operand| function.defining(operand));
        stack.extend(operands.filter(|&inst| is_inside(inst)));
    }
    false
}

/// The last axis that is longer than 1.
fn last_of(solver: &Solver, layout: &Layout) -> Option<usize> {
    (0..layout.space.len()).rev().find(|&axis| is_long(solver, layout, axis))
}

fn is_long(solver: &Solver, layout: &Layout, axis: usize) -> bool {
    !solver.equal(&layout.space[axis], &Dim::constant(1))
}

/// Returns true if an axis is walked within a row; `last` is the last axis longer than 1, which
/// pointwise kernels walk as rows.
fn is_in_row(layout: &Layout, axis: usize, last: usize) -> bool {
    if layout.reduces { layout.reduced.contains(&axis) } else { axis == last }
}
