//! Takes elementwise ops after a matmul into its group as epilogue, and conversions of its
//! operands.
use super::{
    grouping::Grouping,
    legality::{Role, same_shape},
};
use crate::analysis::query::Query;
use crate::pass::PassCx;
use disc_ir::{DType, OpKind, ops::Trait};
use std::collections::{BTreeSet, HashSet};

impl Grouping<'_> {
    /// Takes conversions of operands into the groups of matmuls, which then read the stored type:
    /// those without loss and without other users.
    pub(super) fn absorb_conversions(&mut self, cx: &mut PassCx) {
        for i in 0..self.insts.len() {
            if self.roles[i] != Role::Matmul {
                continue;
            }
            let biases = if self.model.converts_biases() { self.biases(i) } else { BTreeSet::new() };
            for source in self.sources[i].iter().copied().chain(biases).collect::<Vec<_>>() {
                let inst = self.insts[source];
                let group = self.group_of[i];
                let alone = self.group(source).insts.len() == 1 && self.is_used_within(source, group);
                if alone && self.is_widening(inst) && !self.escapes.contains(&self.function.result(inst)) {
                    if !cx.spend_on("fuse-conversion") {
                        return;
                    }
                    self.merge(self.group_of[source], group);
                }
            }
        }
    }

    /// The ops whose results the epilogue of a matmul repeats, as of a bias.
    fn biases(&self, i: usize) -> BTreeSet<usize> {
        let members = self.group(i).insts.iter().filter(|&&member| member != i);
        members.flat_map(|&member| self.real_sources[member].iter().copied()).filter(|&source| self.is_repeated(source)).collect()
    }

    /// Returns true if only a group reads an op's result, repeated or as it is.
    fn is_used_within(&self, source: usize, group: usize) -> bool {
        let is_within = |users: &[usize]| users.iter().all(|&user| self.group_of[user] == group);
        let is_repeated_within = |user: usize| self.roles[user] == Role::Free && is_within(&self.users[user]);
        self.users[source].iter().all(|&user| self.group_of[user] == group || is_repeated_within(user))
    }

    /// Returns true if every user of an op's result repeats it.
    fn is_repeated(&self, source: usize) -> bool {
        self.users[source].iter().all(|&user| self.function.kind_of(self.insts[user]) == OpKind::BroadcastInDim)
    }

    fn is_widening(&self, inst: disc_ir::Inst) -> bool {
        let function = self.function;
        if self.role_of.get(&inst) != Some(&Role::Pointwise) || function.kind_of(inst) != OpKind::Convert {
            return false;
        }
        let (from, to) = (function.ty(function.operands(inst)[0]).dtype(), function.ty(function.result(inst)).dtype());
        from != DType::I1 && from.size() < to.size() && to.holds(from)
    }

    /// Takes elementwise users into the groups of matmuls.
    pub(super) fn absorb_epilogues(&mut self, cx: &mut PassCx) {
        for i in 0..self.insts.len() {
            if matches!(self.roles[i], Role::Matmul | Role::Window) && self.group(i).insts.len() == 1 {
                let taken = self.epilogue(i);
                if !taken.is_empty() && !cx.spend_on("fuse-epilogue") {
                    return;
                }
                for &op in &taken {
                    let (from, to) = (self.group_of[op], self.group_of[i]);
                    self.merge(from, to);
                }
                if self.roles[i] == Role::Window {
                    continue;
                }
                if let Some(end) = self.final_transpose(i, &taken).filter(|_| cx.spend_on("fuse-final-transpose")) {
                    let (from, to) = (self.group_of[end], self.group_of[i]);
                    self.merge(from, to);
                }
            }
        }
    }

    /// The transpose that is the only user of the one result of a matmul's group: the matmul can be
    /// written in that order.
    fn final_transpose(&self, dot: usize, taken: &[usize]) -> Option<usize> {
        let inside: BTreeSet<usize> = taken.iter().copied().chain([dot]).collect();
        let leaves = |&&i: &&usize| {
            self.users[i].iter().any(|u| !inside.contains(u)) || self.escapes.contains(&self.function.result(self.insts[i]))
        };
        let mut outputs = inside.iter().filter(leaves);
        let (Some(&output), None) = (outputs.next(), outputs.next()) else { return None };
        let escapes = self.escapes.contains(&self.function.result(self.insts[output]));
        match self.users[output][..] {
            [user]
                if !escapes
                    && self.function.kind_of(self.insts[user]) == OpKind::Transpose
                    && self.group(user).insts.len() == 1 =>
            {
                Some(user)
            }
            _ => None,
        }
    }

    /// The epilogue of matmul `dot`: all elementwise users of its result, except those that would
    /// only add outputs.
    fn epilogue(&self, dot: usize) -> Vec<usize> {
        let domain = self.function.shape(self.function.result(self.insts[dot]));
        let mut taken: BTreeSet<usize> = BTreeSet::new();
        let mut reached: HashSet<usize> = HashSet::from([dot]);
        for i in dot + 1..self.insts.len() {
            let sources = &self.real_sources[i];
            if !sources.iter().any(|s| reached.contains(s)) {
                continue;
            }
            reached.insert(i);
            let direct = self.sources[i].iter().all(|&s| !self.leads_from(s, &reached) || s == dot || taken.contains(&s));
            let names_product = self.function.kind_of(self.insts[i]) == OpKind::Winograd;
            let elementwise = self.function.def(self.insts[i]).has(Trait::Elementwise) || names_product;
            let alone = self.group(i).insts.len() == 1;
            if direct
                && elementwise
                && alone
                && same_shape(self.solver, self.function.shape(self.function.result(self.insts[i])), domain)
                && !self.waits_for(i, dot, &taken)
                && !self.is_of_another(i, dot, &taken)
            {
                taken.insert(i);
            }
        }
        self.prune(dot, &mut taken);
        taken.into_iter().collect()
    }

    /// Returns true if `i` needs a value that another group computes only after matmul `dot` and
    /// its epilogue. No single op need be in between: in an earlier group, one op may need the
    /// matmul while `i` needs another op.
    fn waits_for(&self, i: usize, dot: usize, taken: &BTreeSet<usize>) -> bool {
        let inside = |op: usize| op == dot || taken.contains(&op);
        let is_made = |&s: &usize| !inside(s) && (self.group(s).insts.len() > 1 || !self.sources[s].is_empty());
        if !self.real_sources[i].iter().any(is_made) {
            return false;
        }
        let own = [i].into_iter().chain(taken.iter().copied()).chain([dot]);
        let mut seen: HashSet<usize> = own.map(|op| self.group_of[op]).collect();
        let users = taken.iter().chain([&dot]).flat_map(|&op| &self.flow_users[op]).map(|&user| self.group_of[user]);
        let mut stack: Vec<usize> = users.filter(|&group| seen.insert(group)).collect();
        while let Some(group) = stack.pop() {
            for next in self.users_of_group(group) {
                if next == self.group_of[i] {
                    return true;
                }
                if seen.insert(next) {
                    stack.push(next);
                }
            }
        }
        false
    }

    /// Returns true if `i` belongs to a later matmul that it reads, and the epilogue of matmul
    /// `dot` already has another value of that size. In a sum of many matmuls, each then
    /// accumulates in place, so that at most two of them are live.
    fn is_of_another(&self, i: usize, dot: usize, taken: &BTreeSet<usize>) -> bool {
        let read = |op: usize| {
            self.real_sources[op].iter().copied().filter(|&s| s != dot && !taken.contains(&s) && self.is_like(s, dot))
        };
        let mut before: Vec<usize> = taken.iter().flat_map(|&op| read(op)).collect();
        before.extend(taken.iter().flat_map(|&op| self.later_products(op, dot, taken)));
        let own = self.later_products(i, dot, taken);
        !before.is_empty() && own.iter().any(|product| !before.contains(product))
    }

    /// Returns true if two ops have one result each, of one shape.
    fn is_like(&self, a: usize, b: usize) -> bool {
        match (self.function.results_of(self.insts[a]), self.function.results_of(self.insts[b])) {
            ([x], [y]) => same_shape(self.solver, self.function.shape(*x), self.function.shape(*y)),
            _ => false,
        }
    }

    /// The later matmuls of the shape of `dot` that `i` is elementwise computed from, not by way of
    /// `dot` and its epilogue.
    fn later_products(&self, i: usize, dot: usize, taken: &BTreeSet<usize>) -> BTreeSet<usize> {
        let (mut found, mut seen, mut stack) = (BTreeSet::new(), HashSet::from([i]), vec![i]);
        while let Some(op) = stack.pop() {
            for &source in &self.real_sources[op] {
                let outside = source > dot && !taken.contains(&source) && self.is_like(source, dot);
                if !outside || !seen.insert(source) {
                    continue;
                }
                if self.roles[source] == Role::Matmul {
                    found.insert(source);
                } else if self.function.def(self.insts[source]).has(Trait::Elementwise) {
                    stack.push(source);
                }
            }
        }
        found
    }

    /// Returns true if `i` is in `reached`, or reads it through free ops.
    fn leads_from(&self, i: usize, reached: &HashSet<usize>) -> bool {
        match self.roles[i] {
            Role::Free => self.real_sources[i].iter().any(|s| reached.contains(s)),
            _ => reached.contains(&i),
        }
    }

    /// Removes final ops whose removal leaves fewer results that others need.
    fn prune(&self, dot: usize, taken: &mut BTreeSet<usize>) {
        loop {
            let outputs = self.visible(dot, taken);
            let worse = taken.iter().rev().copied().find(|&i| {
                let is_end = self.users[i].iter().all(|u| !taken.contains(u));
                let mut fewer = taken.clone();
                fewer.remove(&i);
                is_end && self.visible(dot, &fewer) < outputs
            });
            match worse {
                Some(i) => taken.remove(&i),
                None => return,
            };
        }
    }

    fn visible(&self, dot: usize, taken: &BTreeSet<usize>) -> usize {
        let inside = |i: &usize| *i == dot || taken.contains(i);
        let visible =
            |&i: &usize| self.users[i].iter().any(|u| !inside(u)) || self.escapes.contains(&self.function.result(self.insts[i]));
        taken.iter().copied().chain([dot]).filter(visible).count()
    }
}
