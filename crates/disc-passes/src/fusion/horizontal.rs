//! Fuses matmuls that multiply the same rows with several weights horizontally, as query, key and
//! value of attention.
//!
//! Each matmul keeps its weights, its epilogue and its outputs; they share a launch, and thus the
//! rows in cache. Where weights are packed into panels, these have to be alike. Where they are read
//! as they are stored, the target's launches have to suit several matmuls.
//!
//! Invariants:
//! - No matmul of such a group depends on another one of it.
//! - No result of such a group is needed only after a later matmul with weights that depends on an
//!   earlier result of the group: otherwise the keys and values that all layers of a decoder
//!   compute from one memory would be live at once.
use super::{grouping::Grouping, legality::Role};
use crate::{analysis::query::Query, pass::PassCx};
use disc_ir::{Attr, OpKind, Value};
use std::collections::{HashMap, HashSet};

impl Grouping<'_> {
    /// Merges groups of matmuls that read the same rows and weights of one form.
    pub(super) fn merge_horizontally(&mut self, cx: &mut PassCx) {
        let mut first_of: HashMap<(Value, String), Vec<usize>> = HashMap::new();
        for i in 0..self.insts.len() {
            let Some(key) = self.rows_and_form(i) else { continue };
            let known = first_of.entry(key).or_default();
            let to = self.group_of[i];
            let free =
                |&from: &usize| from != to && !self.leads(from, to) && !self.leads(to, from) && !self.is_needed_later(from, to);
            let Some(from) = known.iter().map(|&other| self.group_of[other]).find(free) else {
                known.push(i);
                continue;
            };
            if !cx.spend_on("fuse-siblings") {
                return;
            }
            self.merge(from, to);
        }
    }

    /// Returns true if the users of a group's results, up to the next matmul with weights, also
    /// need a matmul with weights that depends on the group `first`.
    pub(super) fn is_needed_later(&self, first: usize, group: usize) -> bool {
        let readers = self.reached(group, |behind| !behind);
        self.reached(first, |_| true).iter().any(|&(reader, behind)| behind && readers.contains(&(reader, false)))
    }

    /// The groups that depend on a group, each with true if a matmul with weights is on the way;
    /// `goes_on` says from that whether to follow the path further.
    fn reached(&self, first: usize, goes_on: impl Fn(bool) -> bool) -> HashSet<(usize, bool)> {
        let multiplies = |group: usize| {
            let members = &self.groups[group].as_ref().expect("a live group").insts;
            members.iter().any(|&i| self.form_of_weights(i).is_some() || self.reads_matrix(i))
        };
        let (mut seen, mut stack) = (HashSet::new(), vec![(first, false)]);
        while let Some((from, behind)) = stack.pop() {
            for next in self.users_of_group(from).filter(|&next| next != from) {
                let goes_behind = behind || multiplies(next);
                if seen.insert((next, behind)) && goes_on(goes_behind) {
                    stack.push((next, goes_behind));
                }
            }
        }
        seen
    }

    /// Returns true if an op multiplies by a stored matrix of fixed sizes, as weights are that come
    /// with each call.
    fn reads_matrix(&self, i: usize) -> bool {
        let function = self.function;
        let is_matrix = |&value: &Value| {
            let shape = function.shape(value);
            shape.len() == 2 && shape.iter().all(|dim| dim.as_const().is_some()) && self.is_stored(value)
        };
        self.roles[i] == Role::Matmul && function.operands(self.insts[i]).iter().any(is_matrix)
    }

    /// The rows, and the form that the matmuls of a group have in common.
    fn rows_and_form(&self, i: usize) -> Option<(Value, String)> {
        let form = self.form_of_weights(i)?;
        Some((self.function.operands(self.insts[i])[0], form))
    }

    /// The types, and all attributes but those that a matmul has for itself: the number of columns
    /// of panels, and the axis that is summed of stored weights. `None` if it is no matmul whose
    /// weights may be read beside others.
    fn form_of_weights(&self, i: usize) -> Option<String> {
        let (function, inst) = (self.function, self.insts[i]);
        if self.roles[i] != Role::Matmul {
            return None;
        }
        let [_, weights] = function.operands(inst)[..] else { return None };
        let is_packed = matches!(function.attr(inst, "packed_columns"), Some(Attr::Dim(_)));
        let own = if is_packed { "packed_columns" } else { "rhs_contracting_dims" };
        if !(is_packed || self.model.joins_matmuls() && self.is_stored(weights)) {
            return None;
        }
        let own = function.def(inst).attr_position(own);
        let attrs = function.inst(inst).attrs.iter().enumerate().filter(|(position, _)| Some(*position) != own);
        let types = [weights, function.result(inst)].map(|value| function.ty(value).dtype());
        Some(format!("{types:?} {:?}", attrs.collect::<Vec<_>>()))
    }

    /// Returns true if a value is a weight or an input of the function, also in another type or
    /// order: its memory is there however late it is read.
    fn is_stored(&self, value: Value) -> bool {
        let function = self.function;
        match function.defining(value).map(|inst| (function.kind_of(inst), inst)) {
            None => function.parameters().contains(&value),
            Some((OpKind::Weight, _)) => true,
            Some((OpKind::Reshape | OpKind::Transpose | OpKind::Convert, inst)) => self.is_stored(function.operands(inst)[0]),
            Some(_) => false,
        }
    }
}
