//! Sinks cheap functions of a stored value into their user, so that they are not stored too.
//!
//! An op fuses with its operand first, so a group may return a value and a multiple of it to one
//! other group. The group that reads the value computes the multiple.
//!
//! Invariants:
//! - The group that takes the op already reads the operand, and the one that loses it stores
//!   nothing new. So no cycle arises: other operands of the op come from before its old group,
//!   which the new group depends on anyway.
//! - Only the op sinks: ops after it in its group would have to be stored.
use super::{
    grouping::Grouping,
    layout::Layout,
    legality::{Role, costly},
    merging::role_of,
};
use crate::pass::PassCx;
use disc_ir::{Value, ops::Trait};
use std::collections::BTreeSet;

/// The new group of an op, and the layouts of its old and new group.
struct Sink {
    to: usize,
    left: Layout,
    joined: Layout,
}

impl Grouping<'_> {
    /// Sinks cheap ops at the end of groups into the one group that needs them.
    pub(super) fn sink_cheap(&mut self, cx: &mut PassCx) {
        for i in (0..self.insts.len()).rev() {
            let Some(found) = self.sinks_to(i) else { continue };
            if !cx.spend_on("fuse-sinking") {
                return;
            }
            let from = self.group_of[i];
            let members = self.groups[from].as_mut().expect("a live group");
            members.insts.remove(&i);
            members.role = role_of(&found.left);
            let members = self.groups[found.to].as_mut().expect("a live group");
            members.insts.insert(i);
            members.role = role_of(&found.joined);
            self.group_of[i] = found.to;
        }
    }

    /// The only other group that needs a cheap op of a pointwise or reduction group, if it reads
    /// the op's operand.
    fn sinks_to(&self, i: usize) -> Option<Sink> {
        let (inst, from) = (self.insts[i], self.group_of[i]);
        let def = self.function.def(inst);
        let is_walked =
            |group: usize| self.groups[group].as_ref().is_some_and(|m| matches!(m.role, Role::Pointwise | Role::Reduction));
        let &[result] = self.function.results_of(inst) else { return None };
        let is_cheap = def.has(Trait::Elementwise) && !def.has(Trait::MayFail) && !costly(self.function.kind_of(inst));
        if self.roles[i] != Role::Pointwise || !is_cheap || !is_walked(from) || self.escapes.contains(&result) {
            return None;
        }
        let readers: BTreeSet<usize> = self.users_of(result).map(|user| self.group_of[user]).collect();
        let to = *readers.first().filter(|_| readers.len() == 1)?;
        if to == from || !is_walked(to) {
            return None;
        }
        let members = &self.groups[from].as_ref()?.insts;
        let others: BTreeSet<usize> = members.iter().copied().filter(|&other| other != i).collect();
        let stored = self.outputs(members);
        let is_read = |operand: Value| self.users_of(operand).any(|user| self.group_of[user] == to);
        let is_free = |operand: Value| {
            let source = self.function.defining(operand).and_then(|source| self.position.get(&source));
            source.is_some_and(|&source| self.roles[source] == Role::Free)
        };
        let operands = self.function.operands(inst);
        let reads = operands.iter().all(|&operand| is_free(operand) || stored.contains(&operand) && is_read(operand));
        let reads_stored = operands.iter().any(|operand| stored.contains(operand));
        if !reads || !reads_stored || !self.outputs(&others).iter().all(|value| stored.contains(value)) {
            return None;
        }
        Some(Sink { to, left: self.form_of_set(&others).ok()?, joined: self.form_with(to, i).ok()? })
    }
}
