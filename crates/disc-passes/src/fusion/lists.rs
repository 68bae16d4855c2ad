//! Merges pointwise groups over many tensors of fixed sizes, as an optimizer has one for each
//! parameter: one launch computes tensors of several shapes, one after another
//! ([`super::families`]).
//!
//! Groups of equal ops and shapes are merged among themselves, if they are many: models repeat
//! their layers, and equal lists have one kernel.
//!
//! Invariants:
//! - Groups that are merged are equally deep: the longest paths that lead to them have as many
//!   groups. So none leads to another, and merges form no cycle, in any number.
//! - No memory is kept for longer: such a group reads what is given or a few elements, and its
//!   results are returned or a few elements.
use super::{grouping::Grouping, legality::Role};
use crate::pass::PassCx;
use disc_ir::{Function, Value, ops::Trait};
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
};

/// The fewest groups that are a list.
const FEWEST: usize = 4;

/// The most tensors that a launch reads and writes.
const MOST_TENSORS: usize = 192;

/// Equal groups from which they are merged among themselves.
const MANY: usize = 8;

/// The elements of a tensor that may be kept until a list is complete.
const FEW_ELEMENTS: i64 = 64;

/// A group that may be one of a list.
struct Listed {
    group: usize,
    tensors: usize,
}

impl Grouping<'_> {
    /// Merges pointwise groups over tensors of lists.
    pub(super) fn merge_lists(&mut self, cx: &mut PassCx) {
        if !self.model.walks_lists() {
            return;
        }
        let depths = self.depths();
        let mut lists: BTreeMap<(usize, bool), BTreeMap<String, Vec<Listed>>> = BTreeMap::new();
        for group in 0..self.groups.len() {
            let Some((form, listed, is_few)) = self.listed(group) else { continue };
            lists.entry((depths[&group], is_few)).or_default().entry(form).or_default().push(listed);
        }
        for (_, forms) in lists {
            if forms.values().map(Vec::len).sum::<usize>() < FEWEST {
                continue;
            }
            let (many, few): (Vec<_>, Vec<_>) = forms.into_values().partition(|alike| alike.len() >= MANY);
            let mut others: Vec<Listed> = few.into_iter().flatten().collect();
            others.sort_by_key(|listed| listed.group);
            for list in many.into_iter().chain([others]) {
                for launch in launches(list) {
                    for pair in launch.windows(2) {
                        if !cx.spend_on("fuse-lists") {
                            return;
                        }
                        self.merge(pair[0], pair[1]);
                    }
                }
            }
        }
    }

    /// The form of a group that may be one of a list, and true if all of its results have few
    /// elements.
    fn listed(&self, group: usize) -> Option<(String, Listed, bool)> {
        let members = self.groups[group].as_ref().filter(|members| members.role == Role::Pointwise)?;
        let function = self.function;
        let mut form = String::new();
        for &i in &members.insts {
            let inst = self.insts[i];
            let is_stepwise = function.def(inst).has(Trait::Elementwise) && !function.def(inst).has(Trait::MayFail);
            if self.roles[i] == Role::Pointwise && !is_stepwise {
                return None;
            }
            for &result in function.results_of(inst) {
                let _ = write!(form, "{} {};", function.kind_of(inst).name(), function.ty(result));
            }
        }
        let few = |value: Value| fixed_elements(function, value).is_some_and(|count| count <= FEW_ELEMENTS);
        let outputs = self.outputs(&members.insts);
        let memory = self.memory(group);
        let is_kept = |&value: &Value| fixed_elements(function, value).is_some() && (self.escapes.contains(&value) || few(value));
        let is_given = |&&value: &&Value| !outputs.contains(&value) && !self.is_given(value);
        let reads_few = memory.tensors.iter().filter(is_given).all(|&value| few(value));
        let are_few = outputs.iter().all(|&value| few(value));
        let listed = Listed { group, tensors: memory.tensors.len() };
        (!outputs.is_empty() && outputs.iter().all(is_kept) && reads_few).then_some((form, listed, are_few))
    }

    /// The number of groups on the longest path that leads to each group.
    fn depths(&self) -> HashMap<usize, usize> {
        let live: Vec<usize> = (0..self.groups.len()).filter(|&group| self.groups[group].is_some()).collect();
        let readers = |group: usize| {
            let mut readers: Vec<usize> = self.users_of_group(group).filter(|&reader| reader != group).collect();
            readers.sort_unstable();
            readers.dedup();
            readers
        };
        let mut waits: HashMap<usize, usize> = live.iter().map(|&group| (group, 0)).collect();
        live.iter().flat_map(|&group| readers(group)).for_each(|reader| *waits.get_mut(&reader).expect("a live group") += 1);
        let mut depths: HashMap<usize, usize> = live.iter().map(|&group| (group, 0)).collect();
        let mut ready: Vec<usize> = live.into_iter().filter(|group| waits[group] == 0).collect();
        while let Some(group) = ready.pop() {
            let behind = depths[&group] + 1;
            for reader in readers(group) {
                let depth = depths.get_mut(&reader).expect("a live group");
                *depth = behind.max(*depth);
                let left = waits.get_mut(&reader).expect("a live group");
                *left -= 1;
                if *left == 0 {
                    ready.push(reader);
                }
            }
        }
        depths
    }
}

/// Returns the elements of a tensor of fixed sizes.
fn fixed_elements(function: &Function, value: Value) -> Option<i64> {
    function.ty(value).shaped()?.element_count().as_const()
}

/// Divides a list into launches: as few as can be, of about as many tensors each.
fn launches(list: Vec<Listed>) -> Vec<Vec<usize>> {
    let all: usize = list.iter().map(|listed| listed.tensors).sum();
    let share = all.div_ceil(all.div_ceil(MOST_TENSORS).max(1));
    let mut found: Vec<Vec<usize>> = Vec::new();
    let mut taken = 0;
    for listed in list {
        let number = taken / share.max(1);
        taken += listed.tensors;
        if found.len() <= number {
            found.push(Vec::new());
        }
        found.last_mut().expect("a launch").push(listed.group);
    }
    found
}
