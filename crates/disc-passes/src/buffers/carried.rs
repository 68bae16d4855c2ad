//! Values that a loop carries and a group of its body updates: such a group writes where the value is, and no iteration copies it.
//!
//! The proof: nobody but the group reads the value, the group reads it only to update it, and what the update gives is only returned. So no
//! element is read after it was written, other than by the update itself, which writes where it reads.
use super::{Home, Planner};
use disc_ir::{Attr, Block, Inst, OpKind, Value};
use std::collections::HashMap;

impl Planner<'_> {
    /// For what the body of a loop returns: the memory of the carried value that it is an update of.
    pub(super) fn homes_of_updates(&self, body: Block, carried: &[Value]) -> HashMap<Value, Home> {
        let end = self.source.terminator(body).expect("a region ends in `return`");
        let returned = self.source.operands(end).iter();
        let pairs = self.source.arguments(body).iter().zip(returned).zip(carried);
        let updated = pairs.filter(|((argument, result), _)| self.is_update(body, **argument, **result));
        updated.map(|((_, &result), &buffer)| (result, Home::Buffer(buffer))).collect()
    }

    /// Whether a group of the body makes `result` from the memory of `argument`, which nothing else reads.
    fn is_update(&self, body: Block, argument: Value, result: Value) -> bool {
        let group = self.source.defining(result).filter(|inst| self.source.insts(body).contains(inst));
        let Some(group) = group.filter(|&inst| self.source.kind_of(inst) == OpKind::Fusion) else { return false };
        let region = self.source.inst(group).regions[0];
        let made = self.source.results_of(group).iter().position(|&value| value == result);
        let read = self.source.operands(group).iter().position(|&value| value == argument);
        let (Some(made), Some(read)) = (made, read) else { return false };
        let end = self.source.terminator(region).expect("a region ends in `return`");
        let (inner, updated) = (self.source.arguments(region)[read], self.source.operands(end)[made]);
        self.uses(body, argument) == 1
            && self.uses(region, inner) == 1
            && self.uses(region, updated) == 1
            && self.source.defining(updated).is_some_and(|inst| self.updates(group, inst, inner, updated))
    }

    /// Whether an op of a group gives `updated` by writing to places of `inner`.
    fn updates(&self, group: Inst, inst: Inst, inner: Value, updated: Value) -> bool {
        let kind = match &self.source.inst(group).attrs[0] {
            Some(Attr::Enum(kind)) => *kind,
            _ => return false,
        };
        let number = self.source.results_of(inst).iter().position(|&value| value == updated);
        let is_input = number.is_some_and(|number| self.source.operands(inst)[number] == inner);
        match self.source.kind_of(inst) {
            OpKind::DynamicUpdateSlice => kind == "loop" && is_input,
            OpKind::Scatter => kind == "single" && is_input,
            _ => false,
        }
    }

    /// How often the ops of a block read a value.
    fn uses(&self, block: Block, value: Value) -> usize {
        let operands = self.source.walk(block).into_iter().flat_map(|inst| self.source.operands(inst));
        operands.filter(|&&operand| operand == value).count()
    }
}
