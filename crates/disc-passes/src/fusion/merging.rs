//! Joining groups of loops and reductions: along what flows between them, then beside one another.
use super::{
    form::{Candidate, Layout, Why},
    grouping::Grouping,
    legality::{Role, same_shape},
};
use crate::pass::PassCx;
use crate::query::Query;
use disc_ir::{Dim, Inst, OpKind, Value, ops::Trait};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Groups beside one another are joined up to this many tensors: their gain is a launch, their price more streams at once.
pub(super) const MOST_BESIDE: usize = 10;

impl Grouping<'_> {
    /// Merges reductions with each other and with loops around them.
    pub(super) fn merge_rows(&mut self, cx: &mut PassCx) {
        self.merge_edges(&mut || cx.spend_on("fuse-rows"), |a, b| {
            let fusible = |role| matches!(role, Role::Loop | Role::Row);
            fusible(a) && fusible(b) && (a == Role::Row || b == Role::Row)
        });
    }

    /// Merges scans with loops in front of them and behind.
    pub(super) fn merge_scans(&mut self, cx: &mut PassCx) {
        self.merge_edges(&mut || cx.spend_on("fuse-scans"), |a, b| {
            matches!((a, b), (Role::Scan, Role::Loop) | (Role::Loop, Role::Scan))
        });
    }

    pub(super) fn merge_loops(&mut self, cx: &mut PassCx) {
        self.merge_edges(&mut || cx.spend_on("fuse-loops"), |a, b| a == Role::Loop && b == Role::Loop);
    }

    /// Merges along edges, as long as something changes.
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

    /// The form of two groups as one.
    fn form_of(&self, a: usize, b: usize) -> Result<Layout, Why> {
        let members = |group: usize| self.groups[group].as_ref().expect("a live group").insts.iter().copied();
        self.form_of_set(&members(a).chain(members(b)).collect())
    }

    /// The form of a group with one more op.
    pub(super) fn form_with(&self, group: usize, i: usize) -> Result<Layout, Why> {
        let members = self.groups[group].as_ref().expect("a live group").insts.iter().copied();
        self.form_of_set(&members.chain([i]).collect())
    }

    /// The form of a set of ops as a group.
    pub(super) fn form_of_set(&self, set: &BTreeSet<usize>) -> Result<Layout, Why> {
        let insts: Vec<Inst> = set.iter().map(|&i| self.insts[i]).collect();
        let outputs = self.outputs(set);
        let role = |inst: Inst| self.role_of.get(&inst).copied();
        Candidate { function: self.function, solver: self.solver, members: &insts, outputs: &outputs, role: &role }.form()
    }

    /// Merges groups that nothing flows between: reductions of one tensor, small loops of one shape, and loops over the rows of a tensor that
    /// is reduced.
    pub(super) fn merge_beside(&mut self, cx: &mut PassCx) {
        let live = |g: &usize| self.groups[*g].as_ref().is_some_and(|m| matches!(m.role, Role::Loop | Role::Row));
        let live: Vec<usize> = (0..self.groups.len()).filter(live).collect();
        let mut tensors: Vec<HashSet<Value>> = live.iter().map(|&group| self.tensors(group)).collect();
        for first in 0..live.len() {
            for second in first + 1..live.len() {
                let (a, b) = (live[first], live[second]);
                if !self.are_beside(a, b, &tensors[first], &tensors[second]) || self.leads(a, b) || self.leads(b, a) {
                    continue;
                }
                if let Ok(form) = self.form_of(a, b)
                    && self.walks_as_rows(a, b, &form)
                    && cx.spend_on("fuse-beside")
                {
                    self.merge(a, b);
                    self.groups[b].as_mut().expect("a live group").role = role_of(&form);
                    tensors[second] = self.tensors(b);
                    break;
                }
            }
        }
    }

    /// Whether loops that are joined with rows leave these as they are: rows lie along memory (elements that are reduced side by side would be
    /// written in short pieces that lie apart), and no walk along them falls into shorter ones.
    fn walks_as_rows(&self, a: usize, b: usize, form: &Layout) -> bool {
        let role = |group: usize| self.groups[group].as_ref().map(|members| members.role);
        let rows = match (role(a), role(b)) {
            (Some(Role::Row), Some(Role::Loop)) => a,
            (Some(Role::Loop), Some(Role::Row)) => b,
            _ => return true,
        };
        let along = form.reduced.last().is_none_or(|&last| last + 1 == form.space.len());
        along && self.form_of(rows, rows).is_ok_and(|own| form.reduced.len() <= own.reduced.len())
    }

    /// Whether two groups have few tensors, and the same to walk: a tensor that one of them reduces, or outputs of one shape.
    fn are_beside(&self, a: usize, b: usize, x: &HashSet<Value>, y: &HashSet<Value>) -> bool {
        let (Some(first), Some(second)) = (&self.groups[a], &self.groups[b]) else { return false };
        if x.union(y).count() > MOST_BESIDE {
            return false;
        }
        match (first.role, second.role) {
            (Role::Row, Role::Row) => x.intersection(y).next().is_some(),
            (Role::Loop, Role::Loop) => match (self.outputs(&first.insts).first(), self.outputs(&second.insts).first()) {
                (Some(&p), Some(&q)) => same_shape(self.solver, self.function.shape(p), self.function.shape(q)),
                _ => false,
            },
            (Role::Row, _) => self.is_stepwise(b) && self.reads_rows(a, x.intersection(y)),
            _ => self.is_stepwise(a) && self.reads_rows(b, x.intersection(y)),
        }
    }

    /// Whether a group computes each element from those of its own position. Loops have ways to walk what is moved that rows have not.
    fn is_stepwise(&self, group: usize) -> bool {
        let members = &self.groups[group].as_ref().expect("a live group").insts;
        members.iter().all(|&i| self.roles[i] != Role::Loop || self.function.def(self.insts[i]).has(Trait::Elementwise))
    }

    /// Whether one of some values has an element for each that a group of rows reduces, and reductions may walk them in any order. What may be
    /// the middle of an attention stays as it is.
    fn reads_rows<'v>(&self, group: usize, values: impl Iterator<Item = &'v Value>) -> bool {
        let mut values = values.peekable();
        if values.peek().is_none() {
            return false;
        }
        let members = &self.groups[group].as_ref().expect("a live group").insts;
        let is_product = |&i: &usize| self.group(i).role == Role::Contraction;
        let feeds = members.iter().any(|&i| self.flow_users[i].iter().any(is_product));
        let is_fed = members.iter().any(|&i| self.real_sources[i].iter().any(is_product));
        let mut reductions =
            members.iter().map(|&i| self.insts[i]).filter(|&inst| self.function.kind_of(inst) == OpKind::Reduce).peekable();
        let count = |value: Value| Dim::product(self.function.shape(value).iter().cloned());
        let Some(rows) = reductions.peek().map(|&inst| count(self.function.operands(inst)[0])) else { return false };
        let in_any_order = reductions.all(|inst| self.function.operands(inst).len() == 2);
        in_any_order && !(feeds && is_fed) && values.any(|&value| self.solver.equal(&rows, &count(value)))
    }

    /// The values that a group reads, and those it gives to others; of views, the memory that they are views of.
    fn tensors(&self, group: usize) -> HashSet<Value> {
        let members = &self.groups[group].as_ref().expect("a live group").insts;
        let mut found: HashSet<Value> = self.outputs(members).into_iter().collect();
        let mut stack: Vec<usize> = members.iter().copied().collect();
        while let Some(i) = stack.pop() {
            for &value in self.function.operands(self.insts[i]) {
                match self.function.defining(value).and_then(|source| self.position.get(&source)) {
                    Some(source) if members.contains(source) => {}
                    Some(&source) if matches!(self.roles[source], Role::Free | Role::View) => stack.push(source),
                    _ => {
                        found.insert(value);
                    }
                }
            }
        }
        found
    }

    /// Whether something flows from one group to another, by any path.
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
    if layout.reduces { Role::Row } else { Role::Loop }
}
