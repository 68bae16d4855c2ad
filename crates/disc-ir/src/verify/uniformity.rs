//! Finds the values of a GPU kernel that are equal for all threads of a warp, or of a block.
//!
//! A value is as uniform as the least uniform one that it is computed from. Memory adds nothing to
//! the address that is read: threads that read different values at one place race with a write. A
//! value that leaves a region, or is carried around it, is as uniform as the condition too: threads
//! that left earlier have an older one.
use crate::{
    attr::Attr,
    graph::{Block, Function, Grid, Inst, Value},
    ops::OpKind,
    types::{Space, Type},
};

/// The threads for which a value is equal, the fewest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Uniform {
    Thread,
    Warp,
    Block,
}

pub(super) struct Uniformity {
    levels: Vec<Uniform>,
}

impl Uniformity {
    pub(super) fn of(function: &Function, grid: Grid) -> Self {
        let count = function.value_count();
        let levels = vec![Uniform::Block; count];
        let mut found = Sources { function, grid, levels, floors: vec![Uniform::Thread; count], users: vec![Vec::new(); count] };
        function.parameters().iter().for_each(|&parameter| found.own(parameter));
        for inst in function.walk(function.body) {
            found.inst(inst);
        }
        Self { levels: found.propagated() }
    }

    pub(super) fn level(&self, value: Value) -> Uniform {
        self.levels[value.index()]
    }
}

/// Returns the values that decide which threads run the regions of an op.
pub(super) fn conditions(function: &Function, inst: Inst) -> &[Value] {
    let operands = function.operands(inst);
    match (function.kind_of(inst), &function.inst(inst).regions[..]) {
        (OpKind::If, _) => operands.get(..1).unwrap_or(operands),
        (OpKind::For, _) => operands.get(..3).unwrap_or(operands),
        (OpKind::While, &[cond, _]) => function.returned(cond),
        _ => &[],
    }
}

/// The values that each value is computed from, as lists of users.
struct Sources<'f> {
    function: &'f Function,
    grid: Grid,
    levels: Vec<Uniform>,
    /// The least that a value is, whatever it is computed from.
    floors: Vec<Uniform>,
    users: Vec<Vec<Value>>,
}

impl Sources<'_> {
    fn inst(&mut self, inst: Inst) {
        let function = self.function;
        let (operands, results) = (function.operands(inst), function.results_of(inst));
        let regions = &function.inst(inst).regions[..];
        match (function.kind_of(inst), regions) {
            (OpKind::If, _) => {
                self.all(conditions(function, inst), results);
                regions.iter().for_each(|&region| self.pairs(function.returned(region), results));
            }
            (OpKind::For, &[body]) => {
                let (bounds, inits) = operands.split_at(operands.len().min(3));
                let Some((index, carried)) = function.arguments(body).split_first() else { return };
                self.all(bounds, &[*index]);
                self.carry(body, bounds, inits, carried, results);
            }
            (OpKind::While, &[cond, body]) => {
                let ends = function.returned(cond);
                self.pairs(function.arguments(body), function.arguments(cond));
                self.carry(body, ends, operands, function.arguments(body), results);
            }
            _ => self.plain(inst),
        }
        results.iter().for_each(|&result| self.own(result));
    }

    /// Adds the sources of the values that a loop carries.
    fn carry(&mut self, body: Block, conditions: &[Value], inits: &[Value], carried: &[Value], results: &[Value]) {
        self.all(conditions, carried);
        self.pairs(inits, carried);
        self.pairs(self.function.returned(body), carried);
        self.pairs(carried, results);
    }

    /// Adds the sources of an op without regions.
    fn plain(&mut self, inst: Inst) {
        let function = self.function;
        let (operands, results) = (function.operands(inst), function.results_of(inst));
        let Some(&result) = results.first() else { return };
        let is_whole = self.width(inst) == Some(self.grid.warp);
        match function.kind_of(inst) {
            OpKind::Place => match function.attr_word(inst, "of") {
                "block" | "grid" => {}
                "warp" => self.lower(result, Uniform::Warp),
                _ => self.lower(result, Uniform::Thread),
            },
            OpKind::Atomic | OpKind::LoadMatrix | OpKind::MultiplyTiles => self.lower(result, Uniform::Thread),
            // All lanes read the one that they name alike.
            OpKind::Shuffle if is_whole && function.attr_word(inst, "how") == "index" => {
                self.lower(result, Uniform::Warp);
                self.all(&operands[1..], results);
            }
            // Equal values are equal in any order.
            OpKind::Shuffle => self.all(&operands[..1], results),
            OpKind::Vote => {
                self.raise(result, Uniform::Warp);
                self.all(operands, results);
            }
            OpKind::ReduceGroup if is_whole => {
                self.raise(result, Uniform::Warp);
                self.all(operands, results);
            }
            _ => self.all(operands, results),
        }
    }

    fn width(&self, inst: Inst) -> Option<u32> {
        let position = self.function.def(inst).attr_position("width")?;
        match self.function.inst(inst).attrs.get(position) {
            Some(Some(Attr::Int(width))) => u32::try_from(*width).ok(),
            _ => None,
        }
    }

    /// Lowers a value to what it is by itself: each thread has memory of its own.
    fn own(&mut self, value: Value) {
        if matches!(self.function.ty(value), Type::Buffer { space: Space::Task, .. }) {
            self.lower(value, Uniform::Thread);
        }
    }

    /// A warp that is the block has what a block has.
    fn of_warp(&self, level: Uniform) -> Uniform {
        if level == Uniform::Warp && self.grid.warp == self.grid.threads { Uniform::Block } else { level }
    }

    fn lower(&mut self, value: Value, level: Uniform) {
        let level = self.of_warp(level);
        let found = &mut self.levels[value.index()];
        *found = level.min(*found);
    }

    fn raise(&mut self, value: Value, level: Uniform) {
        self.floors[value.index()] = self.of_warp(level);
    }

    /// Every user has every source.
    fn all(&mut self, sources: &[Value], users: &[Value]) {
        sources.iter().for_each(|source| self.users[source.index()].extend(users));
    }

    /// Each user has the source of its position.
    fn pairs(&mut self, sources: &[Value], users: &[Value]) {
        sources.iter().zip(users).for_each(|(source, &user)| self.users[source.index()].push(user));
    }

    /// Lowers users below their sources, until all are. A value falls twice at most.
    fn propagated(mut self) -> Vec<Uniform> {
        let mut open: Vec<usize> = (0..self.levels.len()).filter(|&i| self.levels[i] != Uniform::Block).collect();
        while let Some(source) = open.pop() {
            for user in self.users[source].iter().map(|user| user.index()) {
                let level = self.levels[source].max(self.floors[user]);
                if level < self.levels[user] {
                    self.levels[user] = level;
                    open.push(user);
                }
            }
        }
        self.levels
    }
}
