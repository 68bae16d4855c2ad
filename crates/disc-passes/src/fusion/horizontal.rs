//! Fuses matmuls that multiply the same rows with several weights horizontally, as query, key and
//! value of attention.
//!
//! Each matmul keeps its weights, its epilogue and its outputs; they share a launch, and thus the
//! rows in cache.
//!
//! Invariants:
//! - No matmul of such a group depends on another one of it.
//! - No result of such a group is needed only after a later matmul with weights that depends on an
//!   earlier result of the group: otherwise the keys and values that all layers of a decoder
//!   compute from one memory would be live at once.
use super::{grouping::Grouping, legality::Role};
use crate::{analysis::query::Query, pass::PassCx};
use disc_ir::{Attr, Value};
use std::collections::{HashMap, HashSet};

impl Grouping<'_> {
    /// Merges groups of matmuls that read the same rows and panels of weights.
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
            members.iter().any(|&i| self.function.attr(self.insts[i], "packed_columns").is_some())
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

    /// The rows, and all attributes except the number of columns: these must be equal.
    fn rows_and_form(&self, i: usize) -> Option<(Value, String)> {
        let inst = self.insts[i];
        if self.roles[i] != Role::Matmul {
            return None;
        }
        let Some(Attr::Dim(_)) = self.function.attr(inst, "packed_columns") else { return None };
        let [rows, panels] = self.function.operands(inst)[..] else { return None };
        let columns = self.function.def(inst).attr_position("packed_columns");
        let attrs = self.function.inst(inst).attrs.iter().enumerate().filter(|(position, _)| Some(*position) != columns);
        let types = [panels, self.function.result(inst)].map(|value| self.function.ty(value).dtype());
        Some((rows, format!("{types:?} {:?}", attrs.collect::<Vec<_>>())))
    }
}
