//! Recomputes cheap values where they are needed, so that no memory keeps them until then.
//!
//! A value that several groups read is computed once. If its first and last reader are far apart,
//! as for an activation at the start of three residual blocks, it stays in memory although its
//! input does too. Likewise a group that stores a tensor and its activation needs room for both
//! while its inputs are still live.
//!
//! Invariants:
//! - A recomputed value is elementwise in one tensor, weights and constants, cannot fail, and costs
//!   no more than reading that tensor, which is live anyway.
//! - The gain is measured: the arena is laid out with and without it.
use crate::fusion::{costly, split_group};
use disc_ir::{Diagnostic, Function, Inst, OpKind, Solver, Value, ops::Trait};
use std::{collections::HashMap, sync::Arc};

/// The largest number of ops that are recomputed for a value; also the largest number of such
/// values.
const MOST_OPS: usize = 6;
const MOST_VALUES: usize = 64;
/// The number of layouts that are tried to find the values that matter.
pub(super) const MOST_TRIES: usize = 12;

/// A result of a group, and the readers that recompute it.
#[derive(Clone, Debug)]
pub(super) struct Rematerialization {
    group: Inst,
    number: usize,
    value: Value,
    /// The tensor it is computed from: in its group, and outside.
    base: (Value, Value),
    /// Readers that recompute it, each with the readers right after it.
    readers: Vec<Vec<Inst>>,
    /// True if these are all readers, so that its group need not store it.
    is_dropped: bool,
}

/// The values in the body of a function that later groups could recompute.
pub(super) fn candidates(function: &Function) -> Vec<Rematerialization> {
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
    found.truncate(MOST_VALUES);
    found
}

/// Result `number` of a group, if its later readers can recompute it.
fn of_result(
    function: &Function,
    insts: &[Inst],
    uses: &HashMap<Value, Vec<usize>>,
    group: Inst,
    number: usize,
) -> Option<Rematerialization> {
    let value = function.results_of(group)[number];
    let at = uses.get(&value)?;
    if !at.iter().all(|&position| is_fusion(function, insts[position])) {
        return None;
    }
    let base = computed(function, group, number)?;
    let until = *uses.get(&base.1)?.last()?;
    let mut readers: Vec<Vec<Inst>> = Vec::new();
    let mut before = None;
    for &position in at.iter().filter(|&&position| position <= until) {
        let is_far = |before: usize| insts[before + 1..position.max(before + 1)].iter().any(|&inst| is_fusion(function, inst));
        match (before, readers.last_mut()) {
            (Some(before), _) if before == position => {}
            (Some(before), Some(together)) if !is_far(before) => together.push(insts[position]),
            _ => readers.push(vec![insts[position]]),
        }
        before = Some(position);
    }
    // Readers right after the group use the stored value; the group may drop it only if there are
    // none.
    let is_dropped =
        readers.len() == 1 && at.iter().all(|&position| position <= until) && function.defining(base.1) == Some(group);
    if !is_dropped && !readers.is_empty() {
        readers.remove(0);
    }
    (!readers.is_empty()).then_some(Rematerialization { group, number, value, base, readers, is_dropped })
}

fn is_fusion(function: &Function, inst: Inst) -> bool {
    function.kind_of(inst) == OpKind::Fusion
}

/// The one tensor that a result of a group is computed from, in the group and outside, if the group
/// reads or returns that tensor and few cheap ops, weights and constants do the rest.
fn computed(function: &Function, group: Inst, number: usize) -> Option<(Value, Value)> {
    let region = function.inst(group).regions[0];
    let given = function.operands(function.terminator(region)?);
    let read = function.arguments(region);
    let outside = |value: Value| {
        let result = given.iter().position(|&other| other == value).filter(|&other| other != number);
        let operand = || read.iter().position(|&other| other == value).map(|i| function.operands(group)[i]);
        result.map(|i| function.results_of(group)[i]).or_else(operand)
    };
    let is_weight = |value: Value| function.defining(value).is_some_and(|inst| function.kind_of(inst) == OpKind::Weight);
    let (mut stack, mut ops, mut base) = (vec![given[number]], Vec::new(), None::<(Value, Value)>);
    while let Some(value) = stack.pop() {
        if let Some(known) = outside(value) {
            if is_weight(known) {
                continue;
            }
            if base.is_some_and(|other| other.1 != known) {
                return None;
            }
            base = Some((value, known));
            continue;
        }
        let inst = function.defining(value).filter(|&inst| is_cheap(function, inst))?;
        if !ops.contains(&inst) {
            ops.push(inst);
            stack.extend(function.operands(inst));
        }
    }
    let shape = |value: Value| function.ty(value).shaped().map(|tensor| &tensor.dims);
    let counted = ops.iter().filter(|&&inst| function.def(inst).has(Trait::Elementwise)).count();
    base.filter(|base| shape(base.0) == shape(given[number]) && (1..=MOST_OPS).contains(&counted))
}

fn is_cheap(function: &Function, inst: Inst) -> bool {
    let def = function.def(inst);
    let is_free = matches!(function.kind_of(inst), OpKind::Constant | OpKind::BroadcastInDim);
    is_free || def.has(Trait::Elementwise) && !def.has(Trait::MayFail) && !costly(function.kind_of(inst))
}

impl Rematerialization {
    /// Adds groups that recompute the value right before their readers. Does nothing if the value
    /// is gone because another rematerialisation has replaced its group.
    pub(super) fn apply(&self, function: &mut Function, solver: &Arc<Solver>) -> Result<(), Diagnostic> {
        let body = function.body;
        let is_there = |inst: &Inst| function.insts(body).contains(inst);
        let comes_from = function.defining(self.base.1);
        if !self.readers.iter().flatten().chain([&self.group]).chain(&comes_from).all(is_there) {
            return Ok(());
        }
        for readers in &self.readers {
            let again = split_group::again(function, (body, self.group), self.number, self.base, solver)?;
            let mut insts = function.insts(body).to_vec();
            insts.retain(|&inst| inst != again);
            let place = insts.iter().position(|inst| *inst == readers[0]).expect("a reader is in the body");
            insts.insert(place, again);
            function.set_insts(body, insts);
            let result = function.result(again);
            for &reader in readers {
                let operands = &mut function.inst_mut(reader).operands;
                operands.iter_mut().filter(|operand| **operand == self.value).for_each(|operand| *operand = result);
            }
        }
        if self.is_dropped {
            split_group::drop_result(function, (body, self.group), self.number, solver)?;
        }
        Ok(())
    }
}
