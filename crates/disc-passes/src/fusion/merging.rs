//! Merges pointwise and reduction groups: along their dataflow, then side by side.
use super::{
    form::{Candidate, Rejection},
    grouping::Grouping,
    layout::Layout,
    legality::{Role, same_shape},
    line_buffers::never_fails,
};
use crate::analysis::query::Query;
use crate::pass::PassCx;
use disc_ir::{Dim, Inst, OpKind, Value, graph::PREPARE, ops::Trait};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Groups side by side are merged up to this many tensors: they save a launch, but stream more
/// tensors at once.
pub(super) const MOST_BESIDE: usize = 10;

/// The memory of a group that may be merged side by side.
pub(super) struct GroupMemory {
    /// The values that it reads and returns, under views.
    pub(super) tensors: HashSet<Value>,
    /// True if all that it reads is given.
    reads_given: bool,
    /// The ops that compute its inputs.
    makers: HashSet<usize>,
}

impl Grouping<'_> {
    /// Merges reductions with each other and with pointwise groups around them.
    pub(super) fn merge_reductions(&mut self, cx: &mut PassCx) {
        self.merge_edges(&mut || cx.spend_on("fuse-rows"), |a, b| {
            let fusible = |role| matches!(role, Role::Pointwise | Role::Reduction);
            fusible(a) && fusible(b) && (a == Role::Reduction || b == Role::Reduction)
        });
    }

    /// Merges scans with pointwise groups before and after them.
    pub(super) fn merge_scans(&mut self, cx: &mut PassCx) {
        self.merge_edges(&mut || cx.spend_on("fuse-scans"), |a, b| {
            matches!((a, b), (Role::Scan, Role::Pointwise) | (Role::Pointwise, Role::Scan))
        });
    }

    /// Takes conversions of a scan's result to a narrower type into its group, which then stores
    /// that type: a pointwise or reduction group after it would read the wide one from memory.
    pub(super) fn absorb_narrowings(&mut self, cx: &mut PassCx) {
        for i in 0..self.insts.len() {
            let &[user] = &self.users[i][..] else { continue };
            let is_scan = self.group(i).role == Role::Scan && self.group(user).role == Role::Pointwise;
            if !is_scan || self.group(user).insts.len() > 1 || !self.is_narrowing(self.insts[user]) {
                continue;
            }
            let (from, to) = (self.group_of[i], self.group_of[user]);
            if self.form_of(from, to).is_err() {
                continue;
            }
            if !cx.spend_on("fuse-narrowing") {
                return;
            }
            self.merge(from, to);
            self.groups[to].as_mut().expect("a live group").role = Role::Scan;
        }
    }

    fn is_narrowing(&self, inst: Inst) -> bool {
        let size = |value: Value| self.function.ty(value).dtype().size();
        self.function.kind_of(inst) == OpKind::Convert && size(self.function.result(inst)) < size(self.function.operands(inst)[0])
    }

    pub(super) fn merge_pointwise(&mut self, cx: &mut PassCx) {
        self.merge_edges(&mut || cx.spend_on("fuse-loops"), |a, b| a == Role::Pointwise && b == Role::Pointwise);
    }

    /// Merges along edges as long as something changes.
    fn merge_edges(&mut self, spend: &mut dyn FnMut() -> bool, wanted: impl Fn(Role, Role) -> bool) {
        let mut refused: HashMap<(usize, usize), (usize, usize)> = HashMap::new();
        let mut changed = true;
        while changed {
            changed = false;
            for i in 0..self.insts.len() {
                for user in self.flow_users[i].clone() {
                    let (from, to) = (self.group_of[i], self.group_of[user]);
                    let (a, b) = (self.group(i), self.group(user));
                    let (versions, is_scan) = ((a.version, b.version), a.role == Role::Scan || b.role == Role::Scan);
                    if from == to || !wanted(a.role, b.role) || refused.get(&(from, to)) == Some(&versions) {
                        continue;
                    }
                    if self.has_detour(from, to) {
                        continue;
                    }
                    match self.form_of(from, to) {
                        Ok(_) if !spend() => return,
                        Ok(form) => {
                            self.merge(from, to);
                            self.groups[to].as_mut().expect("a live group").role =
                                if is_scan { Role::Scan } else { role_of(&form) };
                            changed = true;
                        }
                        Err(_) => {
                            refused.insert((from, to), versions);
                        }
                    }
                }
            }
        }
    }

    /// The layout of two groups as one.
    fn form_of(&self, a: usize, b: usize) -> Result<Layout, Rejection> {
        let members = |group: usize| self.groups[group].as_ref().expect("a live group").insts.iter().copied();
        self.form_of_set(&members(a).chain(members(b)).collect())
    }

    /// The layout of a group with one more op.
    pub(super) fn form_with(&self, group: usize, i: usize) -> Result<Layout, Rejection> {
        let members = self.groups[group].as_ref().expect("a live group").insts.iter().copied();
        self.form_of_set(&members.chain([i]).collect())
    }

    /// The layout of a set of ops as a group.
    pub(super) fn form_of_set(&self, set: &BTreeSet<usize>) -> Result<Layout, Rejection> {
        let insts: Vec<Inst> = set.iter().map(|&i| self.insts[i]).collect();
        let outputs = self.outputs(set);
        let role = |inst: Inst| self.role_of.get(&inst).copied();
        Candidate { function: self.function, solver: self.solver, members: &insts, outputs: &outputs, role: &role }
            .form(self.model)
    }

    /// Merges three or more groups that depend on one another if they are one kernel although no
    /// pair is: each pair would have to return values that the third one needs.
    pub(super) fn merge_joined(&mut self, cx: &mut PassCx) {
        let mut seen: HashSet<usize> = HashSet::new();
        for group in 0..self.groups.len() {
            if !self.is_walked(group) || seen.contains(&group) {
                continue;
            }
            let joined = self.joined_with(group);
            seen.extend(&joined);
            let set: BTreeSet<usize> =
                joined.iter().filter_map(|&g| self.groups[g].as_ref()).flat_map(|m| m.insts.iter().copied()).collect();
            if joined.len() < 3 || joined.iter().any(|&from| joined.iter().any(|&to| self.leaves_and_returns(from, to, &joined)))
            {
                continue;
            }
            let Ok(form) = self.form_of_set(&set) else { continue };
            if !cx.spend_on("fuse-joined") {
                return;
            }
            let to = *joined.last().expect("there are three");
            joined.iter().filter(|&&from| from != to).for_each(|&from| self.merge(from, to));
            self.groups[to].as_mut().expect("a live group").role = role_of(&form);
        }
    }

    /// Returns true if a group is pointwise or a reduction.
    fn is_walked(&self, group: usize) -> bool {
        self.groups[group].as_ref().is_some_and(|members| matches!(members.role, Role::Pointwise | Role::Reduction))
    }

    /// The pointwise and reduction groups that are connected with a group by dataflow.
    fn joined_with(&self, group: usize) -> BTreeSet<usize> {
        let (mut found, mut stack) = (BTreeSet::new(), vec![group]);
        while let Some(group) = stack.pop() {
            if found.insert(group) {
                let members = &self.groups[group].as_ref().expect("a live group").insts;
                let sources = members.iter().flat_map(|&i| &self.real_sources[i]).map(|&source| self.group_of[source]);
                stack.extend(sources.chain(self.users_of_group(group)).filter(|&other| self.is_walked(other)));
            }
        }
        found
    }

    /// Returns true if a path leads from one group to another through groups outside of `set`.
    fn leaves_and_returns(&self, from: usize, to: usize, set: &BTreeSet<usize>) -> bool {
        let outside = |group: &usize| !set.contains(group);
        let mut stack: Vec<usize> = self.users_of_group(from).filter(outside).collect();
        let mut seen = HashSet::new();
        while let Some(group) = stack.pop() {
            if seen.insert(group) {
                if self.users_of_group(group).any(|next| next == to) {
                    return true;
                }
                stack.extend(self.users_of_group(group).filter(outside));
            }
        }
        false
    }

    /// Merges independent groups: reductions of one tensor, small pointwise groups of one shape,
    /// pointwise groups over the rows of a reduced tensor, and groups of one space of which one
    /// reads only stored tensors. In `@prepare`, which runs once, groups that read no common tensor
    /// stay apart: there the code of larger kernels costs more than the launches.
    pub(super) fn merge_beside(&mut self, cx: &mut PassCx) {
        let live = |g: &usize| self.groups[*g].as_ref().is_some_and(|m| matches!(m.role, Role::Pointwise | Role::Reduction));
        let live: Vec<usize> = (0..self.groups.len()).filter(live).collect();
        let runs_once = &*self.function.name == PREPARE;
        let mut memory: Vec<GroupMemory> = live.iter().map(|&group| self.memory(group)).collect();
        for first in 0..live.len() {
            for second in first + 1..live.len() {
                let (a, b) = (live[first], live[second]);
                let have_common = !memory[first].tensors.is_disjoint(&memory[second].tensors);
                if runs_once && !have_common {
                    continue;
                }
                if !self.are_beside(a, b, &memory[first], &memory[second]) || self.leads(a, b) || self.leads(b, a) {
                    continue;
                }
                if let Ok(form) = self.form_of(a, b)
                    && self.walks_as_rows(a, b, &form, have_common)
                    && cx.spend_on("fuse-beside")
                {
                    self.merge(a, b);
                    self.groups[b].as_mut().expect("a live group").role = role_of(&form);
                    memory[second] = self.memory(b);
                    break;
                }
            }
        }
    }

    /// Returns true if a reduction group keeps its rows when a pointwise group joins it: rows are
    /// contiguous (elements reduced side by side would be written in short pieces), and no walk is
    /// cut into shorter ones. Rows of tensors that they do not share must be contiguous too.
    fn walks_as_rows(&self, a: usize, b: usize, form: &Layout, have_common: bool) -> bool {
        let role = |group: usize| self.groups[group].as_ref().map(|members| members.role);
        let along = form.reduced.last().is_none_or(|&last| last + 1 == form.space.len());
        let rows = match (role(a), role(b)) {
            (Some(Role::Reduction), Some(Role::Pointwise)) => a,
            (Some(Role::Pointwise), Some(Role::Reduction)) => b,
            (Some(Role::Reduction), Some(Role::Reduction)) => return along || have_common,
            _ => return true,
        };
        along && self.form_of(rows, rows).is_ok_and(|own| form.reduced.len() <= own.reduced.len())
    }

    /// Returns true if two groups have few tensors and a common walk: one reduces a tensor of the
    /// other, or their outputs have one shape. Inputs of reductions are not kept in memory until
    /// the other group is ready, nor values that grow with the sizes until a later layer needs
    /// them.
    fn are_beside(&self, a: usize, b: usize, of_a: &GroupMemory, of_b: &GroupMemory) -> bool {
        // Nothing is kept in memory while a group waits for another one, if that one reads only
        // given tensors.
        let (x, y, may_wait) = (&of_a.tensors, &of_b.tensors, of_a.reads_given || of_b.reads_given);
        let (Some(first), Some(second)) = (&self.groups[a], &self.groups[b]) else { return false };
        if x.union(y).count() > MOST_BESIDE {
            return false;
        }
        match (first.role, second.role) {
            (Role::Reduction, Role::Reduction) => {
                may_wait || x.intersection(y).any(|&value| !self.is_kept(value)) || self.begin_together(of_a, of_b)
            }
            (Role::Pointwise, Role::Pointwise) => match (self.outputs(&first.insts).first(), self.outputs(&second.insts).first())
            {
                (Some(&p), Some(&q)) => {
                    let [shape, other] = [p, q].map(|value| self.function.shape(value));
                    let is_fixed = shape.iter().all(|dim| dim.as_const().is_some());
                    let waits = || self.is_needed_later(a, b) || self.is_needed_later(b, a);
                    same_shape(self.solver, shape, other) && (is_fixed || !waits())
                }
                _ => false,
            },
            (Role::Reduction, _) => self.is_beside_rows(b, a, x.intersection(y), may_wait),
            _ => self.is_beside_rows(a, b, x.intersection(y), may_wait),
        }
    }

    /// Returns true if two groups become ready after the same groups.
    fn begin_together(&self, of_a: &GroupMemory, of_b: &GroupMemory) -> bool {
        let makers =
            |memory: &GroupMemory| -> HashSet<usize> { memory.makers.iter().map(|&maker| self.group_of[maker]).collect() };
        makers(of_a) == makers(of_b)
    }

    /// Returns true if a value is in memory when a call begins.
    pub(super) fn is_given(&self, value: Value) -> bool {
        self.function.defining(value).is_none() || self.is_kept(value)
    }

    /// Returns true if a value is always in memory: a weight or a constant.
    fn is_kept(&self, value: Value) -> bool {
        let maker = self.function.defining(value);
        maker.is_some_and(|maker| matches!(self.function.kind_of(maker), OpKind::Weight | OpKind::Constant))
    }

    /// Returns true if a pointwise group may be computed along the rows of another one with which
    /// it shares these tensors.
    fn is_beside_rows<'v>(&self, of_loop: usize, rows: usize, common: impl Iterator<Item = &'v Value>, may_wait: bool) -> bool {
        let members = &self.groups[of_loop].as_ref().expect("a live group").insts;
        // Pointwise schedules can move data in ways that reduction schedules cannot.
        let is_stepwise = |inst: Inst| match self.function.kind_of(inst) {
            OpKind::Gather => !never_fails(self.function, inst),
            _ => self.function.def(inst).has(Trait::Elementwise),
        };
        members.iter().all(|&i| self.roles[i] != Role::Pointwise || is_stepwise(self.insts[i]))
            && self.takes_in_loops(rows, common, may_wait)
    }

    /// Returns true if a group's reductions may walk elements in any order, and a tensor that it
    /// shares with a pointwise group has as many elements as that, unless one of the two may
    /// `wait`. A possible middle of an attention stays.
    fn takes_in_loops<'v>(&self, group: usize, mut values: impl Iterator<Item = &'v Value>, wait: bool) -> bool {
        let members = &self.groups[group].as_ref().expect("a live group").insts;
        let is_product = |&i: &usize| self.group(i).role == Role::Matmul;
        let feeds = members.iter().any(|&i| self.flow_users[i].iter().any(is_product));
        let is_fed = members.iter().any(|&i| self.real_sources[i].iter().any(is_product));
        let mut reductions =
            members.iter().map(|&i| self.insts[i]).filter(|&inst| self.function.kind_of(inst) == OpKind::Reduce).peekable();
        let count = |value: Value| Dim::product(self.function.shape(value).iter().cloned());
        let Some(rows) = reductions.peek().map(|&inst| count(self.function.operands(inst)[0])) else { return false };
        let in_any_order = reductions.all(|inst| self.function.operands(inst).len() == 2);
        in_any_order && !(feeds && is_fed) && (wait || values.any(|&value| self.solver.equal(&rows, &count(value))))
    }

    /// The tensors that a group reads and returns.
    pub(super) fn memory(&self, group: usize) -> GroupMemory {
        let members = &self.groups[group].as_ref().expect("a live group").insts;
        let mut tensors: HashSet<Value> = self.outputs(members).into_iter().collect();
        let (mut reads_given, mut makers) = (true, HashSet::new());
        let mut stack: Vec<usize> = members.iter().copied().collect();
        while let Some(i) = stack.pop() {
            for &value in self.function.operands(self.insts[i]) {
                match self.function.defining(value).and_then(|source| self.position.get(&source)) {
                    Some(source) if members.contains(source) => {}
                    Some(&source) if matches!(self.roles[source], Role::Free | Role::View) => stack.push(source),
                    source => {
                        if !self.is_given(value) {
                            reads_given = false;
                            makers.extend(source);
                        }
                        tensors.insert(value);
                    }
                }
            }
        }
        GroupMemory { tensors, reads_given, makers }
    }

    /// Returns true if any path leads from one group to another.
    pub(super) fn leads(&self, from: usize, to: usize) -> bool {
        let (mut seen, mut stack) = (HashSet::new(), vec![from]);
        while let Some(group) = stack.pop() {
            for next in self.users_of_group(group).filter(|&next| next != group) {
                if next == to {
                    return true;
                }
                if seen.insert(next) {
                    stack.push(next);
                }
            }
        }
        false
    }
}

pub(super) fn role_of(layout: &Layout) -> Role {
    if layout.reduces { Role::Reduction } else { Role::Pointwise }
}
