//! Costly values that rows have in common: some of the axes that a kernel walks, they do not follow.
//!
//! A value that is the same all over a row is computed once for each row. One that differs along rows alone is computed once for a task, which keeps
//! it in its memory; one that differs along outer axes too, once for all rows that follow one another there. What other rows have in common than
//! neighbours (angles of positions, under a batch) is computed for a block of rows, and the kernel walks the rows that have it in common before it
//! goes to the next block. No kernel in front has to write any of them.
//!
//! Code generation finds the same values, in front of the rows and in front of the loops (`schedule/shared.rs`, `schedule/blocks.rs`).
use super::{
    layout::Layout,
    legality::costly,
    line_buffers::WOVEN,
    space::{Map, axes_of, counted_quotient, reads},
};
use disc_ir::{Dim, Function, Inst, OpKind, Solver, Value, ops::Trait};
use std::collections::HashSet;

/// So many costly ops are computed for a row, or for a task, though others do that as well.
pub(super) const MOST_SHARED: usize = 6;

/// Fewer rows that follow one another do not share what differs along outer axes, but by blocks.
const LEAST_NEXT: i64 = 8;

/// How often a costly value is computed that does not follow all axes that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoistLevel {
    /// Once for each row.
    PerRow,
    /// Once for each task, and for each position along outer axes.
    PerTask,
    /// Once for a block of rows, for all rows elsewhere that have it in common.
    PerBlock,
}

/// How a value that follows these axes is shared by the rows of a layout; `None` where it would be computed for each element.
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
    // Where elements are woven, vectors lie along other rows.
    let is_woven = !layout.reduces && layout.space[last].as_const().is_some_and(|size| WOVEN.contains(&size));
    let are_elsewhere = rows.iter().any(|axis| !axes.contains(axis));
    (are_elsewhere && !is_woven).then_some(HoistLevel::PerBlock)
}

/// The axes that tell rows apart.
pub(super) fn rows_of(solver: &Solver, layout: &Layout) -> Vec<usize> {
    let Some(last) = last_of(solver, layout) else { return Vec::new() };
    (0..=last).filter(|&axis| is_long(solver, layout, axis) && !is_in_row(layout, axis, last)).collect()
}

/// The axes of rows that values which rows share by blocks follow, and those that share the blocks with them; `None` where there are no such blocks.
/// Rows that differ along other axes alone have it all in common.
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

/// Whether an op is computed as few times as possible. Positions are divided by a few ops for a vector.
pub fn costs_something(function: &Function, inst: Inst) -> bool {
    costly(function.kind_of(inst)) && counted_quotient(function, inst).is_none()
}

/// Whether computing an op may fail, or what leads to it from inside.
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

/// The last axis that is walked at all.
fn last_of(solver: &Solver, layout: &Layout) -> Option<usize> {
    (0..layout.space.len()).rev().find(|&axis| is_long(solver, layout, axis))
}

fn is_long(solver: &Solver, layout: &Layout, axis: usize) -> bool {
    !solver.equal(&layout.space[axis], &Dim::constant(1))
}

/// Whether an axis is walked within a row, `last` being the last one that is. Loops walk that as rows.
fn is_in_row(layout: &Layout, axis: usize, last: usize) -> bool {
    if layout.reduces { layout.reduced.contains(&axis) } else { axis == last }
}
