//! Holds groups while they grow: the group of each op, the flow between groups, and the checks that
//! keep them free of cycles.
use super::{
    binders::Binders,
    legality::{Role, roles},
};
use crate::analysis::cost_model::CostModel;
use disc_ir::{Block, Function, FusionKind, Inst, OpKind, Solver, Value, ops::Trait};
use std::collections::{BTreeSet, HashMap, HashSet};

/// A finished group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) kind: FusionKind,
    /// The members in the order of the block; copies of free ops are added when the group is
    /// written.
    pub(super) insts: Vec<Inst>,
}

/// The members of a growing group.
#[derive(Clone, Debug)]
pub(super) struct Members {
    pub(super) role: Role,
    pub(super) insts: BTreeSet<usize>,
    /// A counter of changes, so that a rejected pair is not tried again.
    pub(super) version: usize,
}

pub(super) struct Grouping<'f> {
    pub(super) function: &'f Function,
    pub(super) solver: &'f Solver,
    pub(super) model: &'f dyn CostModel,
    pub(super) insts: Vec<Inst>,
    pub(super) position: HashMap<Inst, usize>,
    pub(super) roles: Vec<Role>,
    pub(super) role_of: HashMap<Inst, Role>,
    /// For each op, the ops whose results it needs, and the ops that need its results.
    pub(super) sources: Vec<Vec<usize>>,
    pub(super) users: Vec<Vec<usize>>,
    /// The same, with free ops looked through.
    pub(super) real_sources: Vec<Vec<usize>>,
    /// The users, with free ops and views looked through.
    pub(super) flow_users: Vec<Vec<usize>>,
    /// The same by value.
    value_users: HashMap<Value, Vec<usize>>,
    /// Values that an op without a group needs: a terminator, control flow, a region.
    pub(super) escapes: HashSet<Value>,
    pub(super) group_of: Vec<usize>,
    pub(super) groups: Vec<Option<Members>>,
}

impl<'f> Grouping<'f> {
    pub(super) fn new(function: &'f Function, block: Block, solver: &'f Solver, model: &'f dyn CostModel) -> Self {
        let insts = function.insts(block).to_vec();
        let role_of = roles(function, solver, block);
        let roles: Vec<Role> = insts.iter().map(|i| role_of[i]).collect();
        let position: HashMap<Inst, usize> = insts.iter().enumerate().map(|(i, &inst)| (inst, i)).collect();
        let count = insts.len();
        let mut grouping = Self {
            function,
            solver,
            model,
            sources: vec![Vec::new(); count],
            users: vec![Vec::new(); count],
            real_sources: Vec::new(),
            flow_users: Vec::new(),
            value_users: HashMap::new(),
            escapes: HashSet::new(),
            group_of: (0..count).collect(),
            groups: Vec::new(),
            insts,
            position,
            roles,
            role_of,
        };
        let binders = Binders::of_block(function, block);
        for i in 0..count {
            grouping.connect(i, &binders);
        }
        let is_free = |role| role == Role::Free;
        let is_passed = |role| matches!(role, Role::Free | Role::View);
        grouping.real_sources = look_through(&grouping.sources, &grouping.roles, is_free);
        grouping.flow_users = look_through(&grouping.users, &grouping.roles, is_passed);
        for i in (0..count).rev() {
            grouping.trace_uses(i);
        }
        grouping
    }

    fn connect(&mut self, i: usize, binders: &Binders) {
        let (function, inst) = (self.function, self.insts[i]);
        let mut uses: Vec<Value> = function.operands(inst).to_vec();
        for &region in &function.inst(inst).regions {
            uses.extend(function.walk(region).into_iter().flat_map(|inner| function.operands(inner).to_vec()));
        }
        if self.roles[i] == Role::Outside {
            self.escapes.extend(uses.iter().copied());
        }
        let found = uses.iter().filter_map(|&v| function.defining(v)).chain(binders.of(function, inst));
        let sources: BTreeSet<usize> = found.filter_map(|d| self.position.get(&d).copied()).collect();
        for &source in &sources {
            self.users[source].push(i);
        }
        uses.sort_unstable();
        uses.dedup();
        for value in uses {
            self.value_users.entry(value).or_default().push(i);
        }
        self.sources[i] = sources.into_iter().collect();
        self.groups.push(Some(Members { role: self.roles[i], insts: BTreeSet::from([i]), version: 0 }));
    }

