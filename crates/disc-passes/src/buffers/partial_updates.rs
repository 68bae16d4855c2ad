//! Finds groups that update a part of a tensor in place, so that the rest is not copied.
//!
//! The tensor is carried by a loop, or made by an op of the same block and dead afterwards; a loop
//! updates its initial value in the same way. In place is safe because the group alone reads the
//! value, reads it only to update it, and returns the result of the update directly. So no element
//! is read after it was written, except by the update itself, which writes where it reads.
use super::planner::{Destination, Planner};
use disc_ir::{Block, FusionKind, Inst, OpKind, Value};
use std::collections::HashMap;

impl Planner<'_> {
    /// Maps values that the body of a loop returns to the memory of the carried value that they
    /// update, directly or through several updates in a row.
    pub(super) fn destinations_of_updates(&self, body: Block, carried: &[Value]) -> HashMap<Value, Destination> {
        let returned = self.source.returned(body).iter().map(|&result| self.first_update(body, result));
        let pairs = self.source.arguments(body).iter().zip(returned).zip(carried);
        let updated = pairs.filter(|((argument, result), _)| self.is_update(body, **argument, *result));
        updated.map(|((_, result), &buffer)| (result, Destination::Buffer(buffer))).collect()
    }

    /// The first of a chain of updates.
    fn first_update(&self, block: Block, mut value: Value) -> Value {
        while let Some(input) = self.updated_in_place(block, value).filter(|&input| self.updated(block, input).is_some()) {
            value = input;
        }
        value
    }

    /// The value that an op of the block overwrites to make `result`: one made in the block that
    /// dies there.
    pub(super) fn updated_in_place(&self, block: Block, result: Value) -> Option<Value> {
        self.updated(block, result).filter(|&input| self.is_made_for_one(block, input))
    }

    /// Returns true if an op of the block has made the memory of a value, and each view on the way
    /// has one reader.
    fn is_made_for_one(&self, block: Block, mut value: Value) -> bool {
        loop {
            let Some(inst) = self.source.defining(value).filter(|inst| self.source.insts(block).contains(inst)) else {
                return false;
            };
            match self.source.kind_of(inst) {
                OpKind::Reshape => value = self.source.operands(inst)[0],
                OpKind::Fusion | OpKind::If | OpKind::While => return true,
                _ => return false,
            }
            if self.uses(block, value) != 1 {
                return false;
            }
        }
    }

    /// The operand that an op of the block updates to make `result`, if nothing else reads it.
    fn updated(&self, block: Block, result: Value) -> Option<Value> {
        let maker = self.source.defining(result)?;
        self.source.operands(maker).iter().copied().find(|&operand| self.is_update(block, operand, result))
    }

    /// Returns true if `result` is an update of `argument`, which nothing else reads: by a group,
    /// or by a loop with `argument` as its initial value.
    fn is_update(&self, block: Block, argument: Value, result: Value) -> bool {
        let Some(group) = self.source.defining(result) else { return false };
        match self.source.kind_of(group) {
            OpKind::Fusion => {}
            OpKind::While => {
                return self.operand_of(group, result) == Some(argument)
                    && self.source.insts(block).contains(&group)
                    && self.uses(block, argument) == 1;
            }
            _ => return false,
        }
        let region = self.source.inst(group).regions[0];
        let made = self.source.results_of(group).iter().position(|&value| value == result);
        let read = self.source.operands(group).iter().position(|&value| value == argument);
        let (Some(made), Some(read)) = (made, read) else { return false };
        let (inner, updated) = (self.source.arguments(region)[read], self.source.returned(region)[made]);
        self.source.defining(updated).is_some_and(|inst| self.updates(group, inst, inner, updated))
            && self.source.insts(block).contains(&group)
            && self.uses(region, inner) == 1
            && self.uses(region, updated) == 1
            && self.uses(block, argument) == 1
    }

    /// Returns true if an op of a group makes `updated` by writing into `inner`.
    fn updates(&self, group: Inst, inst: Inst, inner: Value, updated: Value) -> bool {
        let kind = FusionKind::of(self.source, group);
        let is_input = self.operand_of(inst, updated) == Some(inner);
        match self.source.kind_of(inst) {
            OpKind::DynamicUpdateSlice => kind == Some(FusionKind::Pointwise) && is_input,
            OpKind::Scatter => kind == Some(FusionKind::Standalone) && is_input,
            _ => false,
        }
    }

    /// The operand at the position of a result.
    fn operand_of(&self, inst: Inst, result: Value) -> Option<Value> {
        let number = self.source.results_of(inst).iter().position(|&value| value == result)?;
        self.source.operands(inst).get(number).copied()
    }

    /// The number of times that the ops of a block read a value.
    fn uses(&self, block: Block, value: Value) -> usize {
        let operands = self.source.walk(block).into_iter().flat_map(|inst| self.source.operands(inst));
        operands.filter(|&&operand| operand == value).count()
    }
}
