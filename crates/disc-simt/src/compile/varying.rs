//! Finds the values that are one for all threads of a block.
use disc_ir::{Attr, Block, Function, Inst, OpKind, Space, Type, Value};

/// Returns true at the values that may differ between threads, by index.
pub(super) fn varying(function: &Function) -> Vec<bool> {
    let mut found = Found { function, varying: vec![false; function.value_count()], changed: true };
    while found.changed {
        found.changed = false;
        found.block(function.body);
    }
    found.varying
}

struct Found<'f> {
    function: &'f Function,
    varying: Vec<bool>,
    changed: bool,
}

impl Found<'_> {
    fn is(&self, value: Value) -> bool {
        self.varying[value.index()]
    }

    fn any(&self, values: &[Value]) -> bool {
        values.iter().any(|&value| self.is(value))
    }

    fn set(&mut self, value: Value, varies: bool) {
        if varies && !self.is(value) {
            self.varying[value.index()] = true;
            self.changed = true;
        }
    }

    fn block(&mut self, block: Block) {
        for &inst in self.function.insts(block) {
            self.inst(inst);
        }
    }

    fn inst(&mut self, inst: Inst) {
        let function = self.function;
        let (operands, results) = (function.operands(inst), function.results_of(inst));
        let regions = &function.inst(inst).regions;
        match function.kind_of(inst) {
            OpKind::If => {
                regions.iter().for_each(|&region| self.block(region));
                for (i, &result) in results.iter().enumerate() {
                    let differs = regions.iter().any(|&region| self.is(function.returned(region)[i]));
                    self.set(result, differs || self.is(operands[0]));
                }
            }
            OpKind::For => {
                let (body, bounds) = (regions[0], self.any(&operands[..3]));
                let arguments = function.arguments(body);
                self.set(arguments[0], bounds);
                self.carried(&arguments[1..], &operands[3..], results, body, bounds);
                self.block(body);
            }
            OpKind::While => {
                let [cond, body] = regions[..] else { return };
                let ends = self.any(function.returned(cond));
                for region in [cond, body] {
                    self.carried(function.arguments(region), operands, results, body, ends);
                    self.block(region);
                }
            }
            kind => {
                let varies = self.any(operands) || differs(function, inst, kind);
                results.iter().for_each(|&result| self.set(result, varies));
            }
        }
    }

    fn carried(&mut self, arguments: &[Value], inits: &[Value], results: &[Value], body: Block, ends: bool) {
        let nexts = self.function.returned(body);
        for (i, (&argument, &result)) in arguments.iter().zip(results).enumerate() {
            let varies = ends || self.is(inits[i]) || self.is(nexts[i]) || self.is(result);
            self.set(argument, varies);
            self.set(result, varies);
        }
    }
}

/// Returns true if threads get different results for equal operands.
fn differs(function: &Function, inst: Inst, kind: OpKind) -> bool {
    match kind {
        OpKind::Place => !matches!(function.inst(inst).attrs.first(), Some(Some(Attr::Enum("block" | "grid")))),
        OpKind::Load => matches!(function.ty(function.operands(inst)[0]), Type::Buffer { space: Space::Task, .. }),
        OpKind::Atomic | OpKind::Shuffle | OpKind::ReduceGroup | OpKind::Vote | OpKind::LoadMatrix | OpKind::MultiplyTiles => {
            true
        }
        _ => false,
    }
}