    /// Collects users of the results of op `i`, also through free users and views, and the values
    /// that escape.
    fn trace_uses(&mut self, i: usize) {
        for &value in self.function.results_of(self.insts[i]) {
            let mut found = BTreeSet::new();
            for user in self.value_users.remove(&value).unwrap_or_default() {
                if !matches!(self.roles[user], Role::Free | Role::View) {
                    found.insert(user);
                    continue;
                }
                for through in self.function.results_of(self.insts[user]) {
                    found.extend(self.value_users.get(through).into_iter().flatten());
                    if self.escapes.contains(through) {
                        self.escapes.insert(value);
                    }
                }
            }
            self.value_users.insert(value, found.into_iter().collect());
        }
    }

    pub(super) fn group(&self, i: usize) -> &Members {
        self.groups[self.group_of[i]].as_ref().expect("a group lives as long as it has members")
    }

    /// The values of a set of ops that others need. Ops that may fail are needed even if nothing
    /// uses them.
    pub(super) fn outputs(&self, set: &BTreeSet<usize>) -> Vec<Value> {
        let mut found = Vec::new();
        for &i in set {
            let may_fail = self.function.def(self.insts[i]).has(Trait::MayFail);
            for value in self.function.results_of(self.insts[i]) {
                let users = &self.value_users[value];
                let leaves = users.iter().any(|u| !set.contains(u)) || self.escapes.contains(value);
                if leaves || may_fail && users.is_empty() {
                    found.push(*value);
                }
            }
        }
        found
    }

    /// The ops that need a value, also through free ops and views.
    pub(super) fn users_of(&self, value: Value) -> impl Iterator<Item = usize> {
        self.value_users.get(&value).into_iter().flatten().copied()
    }

    /// Returns true if an op outside of both groups is on a path from group `from` to group `to`.
    pub(super) fn has_detour(&self, from: usize, to: usize) -> bool {
        let mut seen = HashSet::from([from]);
        let mut stack: Vec<usize> = self.users_of_group(from).filter(|&group| group != to).collect();
        while let Some(group) = stack.pop() {
            if !seen.insert(group) {
                continue;
            }
            for next in self.users_of_group(group) {
                if next == to {
                    return true;
                }
                stack.push(next);
            }
        }
        false
    }

    /// The groups that use results of a group.
    pub(super) fn users_of_group(&self, group: usize) -> impl Iterator<Item = usize> {
        let members = &self.groups[group].as_ref().expect("a live group").insts;
        members.iter().flat_map(|&i| &self.flow_users[i]).map(|&user| self.group_of[user])
    }

    pub(super) fn merge(&mut self, from: usize, to: usize) {
        let moved = self.groups[from].take().expect("a live group");
        for &i in &moved.insts {
            self.group_of[i] = to;
        }
        let group = self.groups[to].as_mut().expect("a live group");
        group.insts.extend(moved.insts);
        group.version += moved.version + 1;
    }

    /// The groups, each in the order of the block.
    pub(super) fn finish(self) -> Vec<Group> {
        let mut found = Vec::new();
        for members in self.groups.into_iter().flatten() {
            let kind = match members.role {
                Role::Pointwise => FusionKind::Pointwise,
                Role::Reduction => FusionKind::Reduction,
                Role::Matmul => FusionKind::Matmul,
                Role::Window if members.insts.iter().any(|&i| self.function.kind_of(self.insts[i]) == OpKind::Convolution) => {
                    FusionKind::Convolution
                }
                Role::Window => FusionKind::Pooling,
                Role::Scan | Role::Standalone => FusionKind::Standalone,
                Role::Free | Role::View | Role::Outside => continue,
            };
            found.push(Group { kind, insts: members.insts.iter().map(|&i| self.insts[i]).collect() });
        }
        found
    }
}

/// Follows the edges of each op through ops whose role `passes`.
fn look_through(edges: &[Vec<usize>], roles: &[Role], passes: impl Fn(Role) -> bool) -> Vec<Vec<usize>> {
    let through = |start: &Vec<usize>| {
        let (mut found, mut stack) = (BTreeSet::new(), start.clone());
        while let Some(next) = stack.pop() {
            if passes(roles[next]) {
                stack.extend(&edges[next]);
            } else {
                found.insert(next);
            }
        }
        found.into_iter().collect()
    };
    edges.iter().map(through).collect()
}
