//! Finds the scalars that a host program computes by itself, where it cannot read the memory of
//! kernels without waiting for the device: those made only of sizes and constants.
//!
//! Invariant: a group that is not launched has no result that anything else reads.
use super::planner::Planner;
use disc_ir::{Block, Diagnostic, Function, Inst, OpKind, Type, Value};
use std::collections::{HashMap, HashSet};

/// The scalars that the host computes, and the groups that no device has to compute then.
#[derive(Default)]
pub(super) struct HostScalars {
    /// The scalars that the host can compute, in regions of groups too.
    known: HashSet<Value>,
    /// The value that each known result or argument of a group stands for.
    same_as: HashMap<Value, Value>,
    /// The groups whose results only the host reads.
    unneeded: HashSet<Inst>,
}

impl HostScalars {
    pub(super) fn of(source: &Function) -> Self {
        let mut found = Self::default();
        found.collect(source, source.body);
        found.find_unneeded(source, source.body, &mut HashSet::new());
        found
    }

    pub(super) fn is_unneeded(&self, group: Inst) -> bool {
        self.unneeded.contains(&group)
    }

    /// Finds the scalars of a block, and of the regions in it, that the host can compute.
    fn collect(&mut self, source: &Function, block: Block) {
        for &inst in source.insts(block) {
            let regions = &source.inst(inst).regions;
            if source.kind_of(inst) == OpKind::Fusion {
                let region = regions[0];
                let arguments = source.arguments(region).iter().zip(source.operands(inst));
                let known: Vec<_> = arguments.filter(|(_, operand)| self.known.contains(operand)).collect();
                known.into_iter().for_each(|(&argument, &operand)| self.alias(argument, operand));
                self.collect(source, region);
                for (&result, &returned) in source.results_of(inst).iter().zip(source.returned(region)) {
                    if self.known.contains(&returned) {
                        self.alias(result, returned);
                    }
                }
                continue;
            }
            regions.iter().for_each(|&region| self.collect(source, region));
            if is_arithmetic(source, inst) && source.operands(inst).iter().all(|operand| self.known.contains(operand)) {
                self.known.insert(source.result(inst));
            }
        }
    }

    fn alias(&mut self, value: Value, of: Value) {
        self.known.insert(value);
        self.same_as.insert(value, of);
    }

    /// Finds the groups that are known and have no result in `read`: the values that later ops read
    /// in memory of the device.
    fn find_unneeded(&mut self, source: &Function, block: Block, read: &mut HashSet<Value>) {
        for &inst in source.insts(block).iter().rev() {
            let (kind, operands) = (source.kind_of(inst), source.operands(inst));
            match kind {
                OpKind::Fusion => {
                    let mut inner = source.insts(source.inst(inst).regions[0]).iter();
                    let is_known = inner.all(|&op| source.results_of(op).iter().all(|value| self.known.contains(value)));
                    if is_known && !source.results_of(inst).iter().any(|value| read.contains(value)) {
                        self.unneeded.insert(inst);
                    } else {
                        read.extend(operands);
                    }
                }
                _ => {
                    // The host program itself reads these operands, and computes those it knows.
                    let is_of_host = matches!(kind, OpKind::BindDim | OpKind::Assert | OpKind::If);
                    read.extend(operands.iter().filter(|value| !(is_of_host && self.known.contains(value))));
                    source.inst(inst).regions.iter().for_each(|&region| self.find_unneeded(source, region, read));
                }
            }
        }
    }
}

/// Returns true for ops of integers and truth values that a host program has too.
fn is_arithmetic(source: &Function, inst: Inst) -> bool {
    let kind = matches!(
        source.kind_of(inst),
        OpKind::Constant
            | OpKind::DimValue
            | OpKind::Add
            | OpKind::Subtract
            | OpKind::Multiply
            | OpKind::Maximum
            | OpKind::Minimum
            | OpKind::Negate
            | OpKind::And
            | OpKind::Or
            | OpKind::Not
            | OpKind::Compare
            | OpKind::Select
            | OpKind::Convert
    );
    let is_scalar = |value: &Value| {
        let tensor = source.ty(*value).shaped();
        tensor.is_some_and(|tensor| tensor.rank() == 0 && !tensor.dtype.is_float())
    };
    kind && source.results_of(inst).iter().chain(source.operands(inst)).all(is_scalar)
}

impl Planner<'_> {
    /// Computes a scalar in the host program, if it can.
    pub(super) fn host_scalar(&mut self, block: Block, value: Value) -> Result<Option<Value>, Diagnostic> {
        if !self.scalars.known.contains(&value) {
            return Ok(None);
        }
        self.emit_scalar(block, value, &mut HashMap::new()).map(Some)
    }

    /// Emits the ops that compute a known scalar, each once: `emitted` has the results so far.
    fn emit_scalar(&mut self, block: Block, mut value: Value, emitted: &mut HashMap<Value, Value>) -> Result<Value, Diagnostic> {
        while let Some(&of) = self.scalars.same_as.get(&value) {
            value = of;
        }
        if let Some(&known) = emitted.get(&value) {
            return Ok(known);
        }
        let source = self.source;
        let inst = source.defining(value).expect("a known scalar is the result of an op");
        let operands: Vec<Value> =
            source.operands(inst).iter().map(|&operand| self.emit_scalar(block, operand, emitted)).collect::<Result<_, _>>()?;
        let (kind, ty) = (source.kind_of(inst), Type::scalar(source.ty(value).dtype()));
        let attrs = source.inst(inst).attrs.clone();
        let result = self.builder(block).op(kind).operands(&operands).attrs(attrs).result(ty).value()?;
        emitted.insert(value, result);
        Ok(result)
    }
}
