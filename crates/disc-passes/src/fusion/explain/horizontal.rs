//! Explains why two independent groups that read one tensor are not fused.
use super::{Explainer, Reason, kind, members};
use crate::{
    analysis::query::Query,
    fusion::{layout::Layout, legality::leaves_position, merging::MOST_BESIDE, pairing},
};
use disc_ir::{Function, FusionKind, Inst, OpKind, Value};
use std::collections::{HashMap, HashSet};

/// Two groups that read one tensor and do not depend on each other.
#[derive(Clone, Debug)]
pub struct HorizontalPair {
    /// Numbers of groups.
    pub groups: [usize; 2],
    /// The tensor that both read.
    pub value: String,
    pub reason: Reason,
}

impl Explainer<'_> {
    /// Adds the groups of the block that share a tensor with group `number`, which needs the groups
    /// `needed`.
    pub(super) fn horizontal_pairs_of(
        &mut self,
        number: usize,
        inst: Inst,
        groups: &HashMap<usize, Inst>,
        needed: &HashSet<usize>,
    ) {
        let read = tensors(self.function, inst);
        let mut others: Vec<(usize, Inst)> = groups.iter().map(|(&other, &inst)| (other, inst)).collect();
        others.sort_unstable();
        for (other, sibling) in others.into_iter().filter(|(other, _)| *other != number && !needed.contains(other)) {
            let shared = tensors(self.function, sibling).into_iter().find(|value| read.contains(value));
            if let Some(value) = shared {
                let (value, reason) = (self.name(value), self.beside(sibling, inst));
                self.plan.siblings.push(HorizontalPair { groups: [other, number], value, reason });
            }
        }
    }

    fn beside(&self, first: Inst, second: Inst) -> Reason {
        let kinds = [first, second].map(|group| kind(self.function, group));
        let is_product = |kind: FusionKind| matches!(kind, FusionKind::Matmul | FusionKind::Attention);
        match kinds {
            _ if [first, second].iter().all(|&group| self.is_walked(group)) => self.not_beside(first, second),
            [a, b] if is_product(a) && is_product(b) => {
                Reason::Schedule("products are one kernel where they read the same rows, and weights of one form".into())
            }
            _ => self.reason(first, second),
        }
    }

    /// The obstacle to computing two groups of pointwise ops and reductions side by side.
    fn not_beside(&self, first: Inst, second: Inst) -> Reason {
        let together = match pairing::form(self.function, (&self.solver, self.model), first, second) {
            Err(why) => return self.because(why, first, second),
            Ok(layout) => layout,
        };
        let count = tensors_of(self.function, first).union(&tensors_of(self.function, second)).count();
        if count > MOST_BESIDE {
            return Reason::Cost(format!("{count} tensors are more than one kernel reads and writes for the sake of a launch"));
        }
        if let Some(group) = self.beside_rows(first, second) {
            if !is_along(&together) {
                return Reason::Cost("what is beside sums of columns would be written in short pieces".into());
            }
            if !members(self.function, group).iter().all(|&inst| leaves_position(self.function, &self.solver, inst)) {
                return Reason::Cost("what is moved has ways to be walked that rows have not".into());
            }
        }
        if self.only_repeats(first) || self.only_repeats(second) {
            return Reason::Cost("what only repeats elements is written by itself".into());
        }
        Reason::Cost("they could be one, but their gain is a launch, and each was joined with others first".into())
    }

    /// The pointwise one of two groups, if the other one has reductions.
    fn beside_rows(&self, first: Inst, second: Inst) -> Option<Inst> {
        match [first, second].map(|group| kind(self.function, group)) {
            [FusionKind::Pointwise, FusionKind::Reduction] => Some(first),
            [FusionKind::Reduction, FusionKind::Pointwise] => Some(second),
            _ => None,
        }
    }
}

/// Returns true if the innermost axis is reduced.
fn is_along(layout: &Layout) -> bool {
    layout.reduced.last().is_none_or(|&last| last + 1 == layout.space.len())
}

/// The tensors in memory that a group reads, under views; neither weights nor scalars.
fn tensors(function: &Function, group: Inst) -> Vec<Value> {
    let roots = function.operands(group).iter().map(|&operand| memory(function, operand));
    roots.filter(|&value| !function.shape(value).is_empty() && function.made_by(value, OpKind::Weight).is_none()).collect()
}

/// The tensors that a group reads and writes.
fn tensors_of(function: &Function, group: Inst) -> HashSet<Value> {
    let read = function.operands(group).iter().map(|&operand| memory(function, operand));
    read.chain(function.results_of(group).iter().copied()).collect()
}

/// The value under views.
fn memory(function: &Function, value: Value) -> Value {
    match function.made_by(value, OpKind::Reshape) {
        Some(view) => memory(function, function.operands(view)[0]),
        None => value,
    }
}
