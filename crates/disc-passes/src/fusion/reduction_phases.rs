//! Phases of a reduction group: the dependences among its reductions, and the walk that writes each
//! output.
//!
//! Phase `p` walks each row to compute the reductions that depend on `p` earlier ones; a last walk
//! writes the outputs. An output with an element for each position of a row is *early* if it
//! depends on fewer reductions and no later walk needs it: the walk that computes it anyway writes
//! it, so that its inputs are read once.
//!
//! Invariant: an early output is written while later walks still have inputs to read.
use disc_ir::{Block, Function, OpKind, Value};
use std::collections::{HashMap, HashSet};

/// The phase of each value, and the walks that need it.
#[derive(Clone, Debug, Default)]
pub struct Phases {
    level: HashMap<Value, usize>,
    /// The phases that need an element of a value, as a bit set.
    needed: HashMap<Value, u64>,
    /// Of these, the phases that reduce it or write it as an output.
    asked: HashMap<Value, u64>,
    /// The phase of the last walk.
    pub last: usize,
    /// The walk that writes each output with an element for each position.
    walks: HashMap<Value, usize>,
    /// The early outputs that only outputs of this kind need.
    apart: Vec<Value>,
}

impl Phases {
    /// Decides the phases of a group with these `outputs`; `is_whole` returns true if one has an
    /// element for each position.
    ///
    /// # Errors
    /// More reductions depend on one another than there are phases.
    pub fn of(function: &Function, block: Block, outputs: &[Value], is_whole: &dyn Fn(Value) -> bool) -> Result<Self, String> {
        Self::by(function, block, outputs, &|phases, output| {
            let level = phases.level(output);
            let later = phases.needed.get(&output).is_some_and(|bits| bits >> level > 1);
            is_whole(output).then_some(if level < phases.last && !later { level } else { phases.last })
        })
    }

    /// The phases of a group whose `outputs` are written by these walks; `None` for an output with
    /// one element for each row.
    ///
    /// # Errors
    /// As for [`Phases::of`].
    pub fn decided(function: &Function, block: Block, outputs: &[Value], walks: &[Option<usize>]) -> Result<Self, String> {
        let walk = |_: &Self, output: Value| outputs.iter().position(|&other| other == output).and_then(|i| walks[i]);
        Self::by(function, block, outputs, &walk)
    }

    /// The walk that writes each output; `None` for an output with one element for each row.
    pub fn walks(&self, outputs: &[Value]) -> Vec<Option<usize>> {
        outputs.iter().map(|output| self.walks.get(output).copied()).collect()
    }

    fn by(
        function: &Function,
        block: Block,
        outputs: &[Value],
        walk_of: &dyn Fn(&Self, Value) -> Option<usize>,
    ) -> Result<Self, String> {
        let mut phases = Self::default();
        let insts = function.insts(block);
        for &inst in insts {
            let operands = function.operands(inst).iter();
            let depth = operands.map(|&v| phases.level(v)).max().unwrap_or(0);
            let own = usize::from(function.kind_of(inst) == OpKind::Reduce);
            phases.level.extend(function.results_of(inst).iter().map(|&result| (result, depth + own)));
        }
        phases.last = phases.level.values().copied().max().unwrap_or(0);
        if phases.last >= 64 {
            return Err("more than 63 reductions depend on one another".into());
        }
        for &inst in insts.iter().filter(|&&inst| function.kind_of(inst) == OpKind::Reduce) {
            let phase = phases.of_reduction(function.results_of(inst)[0]);
            let inputs = function.operands(inst);
            inputs[..inputs.len() / 2].iter().for_each(|&input| phases.ask(function, input, phase));
        }
        // The users of an output come after it.
        let made = insts.iter().rev().flat_map(|&inst| function.results_of(inst)).copied();
        let given = function.arguments(block).iter().copied();
        for output in made.chain(given).filter(|value| outputs.contains(value)) {
            let Some(walk) = walk_of(&phases, output) else { continue };
            phases.ask(function, output, walk);
            phases.walks.insert(output, walk);
        }
        phases.part(function, block, outputs);
        Ok(phases)
    }

    /// Finds the early outputs that are independent of all others.
    fn part(&mut self, function: &Function, block: Block, outputs: &[Value]) {
        let reduced = function.insts(block).iter().filter(|&&inst| function.kind_of(inst) == OpKind::Reduce);
        let mut stack: Vec<Value> = reduced.flat_map(|&inst| function.operands(inst)).copied().collect();
        stack.extend(outputs.iter().filter(|&&output| self.early(output) != Some(0)));
        let mut reached: HashSet<Value> = HashSet::new();
        while let Some(value) = stack.pop() {
            if reached.insert(value)
                && let Some(inst) = function.defining(value)
            {
                stack.extend(function.operands(inst));
            }
        }
        let written = self.walks.keys().copied();
        self.apart = written.filter(|&value| self.early(value) == Some(0) && !reached.contains(&value)).collect();
    }

    fn level(&self, value: Value) -> usize {
        self.level.get(&value).copied().unwrap_or(0)
    }

    /// The phase that computes a reduction with this result.
    pub fn of_reduction(&self, result: Value) -> usize {
        self.level(result) - 1
    }

    /// Records that a phase reduces or writes `value`.
    fn ask(&mut self, function: &Function, value: Value, phase: usize) {
        *self.asked.entry(value).or_default() |= 1 << phase;
        self.need(function, value, phase);
    }

    /// Marks `value`, and what it is computed from up to reductions, as needed in a phase.
    fn need(&mut self, function: &Function, value: Value, phase: usize) {
        let bits = self.needed.entry(value).or_default();
        if *bits & (1 << phase) != 0 {
            return;
        }
        *bits |= 1 << phase;
        let Some(inst) = function.defining(value) else { return };
        if function.kind_of(inst) != OpKind::Reduce {
            function.operands(inst).to_vec().into_iter().for_each(|operand| self.need(function, operand, phase));
        }
    }

    /// The phases that need elements of a value, as a bit set; `None` if none do.
    pub fn needing(&self, value: Value) -> Option<u64> {
        self.needed.get(&value).copied()
    }

    /// Asks for each value, last to first, whether to keep it, given the phases that compute it as
    /// a bit set: a kept value is computed in the first of them only.
    pub fn each_computed(&self, function: &Function, block: Block, keeps: &mut dyn FnMut(Value, u64) -> bool) {
        let mut computing = self.asked.clone();
        for &inst in function.insts(block).iter().rev().filter(|&&inst| function.kind_of(inst) != OpKind::Reduce) {
            for &value in function.results_of(inst) {
                let Some(&phases) = computing.get(&value) else { continue };
                let phases = if keeps(value, phases) { phases & phases.wrapping_neg() } else { phases };
                for &operand in function.operands(inst) {
                    *computing.entry(operand).or_default() |= phases;
                }
            }
        }
    }

    /// Returns true if a walk may write an output: it comes after the reductions that the output
    /// depends on, and is no later than the last.
    pub fn can_write(&self, output: Value, walk: usize) -> bool {
        (self.level(output)..=self.last).contains(&walk)
    }

    /// The phase that writes an output, if it is not the last one.
    pub fn early(&self, output: Value) -> Option<usize> {
        self.walks.get(&output).copied().filter(|&walk| walk < self.last)
    }

    /// Returns true if an early output is computed only from inputs, and only outputs of this kind
    /// use it.
    pub fn is_apart(&self, output: Value) -> bool {
        self.apart.contains(&output)
    }
}
