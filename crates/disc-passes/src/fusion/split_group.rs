//! One group as two: a loop with what one value of it is computed from, and the group that reads this value from memory; or a loop that computes a result
//! of the group again.
//!
//! It does not ask whether that is worth it: [`super::fuse_interleave`] and the planning of buffers do.
//!
//! Invariant: each op goes where it is needed, so an op that both need is in both.
use crate::analysis::query::Query;
use disc_ir::{Attr, Block, Builder, Diagnostic, Function, Inst, OpKind, Solver, Value};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// The function with `value` of a group of a block computed by a loop of its own, that loop, and what is left of the group; `None` where the group gives
/// that value.
pub(super) fn out(
    function: &Function,
    block: Block,
    group: Inst,
    value: Value,
    solver: &Arc<Solver>,
) -> Result<Option<(Function, [Inst; 2])>, Diagnostic> {
    let end = function.terminator(function.inst(group).regions[0]).expect("a region ends in `return`");
    let returned = function.operands(end);
    if returned.contains(&value) {
        return Ok(None);
    }
    let mut carver = GroupSplitter { source: function, made: function.clone(), block, group };
    let first = carver.part("loop", &[value], None, solver)?;
    let apart = carver.made.result(first);
    let second = carver.part(function.word(group, "kind"), returned, Some((value, apart)), solver)?;
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

/// Adds a loop to the end of a block that computes a result of a group from a value of its region, which lies where `from` says.
pub(crate) fn again(
    function: &mut Function,
    (block, group): (Block, Inst),
    number: usize,
    from: (Value, Value),
    solver: &Arc<Solver>,
) -> Result<Inst, Diagnostic> {
    let source = function.clone();
    let region = source.inst(group).regions[0];
    let end = source.terminator(region).expect("a region ends in `return`");
    let apart = (!source.arguments(region).contains(&from.0)).then_some(from);
    let mut carver = GroupSplitter { source: &source, made: source.clone(), block, group };
    let made = carver.part("loop", &[source.operands(end)[number]], apart, solver)?;
    *function = carver.made;
    Ok(made)
}

/// Makes a group of a block give one result less, which nothing uses.
pub(crate) fn drop_result(
    function: &mut Function,
    (block, group): (Block, Inst),
    number: usize,
    solver: &Arc<Solver>,
) -> Result<(), Diagnostic> {
    let source = function.clone();
    let end = source.terminator(source.inst(group).regions[0]).expect("a region ends in `return`");
    let mut returned = source.operands(end).to_vec();
    returned.remove(number);
    let mut carver = GroupSplitter { source: &source, made: source.clone(), block, group };
    let made = carver.part(source.word(group, "kind"), &returned, None, solver)?;
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
    /// A group with what these values are computed from, at the end of the block. Of `apart`, the first is a value of the region, and the second where
    /// it is read from.
    fn part(
        &mut self,
        kind: &'static str,
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
        let results: Vec<Value> = returned.iter().map(|value| map[value]).collect();
        Builder::at(&mut self.made, region, solver.clone()).ret(&results)?;
        let types = returned.iter().map(|&value| source.ty(value).clone()).collect();
        let builder = &mut Builder::at(&mut self.made, self.block, solver.clone());
        builder.op(OpKind::Fusion).operands(&inputs).attr("kind", Attr::Enum(kind)).region(region).results(types).build()
    }

    /// What these values are computed from, and they themselves; not what `apart` is computed from.
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
