//! Line buffers: values of a loop group that are read along their last dimension at other places than where they are computed, for each row of the results.
//!
//! An image is enlarged along its height, then along its width: each element of the result reads some of one line of what the first step computes.
//! A loop computes that line for each row of its results, in task memory, and what reads it finds it there; in memory, all lines together may be half
//! of the result. [`super::form`] decides by them what is one group, the loop schedule of code generation writes them.
//!
//! Invariants:
//! - A line has a row for each row of the results, so that each of its elements is computed once.
//! - Nothing fails in it: it is computed for rows without elements, too. What its gathers read has elements, or types would not be right.
//! - It is decided before it is known how a nest is walked: code generation keeps no line where rows lie turned, and computes what reads it again.
use super::space::{Follows, Map, reads};
use crate::analysis::query::Query;
use disc_ir::{Dim, Function, Inst, OpKind, Solver, Value, ops::Trait};
use std::collections::HashSet;

/// Innermost dimensions of this size are no rows of their own: vectors lie along the one in front, and are joined in pairs.
pub const WOVEN: [i64; 2] = [2, 4];

/// A value that is computed a line at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineBuffer {
    pub value: Value,
    /// The axes of the space that its dimensions follow, but for the last one.
    pub rows: Vec<Vec<usize>>,
}

/// What is asked about a group.
#[derive(Clone, Copy)]
pub struct LineBuffers<'a> {
    pub function: &'a Function,
    pub solver: &'a Solver,
    pub space: &'a [Dim],
    /// Whether an op is computed inside of the group.
    pub inside: &'a dyn Fn(Inst) -> bool,
}

impl LineBuffers<'_> {
    /// The lines of a loop that computes `roots`, in the order of the block.
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

    /// The axes that all dimensions of a value but the last one follow, if these are all that are in front of a row of the space.
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

    /// Whether a value is computed from rows of some tensor that are read where counting or data say: an op that is not only another way to read.
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
            // Rows that lie across a row of the results are better turned by a kernel of their own.
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

/// Whether an op is a gather that reads the nearest element where a place is out of range.
pub(super) fn never_fails(function: &Function, inst: Inst) -> bool {
    function.kind_of(inst) == OpKind::Gather && function.word(inst, "bounds") == "clamp"
}
