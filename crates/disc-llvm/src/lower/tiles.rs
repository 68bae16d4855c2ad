//! Lowers tile registers of x86-64 (AMX): LLVM allocates and configures them.
//!
//! A value of 1024 bytes is a register, whose type in LLVM is `x86_amx`. inkwell does not know that
//! type and takes no value of it: such values are passed through as vectors, which nothing but the
//! ops of this file, loops and branches look at.
use super::Lowering;
use crate::{
    Error,
    emit::{Emit, Val},
};
use disc_ir::{
    DType, Inst, Literal, Value,
    fragment::{REGISTER_ROW_BYTES, REGISTER_ROWS, Tile},
};
use inkwell::{
    intrinsics::Intrinsic,
    types::AsTypeRef,
    values::{AsValueRef, PhiValue, VectorValue},
};
use llvm_sys::{
    LLVMTypeKind,
    core::{LLVMBuildCall2, LLVMBuildPhi, LLVMGetTypeKind, LLVMTypeOf},
    prelude::LLVMValueRef,
};

/// Returns true for a value that is a tile register.
pub(super) fn is_tile(value: impl AsValueRef) -> bool {
    // SAFETY: a value has a type.
    unsafe { LLVMGetTypeKind(LLVMTypeOf(value.as_value_ref())) == LLVMTypeKind::LLVMX86_AMXTypeKind }
}

/// Returns the value of a phi, which may be a tile register.
pub(super) fn value_of<'c>(phi: PhiValue<'c>) -> Val<'c> {
    // SAFETY: the wrapper holds a value of any type.
    if is_tile(phi) { unsafe { VectorValue::new(phi.as_value_ref()).into() } } else { phi.as_basic_value() }
}

impl<'c> Emit<'c> {
    /// Emits a phi of the type of a value, which may be a tile register.
    pub(super) fn phi_of(&self, value: Val<'c>) -> Result<PhiValue<'c>, Error> {
        if !is_tile(value) {
            return Ok(self.builder.build_phi(value.get_type(), "")?);
        }
        // SAFETY: a type of this context, at the position of the builder.
        Ok(unsafe { PhiValue::new(LLVMBuildPhi(self.builder.as_mut_ptr(), LLVMTypeOf(value.as_value_ref()), c"".as_ptr())) })
    }

    /// Calls an intrinsic of tile registers.
    fn tile_intrinsic(&self, name: &str, arguments: &[Val<'c>]) -> Result<LLVMValueRef, Error> {
        let declared = Intrinsic::find(name).and_then(|intrinsic| intrinsic.get_declaration(&self.module, &[]));
        let function = declared.ok_or_else(|| Error::Emit(format!("LLVM has no intrinsic {name}")))?;
        let mut arguments: Vec<LLVMValueRef> = arguments.iter().map(AsValueRef::as_value_ref).collect();
        let (ty, count) = (function.get_type().as_type_ref(), arguments.len() as u32);
        // SAFETY: values of this context, at the position of the builder, as many as the intrinsic
        // takes. inkwell's own method refuses the type of tiles.
        Ok(unsafe {
            LLVMBuildCall2(self.builder.as_mut_ptr(), ty, function.as_value_ref(), arguments.as_mut_ptr(), count, c"".as_ptr())
        })
    }

    /// Calls an intrinsic that returns a tile register.
    fn tile(&self, name: &str, arguments: &[Val<'c>]) -> Result<Val<'c>, Error> {
        let value = self.tile_intrinsic(name, arguments)?;
        // SAFETY: the wrapper holds a value of any type.
        Ok(unsafe { VectorValue::new(value) }.into())
    }

    /// The rows of a register, and the bytes of a row.
    fn register_size(&self) -> [Val<'c>; 2] {
        [REGISTER_ROWS, REGISTER_ROW_BYTES as i64].map(|size| self.const_int(16, 1, size))
    }
}

impl<'c> Lowering<'_, 'c> {
    /// Lowers the constant of a register.
    pub(super) fn zero_tile(&mut self, inst: Inst, literal: &Literal) -> Result<(), Error> {
        if !literal.splat || literal.bytes.iter().any(|&byte| byte != 0) {
            return Err(self.error(inst, "is a tile register, which starts as zeros".to_owned()));
        }
        let value = self.emit.tile("llvm.x86.tilezero.internal", &self.emit.register_size())?;
        self.define(inst, value);
        Ok(())
    }

    /// The arguments that name the memory of a register.
    fn tile_in_memory(&mut self, buffer: Value, index: Value, stride: Value) -> Result<[Val<'c>; 4], Error> {
        let bytes = self.emit.const_int(64, 1, self.function.ty(buffer).dtype().size() as i64);
        let stride = self.emit.resize(self.value(stride)?, 64, true)?;
        let [rows, row] = self.emit.register_size();
        Ok([rows, row, self.address(buffer, index)?, self.emit.mul(stride, bytes)?])
    }

    pub(super) fn load_tile(&mut self, inst: Inst) -> Result<(), Error> {
        let &[buffer, index, stride] = self.function.operands(inst) else {
            return Err(self.error(inst, "needs three operands".to_owned()));
        };
        let arguments = self.tile_in_memory(buffer, index, stride)?;
        let value = self.emit.tile("llvm.x86.tileloadd64.internal", &arguments)?;
        self.define(inst, value);
        Ok(())
    }

    pub(super) fn store_tile(&mut self, inst: Inst) -> Result<(), Error> {
        let &[buffer, index, stride, value] = self.function.operands(inst) else {
            return Err(self.error(inst, "needs four operands".to_owned()));
        };
        let mut arguments = self.tile_in_memory(buffer, index, stride)?.to_vec();
        arguments.push(self.value(value)?);
        self.emit.tile_intrinsic("llvm.x86.tilestored64.internal", &arguments)?;
        Ok(())
    }

    /// Multiplies tiles that are registers.
    pub(super) fn multiply_registers(&mut self, inst: Inst) -> Result<(), Error> {
        let tile = Tile::from_name(self.word(inst, "tile")?).filter(|tile| tile.warp() == 1);
        let tile = tile.ok_or_else(|| self.error(inst, "has a tile of several threads".to_owned()))?;
        let operands = self.function.operands(inst).to_vec();
        let name = match (tile, self.function.ty(operands[0]).dtype(), self.function.ty(operands[1]).dtype()) {
            (Tile::Amx16x16x32, DType::BF16, _) => "tdpbf16ps",
            (Tile::Amx16x16x32, ..) => "tdpfp16ps",
            (_, DType::I8, DType::I8) => "tdpbssd",
            (_, DType::I8, _) => "tdpbsud",
            (_, _, DType::I8) => "tdpbusd",
            _ => "tdpbuud",
        };
        let [rows, row] = self.emit.register_size();
        let [a, b, c] = [self.value(operands[0])?, self.value(operands[1])?, self.value(operands[2])?];
        let value = self.emit.tile(&format!("llvm.x86.{name}.internal"), &[rows, row, row, c, a, b])?;
        self.define(inst, value);
        Ok(())
    }
}
