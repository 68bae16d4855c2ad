//! Rejects fusions that would keep several matmul results live at once only to move or select
//! elements.
//!
//! One kernel could compute them, but apart, each matmul is consumed right away, and the next one
//! reuses its memory.
//!
//! Invariant: the decision depends on the set of ops and their operands, not on the order of
//! merging.
use super::form::Candidate;
use crate::analysis::query::Query;
use disc_ir::{Dim, Function, Inst, OpKind, Value, ops::Trait};
use std::collections::HashSet;

impl Candidate<'_> {
    /// Returns true if matmuls would wait for one another: one updates a tensor that another one
    /// has just updated, or elements of one are selected together with those of another one.
    pub(super) fn keeps_products_live(&self) -> bool {
        let operand = |inst: Inst, number: usize| self.function.operands(inst)[number];
        let is_product = |value: Value| depends_on_product(self.function, value);
        let is_update = |inst: &Inst| self.function.kind_of(*inst) == OpKind::DynamicUpdateSlice && is_product(operand(*inst, 1));
        let before = |inst: Inst| self.function.defining(operand(inst, 0)).filter(|before| self.members.contains(before));
        if self.members.iter().filter(|inst| is_update(inst)).any(|&inst| before(inst).as_ref().is_some_and(is_update)) {
            return true;
        }
        if !self.members.iter().any(|&inst| self.picks_of_product(inst)) {
            return false;
        }
        let (mut stack, mut seen, mut picked) = (self.members.to_vec(), HashSet::new(), HashSet::new());
        while let Some(inst) = stack.pop() {
            let is_moved = matches!(self.function.kind_of(inst), OpKind::Reshape | OpKind::Transpose);
            if !seen.insert(inst) {
                continue;
            }
            if self.picks_of_product(inst) {
                picked.insert(operand(inst, 0));
            } else if is_moved || self.function.def(inst).has(Trait::Elementwise) {
                stack.extend(self.function.operands(inst).iter().filter_map(|&value| self.function.defining(value)));
            }
        }
        picked.len() > 1
    }

    /// Returns true if an op selects elements of a matmul, at most as many as it has.
    fn picks_of_product(&self, inst: Inst) -> bool {
        let shape = |value: Value| self.function.shape(value);
        let fits = |(picked, product): (&[Dim], &[Dim])| {
            picked.len() == product.len() && picked.iter().zip(product).all(|(a, b)| self.solver.less_equal(a, b))
        };
        self.function.kind_of(inst) == OpKind::Gather
            && depends_on_product(self.function, self.function.operands(inst)[0])
            && fits((shape(self.function.result(inst)), shape(self.function.operands(inst)[0])))
    }
}

/// Returns true if a value is elementwise computed from matmuls.
fn depends_on_product(function: &Function, value: Value) -> bool {
    let (mut stack, mut seen) = (vec![value], HashSet::new());
    while let Some(value) = stack.pop() {
        let Some(inst) = function.defining(value).filter(|&inst| seen.insert(inst)) else { continue };
        match function.kind_of(inst) {
            OpKind::DotGeneral | OpKind::Convolution => return true,
            OpKind::Reshape => stack.extend(function.operands(inst)),
            _ if function.def(inst).has(Trait::Elementwise) => stack.extend(function.operands(inst)),
            _ => {}
        }
    }
    false
}
