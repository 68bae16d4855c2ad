//! Groups in the making: which op belongs to which, and the checks that keep them free of cycles.
use super::legality::{Role, ints, role, same_shape, shape};
use crate::pass::PassCx;
use disc_ir::{Block, Dim, Function, Inst, OpKind, Solver, Value, ops::Trait};
use std::collections::{BTreeSet, HashMap, HashSet};

/// A finished group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) kind: &'static str,
    /// In the order of the block; copies of free ops are added when the group is written.
    pub(super) insts: Vec<Inst>,
}

/// What a group's values look like.
#[derive(Clone, Debug)]
struct Members {
    role: Role,
    insts: BTreeSet<usize>,
    /// The shape of a loop; of a whole value, for rows; of the product, for a contraction.
    domain: Vec<Dim>,
    /// For rows: how many leading dimensions are rows.
    rows: usize,
}

pub(super) struct Grouping<'f> {
    function: &'f Function,
    solver: &'f Solver,
    insts: Vec<Inst>,
    roles: Vec<Role>,
    /// For each op, the ops whose results it needs, and those that need its results.
    sources: Vec<Vec<usize>>,
    users: Vec<Vec<usize>>,
    /// The same with free ops looked through.
    real_sources: Vec<Vec<usize>>,
    real_users: Vec<Vec<usize>>,
    /// Values used by something that is not an op with a group: a terminator, control flow, a region.
    escapes: HashSet<Value>,
    group_of: Vec<usize>,
    groups: Vec<Option<Members>>,
}

impl<'f> Grouping<'f> {
    pub(super) fn new(function: &'f Function, block: Block, solver: &'f Solver) -> Self {
        let insts = function.insts(block).to_vec();
        let roles: Vec<Role> = insts.iter().map(|&i| role(function, solver, i)).collect();
        let position: HashMap<Inst, usize> = insts.iter().enumerate().map(|(i, &inst)| (inst, i)).collect();
        let mut grouping = Self {
            function,
            solver,
            sources: vec![Vec::new(); insts.len()],
            users: vec![Vec::new(); insts.len()],
            real_sources: Vec::new(),
            real_users: Vec::new(),
            escapes: HashSet::new(),
            group_of: (0..insts.len()).collect(),
            groups: Vec::new(),
            insts,
            roles,
        };
        for i in 0..grouping.insts.len() {
            let inst = grouping.insts[i];
            let mut uses: Vec<Value> = function.operands(inst).to_vec();
            for &region in &function.inst(inst).regions {
                uses.extend(function.walk(region).into_iter().flat_map(|inner| function.operands(inner).to_vec()));
            }
            if matches!(grouping.roles[i], Role::Outside) {
                grouping.escapes.extend(uses.iter().copied());
            }
            let mut sources: Vec<usize> =
                uses.iter().filter_map(|&v| function.defining(v)).filter_map(|d| position.get(&d).copied()).collect();
            sources.sort_unstable();
            sources.dedup();
            for &source in &sources {
                grouping.users[source].push(i);
            }
            grouping.sources[i] = sources;
            let members = grouping.members(i);
            grouping.groups.push(Some(members));
        }
        grouping.real_sources = Self::look_through(&grouping.sources, &grouping.roles);
        grouping.real_users = Self::look_through(&grouping.users, &grouping.roles);
        grouping
    }

    fn members(&self, i: usize) -> Members {
        let (function, inst) = (self.function, self.insts[i]);
        let role = self.roles[i];
        let insts = BTreeSet::from([i]);
        match (role, function.results_of(inst).first()) {
            (Role::Row, _) => {
                let domain = shape(function, function.operands(inst)[0]).to_vec();
                let rows = domain.len() - ints(function, inst, "dims").len();
                Members { role, insts, domain, rows }
            }
            (_, Some(&result)) => Members { role, insts, domain: shape(function, result).to_vec(), rows: 0 },
            (_, None) => Members { role, insts, domain: Vec::new(), rows: 0 },
        }
    }

