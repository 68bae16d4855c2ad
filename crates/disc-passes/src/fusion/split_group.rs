//! Splits a group in two: a pointwise group that computes one value, and the rest, which reads the
//! value from memory; or adds a pointwise group that recomputes a result.
//!
//! It does not decide if that pays; `fuse_interleave` and buffer planning do.
//!
//! Invariant: an op that both groups need is in both.
use super::plan;
use disc_ir::{Block, Builder, Diagnostic, Function, FusionKind, Inst, OpKind, Solver, Value};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Splits `value` off a group of a block; returns the function, the new group and the rest. `None`
/// if the group returns that value.
pub(super) fn out(
    function: &Function,
    block: Block,
    group: Inst,
    value: Value,
    solver: &Arc<Solver>,
) -> Result<Option<(Function, [Inst; 2])>, Diagnostic> {
    let returned = function.returned(function.inst(group).regions[0]);
    if returned.contains(&value) {
        return Ok(None);
    }
    let mut carver = GroupSplitter { source: function, made: function.clone(), block, group };
    let first = carver.part(FusionKind::Pointwise, &[value], None, solver)?;
    let apart = carver.made.result(first);
    let second = carver.part(FusionKind::of(function, group).expect("a group"), returned, Some((value, apart)), solver)?;
    let mut made = carver.made;
    let order = function.insts(block).iter().flat_map(|&inst| if inst == group { vec![first, second] } else { vec![inst] });
    made.set_insts(block, order.collect());
    let pairs: Vec<(Value, Value)> =
        function.results_of(group).iter().copied().zip(made.results_of(second).iter().copied()).collect();
    for &(result, output) in &pairs {
        if let Some(name) = function.name_of(result) {
            made.set_name(output, name.clone());
        }
    }
    made.replace_uses(&pairs.into_iter().collect());
    Ok(Some((made, [first, second])))
}

/// Adds a group at the end of a block that recomputes a result of a group from a value of its
/// region, which `from` holds.
pub(crate) fn again(
    function: &mut Function,
    (block, group): (Block, Inst),
    number: usize,
    from: (Value, Value),
    solver: &Arc<Solver>,
) -> Result<Inst, Diagnostic> {
    let source = function.clone();
    let region = source.inst(group).regions[0];
    let apart = (!source.arguments(region).contains(&from.0)).then_some(from);
    let mut carver = GroupSplitter { source: &source, made: source.clone(), block, group };
    let made = carver.part(FusionKind::Pointwise, &[source.returned(region)[number]], apart, solver)?;
    *function = carver.made;
    Ok(made)
}

/// Drops a result of a group that nothing uses.
pub(crate) fn drop_result(
    function: &mut Function,
    (block, group): (Block, Inst),
    number: usize,
    solver: &Arc<Solver>,
) -> Result<(), Diagnostic> {
    let source = function.clone();
    let mut returned = source.returned(source.inst(group).regions[0]).to_vec();
    returned.remove(number);
    let mut carver = GroupSplitter { source: &source, made: source.clone(), block, group };
    let made = carver.part(FusionKind::of(&source, group).expect("a group"), &returned, None, solver)?;
    let mut results = source.results_of(group).to_vec();
    results.remove(number);
    let order = source.insts(block).iter().map(|&inst| if inst == group { made } else { inst });
    carver.made.set_insts(block, order.collect());
    let outputs = carver.made.results_of(made).to_vec();
    carver.made.replace_uses(&results.into_iter().zip(outputs).collect());
    *function = carver.made;
    Ok(())
}

struct GroupSplitter<'f> {
    source: &'f Function,
    /// The copy with the new groups.
    made: Function,
    block: Block,
    group: Inst,
}

impl GroupSplitter<'_> {
    /// Adds a group that computes these values at the end of the block. `apart` has a value of the
    /// region and the value outside to read instead.
    fn part(
        &mut self,
        kind: FusionKind,
        returned: &[Value],
        apart: Option<(Value, Value)>,
        solver: &Arc<Solver>,
    ) -> Result<Inst, Diagnostic> {
        let source = self.source;
        let from = source.inst(self.group).regions[0];
        let needed = self.needed(returned, apart.map(|(value, _)| value));
        let arguments = source.arguments(from).iter().copied().zip(source.operands(self.group).iter().copied());
        let (mut inputs, mut map) = (Vec::new(), HashMap::new());
        let region = self.made.add_block();
        for (argument, operand) in arguments.chain(apart).filter(|(argument, _)| needed.contains(argument)) {
            let ty = source.ty(argument).clone();
            map.insert(argument, self.made.add_argument(region, ty));
            if let Some(name) = source.name_of(argument) {
                self.made.set_name(map[&argument], name.clone());
            }
            inputs.push(operand);
        }
        for &inst in source.insts(from).iter().filter(|&&inst| source.kind_of(inst) != OpKind::Return) {
            if source.results_of(inst).iter().any(|result| needed.contains(result) && !map.contains_key(result)) {
                let copy = self.made.import(source, inst, &mut map);
                self.made.append(region, copy);
            }
        }
        let reduces = self.made.insts(region).iter().any(|&inst| self.made.kind_of(inst) == OpKind::Reduce);
        let kind = if kind == FusionKind::Reduction && !reduces { FusionKind::Pointwise } else { kind };
        let results: Vec<Value> = returned.iter().map(|value| map[value]).collect();
        Builder::at(&mut self.made, region, solver.clone()).ret(&results)?;
        let types = returned.iter().map(|&value| source.ty(value).clone()).collect();
        let builder = &mut Builder::at(&mut self.made, self.block, solver.clone());
        let made = builder.op(OpKind::Fusion).operands(&inputs).attr("kind", kind).region(region).results(types).build()?;
        plan::decide(&mut self.made, made, solver)?;
        Ok(made)
    }

    /// These values and all that they are computed from, except what only `apart` needs.
    fn needed(&self, returned: &[Value], apart: Option<Value>) -> HashSet<Value> {
        let (mut stack, mut needed) = (returned.to_vec(), HashSet::new());
        while let Some(value) = stack.pop() {
            if needed.insert(value)
                && apart != Some(value)
                && let Some(inst) = self.source.defining(value)
            {
                stack.extend(self.source.operands(inst));
            }
        }
        needed
    }
}
