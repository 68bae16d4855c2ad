//! Lowers dot products of elements that share a lane: one instruction each, if the target has it.
//!
//! `Target::word_elements` lists the forms of a target; schedules ask for no other.
use super::{Lowering, tiles::is_tile};
use crate::{Error, emit::lanes_of};
use disc_codegen::target::Target;
use disc_ir::{Attr, DType, Inst};

impl Lowering<'_, '_> {
    /// Bitcasts lanes to lanes of another size.
    pub(super) fn recast_lanes(&mut self, inst: Inst) -> Result<(), Error> {
        let value = self.value(self.function.operands(inst)[0])?;
        let (dtype, lanes) = self.vector_type(self.function.result(inst))?;
        if is_tile(value) {
            // The bits of a register have no type.
            self.define(inst, value);
            return Ok(());
        }
        let value = self.emit.bitcast(value, self.emit.ty(dtype, lanes))?;
        self.define(inst, value);
        Ok(())
    }

    pub(super) fn dot_lanes(&mut self, inst: Inst) -> Result<(), Error> {
        let operands = self.operands(inst)?;
        let &[a, b, sum] = &operands[..] else { return Err(self.error(inst, "needs three operands".to_owned())) };
        let Some(&Attr::DType(elements)) = self.attr(inst, "elements") else {
            return Err(self.error(inst, "needs the type `elements`".to_owned()));
        };
        let a_elements = match self.attr(inst, "a_elements") {
            Some(&Attr::DType(other)) => other,
            _ => elements,
        };
        let bits = 32 * lanes_of(sum);
        let none = || self.error(inst, format!("has no instruction for {a_elements} by {elements} in {bits} bits"));
        if matches!(self.emit.target, Target::AArch64(_)) {
            let value = self.emit.dot_on_arm([a_elements, elements], [a, b, sum])?.ok_or_else(none)?;
            self.define(inst, value);
            return Ok(());
        }
        let value = match (elements, bits) {
            (DType::I8, 128 | 256 | 512) if a_elements == DType::U8 => {
                self.emit.target_intrinsic(&format!("llvm.x86.avx512.vpdpbusd.{bits}"), &[sum, a, b])?
            }
            (DType::BF16, 128 | 256 | 512) => {
                self.emit.target_intrinsic(&format!("llvm.x86.avx512bf16.dpbf16ps.{bits}"), &[sum, a, b])?
            }
            (DType::I16, 128 | 256 | 512) => {
                let names = ["llvm.x86.sse2.pmadd.wd", "llvm.x86.avx2.pmadd.wd", "llvm.x86.avx512.pmaddw.d.512"];
                let products = self.emit.target_intrinsic(names[(bits / 256) as usize], &[a, b])?;
                self.emit.add(sum, products)?
            }
            _ => return Err(none()),
        };
        self.define(inst, value);
        Ok(())
    }

    pub(super) fn dot_pairs(&mut self, inst: Inst) -> Result<(), Error> {
        let operands = self.operands(inst)?;
        let (&[a, b, sum], Some(&Attr::DType(elements))) = (&operands[..], self.attr(inst, "elements")) else {
            return Err(self.error(inst, "needs three operands and the type `elements`".to_owned()));
        };
        let value = match self.emit.target {
            Target::AArch64(_) => self.emit.dot_pairs_on_arm(elements, [a, b, sum])?,
            _ => None,
        };
        let none = || self.error(inst, format!("has no instruction for {elements} in {} lanes", lanes_of(sum)));
        self.define(inst, value.ok_or_else(none)?);
        Ok(())
    }
}
