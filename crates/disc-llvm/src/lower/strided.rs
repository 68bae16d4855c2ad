//! Loads lanes a known stride apart: one wide load and a shuffle, where a gather would read lane by
//! lane.
//!
//! A stride of -1 is a reversed vector. Small strides read the elements in between as well, but
//! only within the bounds that mask and lanes give: like every load, these touch no memory outside
//! of the requested elements.
use super::Lowering;
use crate::emit::{Emitted, Val};
use disc_ir::{Attr, DType, OpKind, Value};
use inkwell::values::{BasicValue, InstructionOpcode, InstructionValue};

/// Larger strides leave most of a wide load unused.
const LARGEST_STEP: i64 = 4;

/// The indices of a strided access: `first + lane * step`.
pub(super) struct Strided {
    first: Value,
    step: i64,
}

impl<'c> Lowering<'_, 'c> {
    /// Returns the stride of a vector of indices, if it is written as a scalar plus multiples of
    /// the lanes' numbers.
    pub(super) fn strided(&self, index: Value, dtype: DType) -> Option<Strided> {
        let made_by = |value: Value, kind: OpKind| {
            let inst = self.function.defining(value)?;
            (self.function.kind_of(inst) == kind).then(|| self.function.operands(inst).to_vec())
        };
        let sum = made_by(index, OpKind::Add)?;
        let steps = |value: Value| {
            let factors = made_by(value, OpKind::Multiply)?;
            let numbers = factors.iter().position(|&factor| made_by(factor, OpKind::Lanes).is_some())?;
            self.splat_constant(factors[1 - numbers])
        };
        let of = |first: Value, other: Value| Some(Strided { first: made_by(first, OpKind::Splat)?[0], step: steps(other)? });
        let found = of(sum[0], sum[1]).or_else(|| of(sum[1], sum[0]))?;
        let wide = (2..=LARGEST_STEP).contains(&found.step) && dtype.size() >= 4;
        (found.step == -1 || wide).then_some(found)
    }

    /// Returns the integer that all lanes of a constant have.
    fn splat_constant(&self, value: Value) -> Option<i64> {
        let inst = self.function.defining(value).filter(|&inst| self.function.kind_of(inst) == OpKind::Constant)?;
        match &self.function.inst(inst).attrs[..] {
            [Some(Attr::Literal(literal))] if literal.splat || literal.stored_len() == 1 => Some(literal.i64_at(0)),
            _ => None,
        }
    }

    /// Loads lanes a stride apart, in the element type of memory.
    pub(super) fn load_strided(&mut self, buffer: Value, places: &Strided, lanes: u32, mask: Option<Val<'c>>) -> Emitted<'c> {
        let dtype = self.function.ty(buffer).dtype();
        let base = self.value(buffer)?.into_pointer_value();
        let first = self.value(places.first)?;
        let backwards = places.step < 0;
        let (start, count) = match backwards {
            true => (self.emit.sub(first, self.emit.i64(i64::from(lanes) - 1).into())?, lanes),
            false => (first, lanes * places.step as u32),
        };
        let at = self.emit.element_address(dtype, base, start)?;
        let read = match (backwards, mask) {
            (true, None) => None,
            (true, Some(mask)) => Some(self.emit.shuffle(mask, None, (0..lanes).rev())?),
            (false, mask) => Some(self.spread(mask, lanes, places.step as u32)?),
        };
        let memory = self.emit.memory_ty(dtype, count);
        let wide = self.load_wide(memory, at, read, dtype)?;
        match backwards {
            true => self.emit.shuffle(wide, None, (0..lanes).rev()),
            false => self.emit.shuffle(wide, None, (0..lanes).map(|lane| lane * places.step as u32)),
        }
    }

    /// Spreads a mask to strided lanes, with the lanes between them off. It is computed next to the
    /// mask, and so outside of the loops that do not change it.
    fn spread(&mut self, mask: Option<Val<'c>>, lanes: u32, step: u32) -> Emitted<'c> {
        let places: Vec<u32> = (0..lanes * step).map(|place| if place % step == 0 { place / step } else { lanes }).collect();
        let nothing = self.emit.const_int(1, lanes, 0);
        let Some(mask) = mask else {
            return self.emit.shuffle(self.emit.const_int(1, lanes, 1), Some(nothing), places);
        };
        if let Some(&(.., known)) = self.spread_masks.iter().find(|(of, by, _)| *of == mask && *by == step) {
            return Ok(known);
        }
        let here = self.block()?;
        let behind = mask.as_instruction_value().filter(|made| made.get_opcode() != InstructionOpcode::Phi);
        let Some(next) = behind.and_then(InstructionValue::get_next_instruction) else {
            return self.emit.shuffle(mask, Some(nothing), places);
        };
        self.emit.builder.position_before(&next);
        let spread = self.emit.shuffle(mask, Some(nothing), places);
        self.emit.builder.position_at_end(here);
        let spread = spread?;
        self.spread_masks.push((mask, step, spread));
        Ok(spread)
    }
}
