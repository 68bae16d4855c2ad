//! Finds the ops of a region after a transpose, and decides if all its users allow another layout.
use super::sorted;
use crate::analysis::query::{Query, picks_rows};
use disc_ir::{
    Block, Dim, Function, Inst, OpKind, Solver, Value,
    ops::{Trait, body},
};
use std::collections::{HashMap, HashSet};

/// The longest chain of ops between a rebuilt value and values shared by all elements, such as
/// masks and factors.
const MOST_SHARED: usize = 6;

/// An op that ends a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    Transpose,
    Gather,
    Reduce,
}

/// The ops that are rebuilt in another layout.
pub(super) struct Region {
    /// Dimension `i` of its values is dimension `order[i]` in memory.
    pub(super) order: Vec<usize>,
    transposes: HashSet<Inst>,
    inside: HashSet<Inst>,
    ends: HashMap<Inst, Ends>,
}

impl Region {
    /// The first region of a block that can be rebuilt.
    pub(super) fn next(function: &Function, solver: &Solver, block: Block) -> Option<Self> {
        let insts = function.insts(block);
        if !insts.iter().any(|&inst| function.kind_of(inst) == OpKind::Transpose) {
            return None;
        }
        let search = Search { function, solver, users: users(function, block), here: insts.iter().copied().collect() };
        let mut seen = HashSet::new();
        let transposes = insts.iter().copied().filter(|&inst| function.kind_of(inst) == OpKind::Transpose);
        transposes.filter_map(|seed| search.region(seed, &mut seen)).next()
    }

    pub(super) fn is_transpose(&self, inst: Inst) -> bool {
        self.transposes.contains(&inst)
    }

    pub(super) fn is_inside(&self, inst: Inst) -> bool {
        self.inside.contains(&inst)
    }

    pub(super) fn end(&self, inst: Inst) -> Option<Ends> {
        self.ends.get(&inst).copied()
    }
}

/// The ops of a block that read each value; an op also reads the operands of its regions.
fn users(function: &Function, block: Block) -> HashMap<Value, Vec<Inst>> {
    let mut users: HashMap<Value, Vec<Inst>> = HashMap::new();
    for &inst in function.insts(block) {
        let regions = function.inst(inst).regions.iter().flat_map(|&region| function.walk(region));
        for reader in regions.chain([inst]) {
            function.operands(reader).iter().for_each(|&value| users.entry(value).or_default().push(inst));
        }
    }
    users
}

struct Search<'f> {
    function: &'f Function,
    solver: &'f Solver,
    users: HashMap<Value, Vec<Inst>>,
    /// The ops of the block.
    here: HashSet<Inst>,
}

impl Search<'_> {
    /// The region of a transpose, unless it was visited already.
    fn region(&self, seed: Inst, seen: &mut HashSet<Inst>) -> Option<Region> {
        let order = self.function.axes(seed, "dims");
        if seen.contains(&seed) || order.is_sorted() || self.is_view(seed, &order) {
            return None;
        }
        let region = Region { order, transposes: HashSet::new(), inside: HashSet::new(), ends: HashMap::new() };
        let mut growth = Growth { search: self, region, values: HashSet::new(), stack: Vec::new(), pays: false };
        growth.join(seed);
        let complete = growth.grow().is_some() && growth.is_closed();
        seen.extend(growth.region.transposes.iter().copied());
        (complete && growth.pays).then_some(growth.region)
    }

    /// Returns true if a transpose only moves sizes of 1.
    fn is_view(&self, transpose: Inst, order: &[usize]) -> bool {
        let (shape, one) = (self.function.shape(self.function.operands(transpose)[0]), Dim::constant(1));
        order.iter().filter(|&&axis| !self.solver.equal(&shape[axis], &one)).is_sorted()
    }

    /// Returns true if a value can be rebuilt cheaply: it is constant along the dimensions of the
    /// region, an iota, or a few cheap ops on such values.
    fn is_shared(&self, value: Value, left: usize) -> bool {
        let function = self.function;
        let Some(inst) = function.defining(value).filter(|inst| self.here.contains(inst)) else { return false };
        match function.kind_of(inst) {
            OpKind::Constant => function.splat(value).is_some(),
            OpKind::BroadcastInDim | OpKind::Iota => true,
            OpKind::Compare | OpKind::Select | OpKind::And | OpKind::Or | OpKind::Not | OpKind::Convert => {
                self.reads_shared(inst, left)
            }
            OpKind::Add | OpKind::Subtract | OpKind::Multiply | OpKind::Maximum | OpKind::Minimum | OpKind::Negate => {
                self.reads_shared(inst, left)
            }
            _ => false,
        }
    }

    fn reads_shared(&self, inst: Inst, left: usize) -> bool {
        let is_scalar = |value: &Value| self.function.shape(*value).is_empty();
        left > 0 && self.function.operands(inst).iter().all(|value| is_scalar(value) || self.is_shared(*value, left - 1))
    }
}