    fn group(&self, i: usize) -> &Members {
        self.groups[self.group_of[i]].as_ref().expect("a group lives as long as it has members")
    }

    /// For each op, its users, free ops looked through; a view is a user of its own.
    fn look_through(edges: &[Vec<usize>], roles: &[Role]) -> Vec<Vec<usize>> {
        let through = |start: &Vec<usize>| {
            let (mut found, mut stack) = (BTreeSet::new(), start.clone());
            while let Some(next) = stack.pop() {
                match roles[next] {
                    Role::Free => stack.extend(&edges[next]),
                    _ => found.extend([next]),
                }
            }
            found.into_iter().collect()
        };
        edges.iter().map(through).collect()
    }

    /// Whether something outside of both groups lies on a path from group `from` to group `to`.
    fn has_detour(&self, from: usize, to: usize) -> bool {
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
    fn users_of_group(&self, group: usize) -> impl Iterator<Item = usize> {
        let members = &self.groups[group].as_ref().expect("a live group").insts;
        members.iter().flat_map(|&i| &self.real_users[i]).map(|&user| self.group_of[user])
    }

    fn merge(&mut self, from: usize, to: usize) {
        let moved = self.groups[from].take().expect("a live group");
        for &i in &moved.insts {
            self.group_of[i] = to;
        }
        self.groups[to].as_mut().expect("a live group").insts.extend(moved.insts);
    }

    /// Takes element-wise users into the groups of products.
    pub(super) fn absorb_epilogues(&mut self, cx: &mut PassCx) {
        for i in 0..self.insts.len() {
            if self.roles[i] == Role::Contraction && self.group(i).insts.len() == 1 {
                let taken = self.epilogue(i);
                if !taken.is_empty() && !cx.spend_on("fuse-epilogue") {
                    return;
                }
                for &op in &taken {
                    let (from, to) = (self.group_of[op], self.group_of[i]);
                    self.merge(from, to);
                }
                if let Some(end) = self.final_transpose(i, &taken).filter(|_| cx.spend_on("fuse-final-transpose")) {
                    let (from, to) = (self.group_of[end], self.group_of[i]);
                    self.merge(from, to);
                }
            }
        }
    }

    /// The transpose that alone uses the one result of a product's group: the product can be written in that order.
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

    /// The ops to take into the group of product `dot`: everything element-wise in its result, less what would only add outputs.
    fn epilogue(&self, dot: usize) -> Vec<usize> {
        let domain = &self.group(dot).domain;
        let mut taken: BTreeSet<usize> = BTreeSet::new();
        let mut reached: HashSet<usize> = HashSet::from([dot]);
        for i in dot + 1..self.insts.len() {
            let sources = &self.real_sources[i];
            if !sources.iter().any(|s| reached.contains(s)) {
                continue;
            }
            reached.insert(i);
            let direct = self.sources[i].iter().all(|&s| !self.leads_from(s, &reached) || s == dot || taken.contains(&s));
            let elementwise = self.function.def(self.insts[i]).has(Trait::Elementwise);
            let alone = self.group(i).insts.len() == 1;
            if direct
                && elementwise
                && alone
                && same_shape(self.solver, shape(self.function, self.function.result(self.insts[i])), domain)
            {
                taken.insert(i);
            }
        }
        self.prune(dot, &mut taken);
        taken.into_iter().collect()
    }

    /// Whether `i` is, or looks through free ops at, something in `reached`.
    fn leads_from(&self, i: usize, reached: &HashSet<usize>) -> bool {
        match self.roles[i] {
            Role::Free => self.real_sources[i].iter().any(|s| reached.contains(s)),
            _ => reached.contains(&i),
        }
    }

    /// Gives back ops at the end whose absence makes fewer results that others need.
    fn prune(&self, dot: usize, taken: &mut BTreeSet<usize>) {
        loop {
            let outputs = self.outputs(dot, taken);
            let worse = taken.iter().rev().copied().find(|&i| {
                let is_end = self.users[i].iter().all(|u| !taken.contains(u));
                let mut fewer = taken.clone();
                fewer.remove(&i);
                is_end && self.outputs(dot, &fewer) < outputs
            });
            match worse {
                Some(i) => taken.remove(&i),
                None => return,
            };
        }
    }

    fn outputs(&self, dot: usize, taken: &BTreeSet<usize>) -> usize {
        let inside = |i: &usize| *i == dot || taken.contains(i);
        let visible =
            |&i: &usize| self.users[i].iter().any(|u| !inside(u)) || self.escapes.contains(&self.function.result(self.insts[i]));
        taken.iter().copied().chain([dot]).filter(visible).count()
    }

    /// Merges reductions over the same dimensions with each other and with loops around them.
    pub(super) fn merge_rows(&mut self, cx: &mut PassCx) {
        self.merge_edges(&mut || cx.spend_on("fuse-rows"), |a, b| a.role == Role::Row || b.role == Role::Row);
    }

    pub(super) fn merge_loops(&mut self, cx: &mut PassCx) {
        self.merge_edges(&mut || cx.spend_on("fuse-loops"), |a, b| a.role == Role::Loop && b.role == Role::Loop);
    }

    /// Merges along edges, as long as something changes.
    fn merge_edges(&mut self, spend: &mut dyn FnMut() -> bool, wanted: impl Fn(&Members, &Members) -> bool) {
        let mut changed = true;
        while changed {
            changed = false;
            for i in 0..self.insts.len() {
                for user in self.real_users[i].clone() {
                    let (from, to) = (self.group_of[i], self.group_of[user]);
                    if from == to {
                        continue;
                    }
                    let (a, b) = (self.group(i), self.group(user));
                    if !wanted(a, b) {
                        continue;
                    }
                    if let Some((role, domain, rows)) = self.merged_form(a, b)
                        && !self.has_detour(from, to)
                        && spend()
                    {
                        self.merge(from, to);
                        let group = self.groups[to].as_mut().expect("a live group");
                        (group.role, group.domain, group.rows) = (role, domain, rows);
                        changed = true;
                    }
                }
            }
        }
    }

    /// The form of two groups as one, if one schedule can compute both.
    fn merged_form(&self, a: &Members, b: &Members) -> Option<(Role, Vec<Dim>, usize)> {
        let same = |x: &[Dim], y: &[Dim]| same_shape(self.solver, x, y);
        match (a.role, b.role) {
            (Role::Loop, Role::Loop) => same(&a.domain, &b.domain).then(|| (Role::Loop, a.domain.clone(), 0)),
            (Role::Row, Role::Row) => {
                (a.rows == b.rows && same(&a.domain, &b.domain)).then(|| (Role::Row, a.domain.clone(), a.rows))
            }
            (Role::Row, Role::Loop) => self.row_with_loop(a, b).then(|| (Role::Row, a.domain.clone(), a.rows)),
            (Role::Loop, Role::Row) => self.row_with_loop(b, a).then(|| (Role::Row, b.domain.clone(), b.rows)),
            _ => None,
        }
    }

    /// A loop fits a row group if it computes whole values, or one element per row.
    fn row_with_loop(&self, row: &Members, other: &Members) -> bool {
        let (rows, whole) = (&row.domain[..row.rows], &row.domain[..]);
        let one = Dim::constant(1);
        let per_row = other.domain.len() >= row.rows
            && same_shape(self.solver, &other.domain[..row.rows], rows)
            && other.domain[row.rows..].iter().all(|d| self.solver.equal(d, &one));
        same_shape(self.solver, &other.domain, whole) || per_row
    }

    /// The groups, each in the order of the block.
    pub(super) fn finish(self) -> Vec<Group> {
        let mut found = Vec::new();
        for members in self.groups.into_iter().flatten() {
            let kind = match members.role {
                Role::Loop => "loop",
                Role::Row => "row",
                Role::Contraction => "contraction",
                Role::Single => "single",
                Role::Free | Role::View | Role::Outside => continue,
            };
            found.push(Group { kind, insts: members.insts.into_iter().map(|i| self.insts[i]).collect() });
        }
        found
    }
}
