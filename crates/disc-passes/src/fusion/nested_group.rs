//! Builds one group from several: their ops, or the groups themselves, in a region in place of the
//! last one.
//!
//! It does not decide if they may be one; `fuse_attention` and `fuse_interleave` do.
//!
//! Invariant: each value that the groups read from outside is one argument of the region, with its
//! name, in the order in which they read it.
use disc_ir::{Block, Builder, Diagnostic, Function, FusionKind, Inst, OpKind, Solver, Value};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Returns true if an op is a group of this kind with one result.
pub(super) fn is_group(function: &Function, inst: Inst, kind: FusionKind) -> bool {
    is_of_kind(function, inst, kind) && function.results_of(inst).len() == 1
}

/// Returns true if an op is a group of this kind.
pub(super) fn is_of_kind(function: &Function, inst: Inst, kind: FusionKind) -> bool {
    FusionKind::of(function, inst) == Some(kind)
}

/// A region filled with ops of a block, in a copy of their function.
pub(super) struct NestedGroup<'f> {
    source: &'f Function,
    /// The copy.
    pub(super) function: Function,
    pub(super) region: Block,
    parts: Vec<Inst>,
    inputs: Vec<Value>,
    /// The values of the source, and their values in the region.
    map: HashMap<Value, Value>,
}

impl<'f> NestedGroup<'f> {
    /// Opens a region for these ops, which are in the order of their block; it is still empty.
    pub(super) fn open(source: &'f Function, parts: Vec<Inst>) -> Self {
        let made: HashSet<Value> = parts.iter().flat_map(|&part| source.results_of(part)).copied().collect();
        let mut inputs: Vec<Value> = Vec::new();
        for value in parts.iter().flat_map(|&part| source.operands(part)) {
            if !made.contains(value) && !inputs.contains(value) {
                inputs.push(*value);
            }
        }
        let mut function = source.clone();
        let region = function.add_block();
        let argument = |&input: &Value| {
            let argument = function.add_argument(region, source.ty(input).clone());
            if let Some(name) = source.name_of(input) {
                function.set_name(argument, name.clone());
            }
            (input, argument)
        };
        let map = inputs.iter().map(argument).collect();
        Self { source, function, region, parts, inputs, map }
    }

    /// Moves every op into the region unchanged.
    pub(super) fn keep(&mut self) {
        for part in self.parts.clone() {
            self.copy(part);
        }
    }

    /// Moves the ops of groups into the region, and other ops unchanged.
    pub(super) fn unpack(&mut self) {
        let source = self.source;
        for part in self.parts.clone() {
            if source.kind_of(part) != OpKind::Fusion {
                self.copy(part);
                continue;
            }
            let inner = source.inst(part).regions[0];
            for (&argument, operand) in source.arguments(inner).iter().zip(source.operands(part)) {
                self.map.insert(argument, self.map[operand]);
            }
            for &inst in source.insts(inner) {
                if source.kind_of(inst) == OpKind::Return {
                    let returned = source.results_of(part).iter().zip(source.operands(inst));
                    let returned: Vec<(Value, Value)> = returned.map(|(&result, value)| (result, self.map[value])).collect();
                    self.map.extend(returned);
                } else {
                    self.copy(inst);
                }
            }
        }
    }

    fn copy(&mut self, inst: Inst) {
        let copy = self.function.import(self.source, inst, &mut self.map);
        self.function.append(self.region, copy);
    }

    /// The results of the last op.
    fn results(&self) -> &'f [Value] {
        self.source.results_of(*self.parts.last().expect("there are parts"))
    }

    /// Ends the region with the results of the last op.
    pub(super) fn end(&mut self, solver: &Arc<Solver>) -> Result<(), Diagnostic> {
        let returned: Vec<Value> = self.results().iter().map(|result| self.map[result]).collect();
        Builder::at(&mut self.function, self.region, solver.clone()).ret(&returned).map(drop)
    }

    /// Replaces the ops by a group of this kind, in place of the last one in `block`.
    pub(super) fn close(mut self, block: Block, kind: FusionKind, solver: &Arc<Solver>) -> Result<Function, Diagnostic> {
        let results = self.results();
        let fused = Builder::at(&mut self.function, block, solver.clone())
            .op(OpKind::Fusion)
            .operands(&self.inputs)
            .attr("kind", kind)
            .region(self.region)
            .results(results.iter().map(|&result| self.source.ty(result).clone()).collect())
            .build()?;
        let (last, before) = self.parts.split_last().expect("there are parts");
        let order = self.source.insts(block).iter().filter(|inst| !before.contains(inst));
        let order: Vec<Inst> = order.map(|inst| if inst == last { fused } else { *inst }).collect();
        self.function.set_insts(block, order);
        let outputs = self.function.results_of(fused).to_vec();
        for (&result, &output) in results.iter().zip(&outputs) {
            if let Some(name) = self.source.name_of(result) {
                self.function.set_name(output, name.clone());
            }
        }
        self.function.replace_uses(&results.iter().copied().zip(outputs).collect());
        Ok(self.function)
    }
}
