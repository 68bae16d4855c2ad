//! Costly values that rows have in common: some of the axes that a kernel walks, they do not follow.
//!
//! A value that is the same all over a row is computed once for each row. One that differs along rows alone is computed once for a task, which keeps
//! it in its memory; one that differs along outer axes too, once for all rows that follow one another there. They are computed a few times then, and no
//! kernel in front has to write them. What other rows have in common than neighbours is better written: it would be computed again for each element.
//!
//! Code generation finds the same values, in front of the rows and in front of the loops (`schedule/shared.rs`).
use super::form::Layout;
use disc_ir::{Dim, Solver};

/// So many costly ops are computed for a row, or for a task, though others do that as well.
pub(super) const MOST_SHARED: usize = 6;

/// Fewer rows that follow one another do not share what differs along outer axes.
const LEAST_NEXT: i64 = 8;

/// How often a costly value is computed that does not follow all axes that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Once for each row.
    ByRow,
    /// Once for each task, and for each position along outer axes.
    ByTask,
}

/// How a value that follows these axes is shared by the rows of a layout; `None` where it would be computed for each element.
pub fn sharing(solver: &Solver, layout: &Layout, axes: &[usize]) -> Option<Sharing> {
    let one = Dim::constant(1);
    let is_long = |axis: &usize| !solver.equal(&layout.space[*axis], &one);
    let last = (0..layout.space.len()).rev().find(is_long)?;
    // Loops walk their last axis as rows.
    let is_in_row = |axis: &usize| if layout.reduces { layout.reduced.contains(axis) } else { *axis == last };
    if !axes.iter().any(is_in_row) {
        return Some(Sharing::ByRow);
    }
    let next = (0..layout.space.len()).rev().find(|axis| is_long(axis) && !is_in_row(axis))?;
    let are_few =
        solver.range(&layout.space[next]).hi.is_some_and(|most| most < LEAST_NEXT) && axes.iter().any(|axis| !is_in_row(axis));
    (is_in_row(&last) && !axes.contains(&next) && !are_few).then_some(Sharing::ByTask)
}
