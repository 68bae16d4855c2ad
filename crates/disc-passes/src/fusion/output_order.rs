//! Finds outputs whose rows are stored in another order than the rows are walked in: a norm
//! followed by a transpose of its heads.
//!
//! An output with the sizes of the space in order has its positions by type. After a transpose it
//! has them in another order, or in the same one if some sizes are equal: then its order is the one
//! in which it reads its own rows of the reductions.
//!
//! Invariants: the innermost axis of the space is the innermost of the output too, so that elements
//! are written as they are walked; such an output depends on a reduction of the group.
use super::{
    form::{Candidate, Rejection},
    layout::Layout,
    space::{Follows, Map, map_of, quotient, reads},
};
use crate::analysis::query::Query;
use disc_ir::{Dim, Inst, OpKind, Solver, Value};
use std::collections::HashSet;

/// Rows that would be written in shorter pieces are stored whole and read again.
const LEAST_PIECE: i64 = 16;

impl Candidate<'_> {
    /// The outputs whose rows are stored in another order than the space.
    pub(super) fn reordered(&self, layout: &Layout) -> Result<Vec<(Value, Map)>, Rejection> {
        let mut found = Vec::new();
        let Some(last) = layout.space.len().checked_sub(1) else { return Ok(found) };
        let along = layout.reduced.last() == Some(&last);
        if !along || self.reductions().iter().any(|&inst| self.function.operands(inst).len() != 2) {
            return Ok(found);
        }
        let members: HashSet<Inst> = self.members.iter().copied().collect();
        for &output in self.outputs.iter().filter(|&&output| self.is_behind_transpose(&members, output)) {
            let shape = self.function.shape(output);
            let all: Vec<usize> = (0..=last).collect();
            if map_of(self.solver, &layout.space, &all, shape)
                .is_some_and(|map| self.reads_own_rows(layout, &members, output, map))
            {
                continue;
            }
            let orders = orders(self.solver, &layout.space, shape);
            let Some(map) = orders.into_iter().find(|map| self.reads_own_rows(layout, &members, output, map.clone())) else {
                continue;
            };
            self.check_pieces(layout, &map)?;
            found.push((output, map));
        }
        Ok(found)
    }

    /// Returns true if a value is computed from a transpose that depends on a reduction.
    fn is_behind_transpose(&self, members: &HashSet<Inst>, value: Value) -> bool {
        let (mut stack, mut seen) = (vec![(value, false)], HashSet::new());
        while let Some((value, behind)) = stack.pop() {
            let inst = self.function.defining(value).filter(|&inst| self.is_inside(members, inst));
            let Some(inst) = inst.filter(|&inst| seen.insert((inst, behind))) else { continue };
            match self.function.kind_of(inst) {
                OpKind::Reduce if behind => return true,
                OpKind::Reduce => {}
                kind => {
                    let behind = behind || kind == OpKind::Transpose;
                    stack.extend(self.function.operands(inst).iter().map(|&operand| (operand, behind)));
                }
            }
        }
        false
    }

    /// Returns true if a value reads every reduction at its own row.
    fn reads_own_rows(&self, layout: &Layout, members: &HashSet<Inst>, value: Value, map: Map) -> bool {
        let (mut stack, mut seen) = (vec![(value, map)], HashSet::new());
        while let Some((value, map)) = stack.pop() {
            let inst = self.function.defining(value).filter(|&inst| self.is_inside(members, inst));
            let Some(inst) = inst.filter(|_| seen.insert((value, map.clone()))) else { continue };
            if self.function.kind_of(inst) != OpKind::Reduce {
                stack.extend(reads(self.function, self.solver, &layout.space, inst, &map).operands);
            } else if map_of(self.solver, &layout.space, &layout.kept, self.function.shape(value)) != Some(map) {
                return false;
            }
        }
        true
    }

    /// Rejects orders that cut rows into short pieces.
    fn check_pieces(&self, layout: &Layout, map: &Map) -> Result<(), Rejection> {
        let axes: Vec<usize> = super::space::axes_of(map).expect("an order follows axes");
        let apart = axes.windows(2).rposition(|pair| pair[0] + 1 != pair[1]).map_or(0, |place| axes[place + 1]);
        if layout.reduced.iter().all(|&axis| axis >= apart) {
            return Ok(());
        }
        let piece = Dim::product(layout.space[apart..].iter().cloned());
        match self.solver.range(&piece).lo {
            Some(least) if least >= LEAST_PIECE => Ok(()),
            _ => Err(Rejection::ShortPieces(piece)),
        }
    }
}

/// The orders of the axes of a space, the last one fixed, that have the sizes of a shape.
fn orders(solver: &Solver, space: &[Dim], shape: &[Dim]) -> Vec<Map> {
    let mut search = Search { solver, space, shape, map: Vec::new(), taken: vec![false; space.len()], found: Vec::new() };
    if let Some(first) = shape.first() {
        search.place(first, Vec::new());
    }
    search.found
}

struct Search<'a> {
    solver: &'a Solver,
    space: &'a [Dim],
    shape: &'a [Dim],
    map: Map,
    taken: Vec<bool>,
    found: Vec<Map>,
}

impl Search<'_> {
    /// Assigns axes to the rest (`left`) of the next dimension, which has these `axes` already, and
    /// to the dimensions after it.
    fn place(&mut self, left: &Dim, axes: Vec<usize>) {
        if self.solver.equal(left, &Dim::constant(1)) {
            return self.place_next(axes);
        }
        for axis in (0..self.space.len()).filter(|&axis| !self.taken[axis]).collect::<Vec<_>>() {
            // The last axis is assigned last.
            if axis + 1 == self.space.len() && self.taken[..axis].contains(&false) {
                continue;
            }
            let size = &self.space[axis];
            let rest = if self.solver.equal(left, size) { Some(Dim::constant(1)) } else { quotient(self.solver, left, size) };
            if let Some(rest) = rest {
                self.taken[axis] = true;
                self.place(&rest, [&axes[..], &[axis]].concat());
                self.taken[axis] = false;
            }
        }
    }

    fn place_next(&mut self, axes: Vec<usize>) {
        self.map.push(Follows::Axes(axes));
        match self.shape.get(self.map.len()).cloned() {
            Some(next) => self.place(&next, Vec::new()),
            None if self.taken.iter().all(|&taken| taken) => self.found.push(self.map.clone()),
            None => {}
        }
        self.map.pop();
    }
}