struct Growth<'s, 'f> {
    search: &'s Search<'f>,
    region: Region,
    values: HashSet<Value>,
    /// Values whose users have not been visited.
    stack: Vec<Value>,
    /// True if something is gained: a reduction, a gather, or transposes that cancel.
    pays: bool,
}

impl Growth<'_, '_> {
    /// Adds a transpose into the layout of the region.
    fn join(&mut self, transpose: Inst) {
        if self.region.transposes.insert(transpose) {
            self.add(self.search.function.result(transpose));
        }
    }

    fn add(&mut self, value: Value) {
        if self.values.insert(value) {
            self.stack.push(value);
        }
    }

    /// Adds all users of the region's values; `None` if one of them needs the original layout.
    fn grow(&mut self) -> Option<()> {
        while let Some(value) = self.stack.pop() {
            for &user in self.search.users.get(&value).into_iter().flatten() {
                if !self.region.inside.contains(&user) && !self.region.ends.contains_key(&user) {
                    self.take(user)?;
                }
            }
        }
        Some(())
    }

    fn take(&mut self, user: Inst) -> Option<()> {
        let function = self.search.function;
        let operands = function.operands(user);
        let ends = match function.kind_of(user) {
            OpKind::Transpose => {
                let order = function.axes(user, "dims");
                self.pays |= order.iter().map(|&axis| self.region.order[axis]).is_sorted();
                Some(Ends::Transpose)
            }
            OpKind::Reduce if self.keeps_order(user) => {
                self.pays = true;
                let inputs = &operands[..operands.len() / 2];
                inputs.iter().for_each(|&input| self.reads(input));
                Some(Ends::Reduce)
            }
            OpKind::Gather if !self.values.contains(&operands[1]) && self.keeps_offsets(user) => {
                self.pays |= !self.picks_rows_with_others(user);
                Some(Ends::Gather)
            }
            OpKind::Slice | OpKind::Reverse | OpKind::Concatenate | OpKind::Pad => None,
            kind if kind.def().has(Trait::Elementwise) && function.results_of(user).len() == 1 => None,
            _ => return None,
        };
        if let Some(ends) = ends {
            self.region.ends.insert(user, ends);
            return Some(());
        }
        self.region.inside.insert(user);
        operands.iter().for_each(|&operand| self.reads(operand));
        self.add(function.result(user));
        Some(())
    }

    /// Visits an operand of the region; a transpose in the same order that makes it joins the
    /// region.
    fn reads(&mut self, value: Value) {
        let function = self.search.function;
        let made = function.made_by(value, OpKind::Transpose).filter(|inst| self.search.here.contains(inst));
        if let Some(transpose) = made.filter(|&inst| function.axes(inst, "dims") == self.region.order) {
            self.join(transpose);
        }
    }

    /// Returns true if all operands belong to the region or can be rebuilt in its layout.
    fn is_closed(&self) -> bool {
        let function = self.search.function;
        let known = |value: &Value| {
            self.values.contains(value) || function.shape(*value).is_empty() || self.search.is_shared(*value, MOST_SHARED)
        };
        let inside = self.region.inside.iter().all(|&inst| function.operands(inst).iter().all(known));
        let reduced = self.region.ends.iter().filter(|(_, ends)| **ends == Ends::Reduce).all(|(&inst, _)| {
            let operands = function.operands(inst);
            operands[..operands.len() / 2].iter().all(known)
        });
        inside && reduced
    }

    /// Returns true if a reduction may combine elements in memory order.
    fn keeps_order(&self, reduce: Inst) -> bool {
        let function = self.search.function;
        let axes: Vec<usize> = sorted(function.axes(reduce, "dims")).into_iter().map(|axis| self.region.order[axis]).collect();
        axes.is_sorted() || body::monoid(function, function.inst(reduce).regions[0]).is_some()
    }

    /// Returns true if several gathers pick rows of one tensor: they read it often enough to
    /// transpose it.
    fn picks_rows_with_others(&self, gather: Inst) -> bool {
        let Search { function, solver, users, .. } = self.search;
        let users = users.get(&function.operands(gather)[0]).map_or(&[][..], Vec::as_slice);
        picks_rows(function, solver, gather) && users.iter().filter(|&&inst| picks_rows(function, solver, inst)).count() > 1
    }

    /// Returns true if the dimensions of a gather's slices keep their order.
    fn keeps_offsets(&self, gather: Inst) -> bool {
        let function = self.search.function;
        let named = |name| function.axes(gather, name);
        let left_out = [named("collapsed_slice_dims"), named("operand_batching_dims")].concat();
        let offsets = (0..self.region.order.len()).filter(|axis| !left_out.contains(axis));
        offsets.map(|axis| self.region.order[axis]).is_sorted()
    }
}
