//! Selects line buffers: values of a pointwise group that are read along the last dimension at
//! other positions than their own, and are therefore computed one line per row of the result.
//!
//! Resizing an image first scales its height, then its width: each element of the result reads
//! several elements of one line of the first step. The kernel computes that line for each row of
//! the result in task memory; in memory, all lines together may be half as large as the result.
//! `form.rs` decides about groups with them, and the pointwise schedule writes them.
//!
//! Invariants:
//! - There is one line for each row of the result, so that each of its elements is computed once.
//! - Nothing fails in a line: it is computed for empty rows too. Its gathers have non-empty
//!   operands, by their types.
//! - The decision is made before the loop order: code generation drops a line buffer if rows are
//!   transposed, and recomputes its elements.
use super::space::{Follows, Map, reads};
use crate::analysis::query::Query;
use disc_ir::{Dim, Function, Inst, OpKind, Solver, Value, ops::Trait};
use std::collections::HashSet;

/// An innermost dimension of one of these sizes is no row of its own: vectors run along the next
/// outer one, and lanes are interleaved.
pub const WOVEN: [i64; 2] = [2, 4];

/// A value that is computed a line at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineBuffer {
    pub value: Value,
    /// The axes of the space that each of its dimensions follows, except the last one.
    pub rows: Vec<Vec<usize>>,
}

/// A query for the line buffers of a group.
#[derive(Clone, Copy)]
pub struct LineBuffers<'a> {
    pub function: &'a Function,
    pub solver: &'a Solver,
    pub space: &'a [Dim],
    /// Returns true if an op is computed inside of the group.
    pub inside: &'a dyn Fn(Inst) -> bool,
}

impl LineBuffers<'_> {
    /// The line buffers of a pointwise group that computes `roots`, in the order of the block.
    pub fn of(self, roots: &[(Value, Map)]) -> Vec<LineBuffer> {
        let (mut stack, mut seen, mut found) = (roots.to_vec(), HashSet::new(), Vec::<LineBuffer>::new());
        while let Some((value, map)) = stack.pop() {
            let Some(inst) = self.defining(value).filter(|_| seen.insert((value, map.clone()))) else { continue };
            if found.iter().any(|known| known.value == value) {
                continue;
            }
            let rows = || self.rows(value, &map).filter(|_| self.is_worth_it(inst));
            match (map.last() == Some(&Follows::Other)).then(rows).flatten() {
                Some(rows) => found.push(LineBuffer { value, rows }),
                None => stack.extend(reads(self.function, self.solver, self.space, inst, &map).operands),
            }
        }
        let is_read_in_rows = |line: &LineBuffer| {
            let mut maps = seen.iter().filter(|(value, _)| *value == line.value);
            maps.all(|(_, map)| self.rows(line.value, map).as_ref() == Some(&line.rows))
        };
        found.retain(|line| is_read_in_rows(line) && !roots.iter().any(|(root, _)| *root == line.value));
        found.sort_by_key(|line| line.value);
        found
    }

    fn defining(&self, value: Value) -> Option<Inst> {
        self.function.defining(value).filter(|&inst| (self.inside)(inst))
    }

    /// The axes of all dimensions of a value but the last, if they are all axes outside of a row of
    /// the space.
    fn rows(&self, value: Value, map: &[Follows]) -> Option<Vec<Vec<usize>>> {
        let (_, outer) = map.split_last()?;
        let axes = |follows: &Follows| match follows {
            Follows::Axes(axes) => Some(axes.clone()),
            Follows::Other => None,
        };
        let rows: Vec<Vec<usize>> = outer.iter().map(axes).collect::<Option<_>>()?;
        let followed: Vec<usize> = rows.iter().flatten().copied().collect();
        let is_row = match &self.space[followed.len().min(self.space.len())..] {
            [_] => true,
            [_, short] => short.as_const().is_some_and(|size| WOVEN.contains(&size)),
            _ => false,
        };
        let is_plain = !followed.is_empty() && followed.iter().copied().eq(0..followed.len());
        (is_row && is_plain && self.function.shape(value).len() == map.len()).then_some(rows)
    }

    /// Returns true if a value is elementwise computed from rows that are read at gathered
    /// positions: a mere view is not worth a buffer.
    fn is_worth_it(&self, inst: Inst) -> bool {
        if !self.function.def(inst).has(Trait::Elementwise) || self.function.ty(self.function.result(inst)).dtype().size() < 2 {
            return false;
        }
        let (mut stack, mut seen, mut gathers) = (vec![inst], HashSet::new(), false);
        while let Some(inst) = stack.pop() {
            if !seen.insert(inst) {
                continue;
            }
            let kind = self.function.kind_of(inst);
            let is_gather = never_fails(self.function, inst);
            // Rows that run across a row of the result are better transposed by a kernel of their
            // own.
            let is_across = matches!(kind, OpKind::Reduce | OpKind::Cumulative | OpKind::Transpose);
            if is_across || self.function.def(inst).has(Trait::MayFail) && !is_gather {
                return false;
            }
            gathers |= is_gather;
            stack.extend(self.function.operands(inst).iter().filter_map(|&value| self.defining(value)));
        }
        gathers
    }
}

/// Returns true if an op is a gather that clamps indices.
pub(super) fn never_fails(function: &Function, inst: Inst) -> bool {
    function.kind_of(inst) == OpKind::Gather && function.word(inst, "bounds") == "clamp"
}
