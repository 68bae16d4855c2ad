//! Cheap values that are computed again where they are needed next, so that no memory is kept for them in between.
//!
//! What several groups compute alike is computed once. Where the first and the last of its readers are far apart, as the activation of a tensor that three
//! residual blocks begin with, it takes memory all the time, though the tensor that it is computed from is there as well.
//!
//! Invariants:
//! - What is computed again is element-wise in one tensor and constants, cannot fail, and costs no more than to read that tensor, which is needed later
//!   anyway.
//! - Whether it is worth its time is not guessed: the arena is laid out with and without it.
use crate::fusion::costly;
use disc_ir::{Attr, Block, Builder, Diagnostic, Function, Inst, OpKind, Solver, Value, ops::Trait};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// More ops than this are not computed again, nor so many values tried one by one.
const MOST_OPS: usize = 6;
const MOST_TRIED: usize = 12;

/// A value, and groups that compute it anew.
#[derive(Clone, Debug)]
pub(super) struct Again {
    value: Value,
    /// What it is computed from, outside of the group that makes it, and in it.
    base: [Value; 2],
    /// The ops of that group that compute it, in order.
    ops: Vec<Inst>,
    /// Its readers that come later, together with those right behind them.
    readers: Vec<Vec<Inst>>,
}

/// The values of the body of a function that groups further down could compute again.
pub(super) fn candidates(function: &Function) -> Vec<Again> {
    let insts = function.insts(function.body);
    let mut uses: HashMap<Value, Vec<usize>> = HashMap::new();
    for (position, &inst) in insts.iter().enumerate() {
        let inner = function.inst(inst).regions.iter().flat_map(|&region| function.walk(region));
        for op in std::iter::once(inst).chain(inner) {
            function.operands(op).iter().for_each(|&operand| uses.entry(operand).or_default().push(position));
        }
    }
    let mut found = Vec::new();
    for &group in insts.iter().filter(|&&inst| function.kind_of(inst) == OpKind::Fusion) {
        for number in 0..function.results_of(group).len() {
            found.extend(of_result(function, insts, &uses, group, number));
        }
    }
    found.truncate(MOST_TRIED);
    found
}

/// Result `number` of a group, if it can be computed again for its later readers.
fn of_result(
    function: &Function,
    insts: &[Inst],
    uses: &HashMap<Value, Vec<usize>>,
    group: Inst,
    number: usize,
) -> Option<Again> {
    let value = function.results_of(group)[number];
    let at = uses.get(&value)?;
    let is_group = |&position: &usize| function.kind_of(insts[position]) == OpKind::Fusion;
    if at.first() == at.last() || !at.iter().all(is_group) {
        return None;
    }
    let (base, ops) = computed(function, group, number)?;
    let until = *uses.get(&base[0])?.last()?;
    let mut readers: Vec<Vec<Inst>> = Vec::new();
    let mut before = at[0];
    for &position in &at[1..] {
        let is_far = insts[before + 1..position.max(before + 1)].iter().any(|&inst| function.kind_of(inst) == OpKind::Fusion);
        match readers.last_mut() {
            _ if position > until || position == before => {}
            Some(together) if !is_far => together.push(insts[position]),
            None if !is_far => {}
            _ => readers.push(vec![insts[position]]),
        }
        before = position;
    }
    (!readers.is_empty()).then_some(Again { value, base, ops, readers })
}

/// What a result of a group is computed from, where that is one value that the group reads or gives as well, and constants; and by which ops.
fn computed(function: &Function, group: Inst, number: usize) -> Option<([Value; 2], Vec<Inst>)> {
    let region = function.inst(group).regions[0];
    let given = function.operands(function.terminator(region)?);
    let read = function.arguments(region);
    let outside = |value: Value| {
        let result = given.iter().position(|&other| other == value).filter(|&other| other != number);
        let operand = || read.iter().position(|&other| other == value).map(|i| function.operands(group)[i]);
        result.map(|i| function.results_of(group)[i]).or_else(operand)
    };
    let (mut stack, mut ops, mut base) = (vec![given[number]], HashSet::new(), None::<[Value; 2]>);
    while let Some(value) = stack.pop() {
        if let Some(known) = outside(value) {
            if base.is_some_and(|[other, _]| other != known) {
                return None;
            }
            base = Some([known, value]);
            continue;
        }
        let inst = function.defining(value).filter(|&inst| is_cheap(function, inst))?;
        if ops.insert(inst) {
            stack.extend(function.operands(inst));
        }
    }
    let ops: Vec<Inst> = function.insts(region).iter().copied().filter(|inst| ops.contains(inst)).collect();
    let shape = |value: Value| function.ty(value).shaped().map(|tensor| &tensor.dims);
    let base = base.filter(|&[_, inner]| shape(inner) == shape(given[number]))?;
    let counted = ops.iter().filter(|&&inst| function.kind_of(inst) != OpKind::Constant).count();
    (1..=MOST_OPS).contains(&counted).then_some((base, ops))
}

fn is_cheap(function: &Function, inst: Inst) -> bool {
    let def = function.def(inst);
    let is_free = matches!(function.kind_of(inst), OpKind::Constant | OpKind::BroadcastInDim);
    is_free || def.has(Trait::Elementwise) && !def.has(Trait::MayFail) && !costly(function.kind_of(inst))
}

impl Again {
    /// Adds groups that compute the value again, each right before those that read what it gives.
    pub(super) fn apply(&self, function: &mut Function, solver: &Arc<Solver>) -> Result<(), Diagnostic> {
        for readers in &self.readers {
            let (group, result) = self.group(function, function.body, solver)?;
            let mut insts = function.insts(function.body).to_vec();
            let place = insts.iter().position(|inst| *inst == readers[0]).expect("a reader is in the body");
            insts.retain(|inst| *inst != group);
            insts.insert(place, group);
            function.set_insts(function.body, insts);
            for &reader in readers {
                let operands = &mut function.inst_mut(reader).operands;
                operands.iter_mut().filter(|operand| **operand == self.value).for_each(|operand| *operand = result);
            }
        }
        Ok(())
    }

    /// A new loop at the end of a block.
    fn group(&self, function: &mut Function, block: Block, solver: &Arc<Solver>) -> Result<(Inst, Value), Diagnostic> {
        let [outer, inner] = self.base;
        let source = function.clone();
        let region = function.add_block();
        let argument = function.add_argument(region, source.ty(inner).clone());
        let mut map = HashMap::from([(inner, argument)]);
        for &op in &self.ops {
            let copy = function.import(&source, op, &mut map);
            function.append(region, copy);
        }
        let last = *self.ops.last().expect("there are ops");
        let made = map[&source.result(last)];
        Builder::at(function, region, solver.clone()).ret(&[made])?;
        let ty = source.ty(self.value).clone();
        let mut builder = Builder::at(function, block, solver.clone());
        let op = builder.op(OpKind::Fusion).operands(&[outer]).attr("kind", Attr::Enum("loop"));
        let group = op.region(region).results(vec![ty]).build()?;
        Ok((group, function.result(group)))
    }
}
