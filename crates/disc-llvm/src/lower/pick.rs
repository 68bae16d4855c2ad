//! Picks lanes of two vectors by computed indices: one permutation if the target has it (AVX-512,
//! AVX2 for 32 bits, a table look-up of NEON), else lane by lane.
use super::Lowering;
use crate::{
    Error,
    emit::{Emitted, Val, lanes_of},
};
use disc_codegen::target::{Target, X86Level};
use disc_ir::{DType, Inst};
use inkwell::IntPredicate;

impl<'c> Lowering<'_, 'c> {
    pub(super) fn pick_lanes(&mut self, inst: Inst) -> Result<(), Error> {
        let operands = self.operands(inst)?;
        let &[a, b, places] = &operands[..] else { return Err(self.error(inst, "needs three operands".to_owned())) };
        let (dtype, lanes) = self.vector_type(self.function.result(inst))?;
        let bits = dtype.bits() * lanes;
        let picked = match (self.emit.target.level(), dtype.bits(), bits) {
            (Some(X86Level::V4), 32 | 64, 256 | 512) => self.permuted(a, b, places, dtype, bits)?,
            (Some(X86Level::V3), 32, 256) => self.permuted_each(a, b, places, dtype)?,
            (None, 32, 128) if matches!(self.emit.target, Target::AArch64(_)) => self.emit.picked_by_table(a, b, places)?,
            _ => self.picked(a, b, places)?,
        };
        self.define(inst, picked);
        Ok(())
    }

    /// Permutes both vectors at once: `vpermt2ps` and its kin read the index bits that number the
    /// lanes.
    fn permuted(&self, a: Val<'c>, b: Val<'c>, places: Val<'c>, dtype: DType, bits: u32) -> Emitted<'c> {
        let kind = match (dtype.is_float(), dtype.bits()) {
            (true, 32) => "ps",
            (true, _) => "pd",
            (false, 32) => "d",
            (false, _) => "q",
        };
        let places = self.emit.resize(places, dtype.bits(), false)?;
        let picked = self.emit.target_intrinsic(&format!("llvm.x86.avx512.vpermi2var.{kind}.{bits}"), &[a, places, b])?;
        self.emit.bitcast(picked, self.emit.ty(dtype, lanes_of(a)))
    }

    /// Permutes each vector by the index bits that number its lanes; the next bit selects the
    /// vector.
    fn permuted_each(&self, a: Val<'c>, b: Val<'c>, places: Val<'c>, dtype: DType) -> Emitted<'c> {
        let name = if dtype.is_float() { "llvm.x86.avx2.permps" } else { "llvm.x86.avx2.permd" };
        let [first, second] = [a, b].map(|vector| self.emit.target_intrinsic(name, &[vector, places]));
        let lanes = lanes_of(a);
        let which = self.emit.and(places, self.emit.const_int(32, lanes, i64::from(lanes)))?;
        let is_first = self.emit.icmp(IntPredicate::EQ, which, self.emit.const_int(32, lanes, 0))?;
        self.emit.select(is_first, first?, second?)
    }

    fn picked(&self, a: Val<'c>, b: Val<'c>, places: Val<'c>) -> Emitted<'c> {
        let (Val::VectorValue(first), Val::VectorValue(numbers)) = (a, places) else {
            // One lane each: the lowest bit selects the vector.
            let is_first = self.emit.and(places, self.emit.const_int(32, 1, 1))?;
            let is_first = self.emit.icmp(IntPredicate::EQ, is_first, self.emit.const_int(32, 1, 0))?;
            return self.emit.select(is_first, a, b);
        };
        let lanes = lanes_of(a);
        let both = self.emit.shuffle(a, Some(b), 0..2 * lanes)?.into_vector_value();
        let most = self.emit.const_int(32, lanes, i64::from(2 * lanes) - 1);
        let numbers = self.emit.and(numbers.into(), most)?.into_vector_value();
        let mut picked = first.get_type().get_poison();
        for lane in 0..lanes {
            let lane = self.emit.i64(i64::from(lane));
            let place = self.emit.builder.build_extract_element(numbers, lane, "")?;
            let element = self.emit.builder.build_extract_element(both, place.into_int_value(), "")?;
            picked = self.emit.builder.build_insert_element(picked, element, lane, "")?;
        }
        Ok(picked.into())
    }
}
