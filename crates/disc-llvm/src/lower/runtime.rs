//! Reads the structs of `disc-abi` from generated code, and calls the runtime's functions.
//!
//! Field positions come from `offset_of!`. A runtime function that fails has recorded the reason
//! before it returns.
use super::Lowering;
use crate::{
    Error,
    emit::{Emit, Val},
};
use disc_abi::{Context, Runtime, STATUS_FAILED};
use disc_ir::{DType, Inst};
use inkwell::{
    module::Linkage,
    types::BasicTypeEnum,
    values::{BasicMetadataValueEnum, PointerValue},
};
use std::mem::offset_of;

/// The values that the code of a host program uses.
pub(super) struct Host<'c> {
    pub(super) ctx: PointerValue<'c>,
    pub(super) runtime: PointerValue<'c>,
    /// The addresses of the weights.
    pub(super) weights: PointerValue<'c>,
    /// Eight-byte words for the arguments of a launch, the sizes of an output, or the values of a
    /// failure.
    pub(super) words: PointerValue<'c>,
}

impl<'c> Emit<'c> {
    /// Returns the address of the field at `offset` bytes of a struct.
    pub(super) fn field(&self, base: PointerValue<'c>, offset: usize) -> Result<PointerValue<'c>, Error> {
        Ok(self.element_address(DType::U8, base, self.i64(offset as i64).into())?.into_pointer_value())
    }

    /// Returns the address of a constant table.
    pub(super) fn table(&self, values: &[i64]) -> PointerValue<'c> {
        let i64t = self.context.i64_type();
        let values: Vec<_> = values.iter().map(|&value| self.i64(value)).collect();
        let table = self.module.add_global(i64t.array_type(values.len() as u32), None, "table");
        table.set_initializer(&i64t.const_array(&values));
        table.set_constant(true);
        table.set_linkage(Linkage::Internal);
        table.as_pointer_value()
    }

    pub(super) fn load_pointer(&self, base: PointerValue<'c>, offset: usize) -> Result<PointerValue<'c>, Error> {
        let at = self.field(base, offset)?;
        Ok(self.builder.build_load(self.pointer(), at, "")?.into_pointer_value())
    }

    pub(super) fn load_i64(&self, array: PointerValue<'c>, position: i64) -> Result<Val<'c>, Error> {
        let at = self.slot(array, position)?;
        Ok(self.builder.build_load(self.context.i64_type(), at, "")?)
    }
}

impl<'c> Lowering<'_, 'c> {
    pub(super) fn host(&self, inst: Inst) -> Result<&Host<'c>, Error> {
        self.host.as_ref().ok_or_else(|| self.error(inst, "is an op of host programs".to_owned()))
    }

    /// Calls the function at `offset` of the runtime's table, with the context and `arguments`.
    fn call_runtime(&self, offset: usize, result: BasicTypeEnum<'c>, arguments: &[Val<'c>]) -> Result<Val<'c>, Error> {
        let host = self.host.as_ref().ok_or_else(|| Error::Emit("the runtime is called outside of a host program".to_owned()))?;
        let arguments: Vec<Val<'c>> = std::iter::once(host.ctx.into()).chain(arguments.iter().copied()).collect();
        let types: Vec<_> = arguments.iter().map(|value| value.get_type().into()).collect();
        let ty = match result {
            BasicTypeEnum::PointerType(ty) => ty.fn_type(&types, false),
            other => other.into_int_type().fn_type(&types, false),
        };
        let function = self.emit.load_pointer(host.runtime, offset)?;
        let arguments: Vec<BasicMetadataValueEnum<'c>> = arguments.into_iter().map(Into::into).collect();
        let call = self.emit.builder.build_indirect_call(ty, function, &arguments, "")?;
        Ok(call.try_as_basic_value().expect_basic("the runtime's functions have results"))
    }

    fn status(&self) -> BasicTypeEnum<'c> {
        self.emit.context.i32_type().into()
    }

    /// Allocates temporary memory of the call, or ends the entry.
    pub(super) fn call_alloc(&mut self, bytes: Val<'c>) -> Result<PointerValue<'c>, Error> {
        let memory = self.call_runtime(offset_of!(Runtime, alloc), self.emit.pointer().into(), &[bytes])?;
        self.return_if_null(memory.into_pointer_value())
    }

    /// Marks the amount of temporary memory in use.
    pub(super) fn call_mark(&mut self) -> Result<Val<'c>, Error> {
        self.call_runtime(offset_of!(Runtime, mark), self.emit.context.i64_type().into(), &[])
    }

    /// Frees the temporary memory since a mark.
    pub(super) fn call_release(&mut self, mark: Val<'c>) -> Result<(), Error> {
        let host = self.host.as_ref().ok_or_else(|| Error::Emit("the runtime is called outside of a host program".to_owned()))?;
        let ty = self.emit.context.void_type().fn_type(&[self.emit.pointer().into(), mark.get_type().into()], false);
        let function = self.emit.load_pointer(host.runtime, offset_of!(Runtime, release))?;
        self.emit.builder.build_indirect_call(ty, function, &[host.ctx.into(), mark.into()], "")?;
        Ok(())
    }

    /// Lays out parts of these sizes. Returns the total size. See
    /// `disc_abi::Runtime::layout_arena`.
    pub(super) fn call_layout_arena(
        &mut self,
        parts: usize,
        sizes: PointerValue<'c>,
        meets: &[i64],
        offsets: PointerValue<'c>,
    ) -> Result<Val<'c>, Error> {
        let c = |value: usize| self.emit.const_int(32, 1, value as i64);
        let (words, meets) = (c(meets.len()), self.emit.table(meets));
        let arguments = [c(parts), sizes.into(), meets.into(), words, offsets.into()];
        self.call_runtime(offset_of!(Runtime, layout_arena), self.emit.context.i64_type().into(), &arguments)
    }

    /// Allocates an output of these sizes, or ends the entry.
    pub(super) fn call_alloc_output(&mut self, index: i64, dtype: DType, sizes: &[Val<'c>]) -> Result<PointerValue<'c>, Error> {
        let words = self.write_words(sizes)?;
        let c = |value: i64| self.emit.const_int(32, 1, value);
        let arguments = [c(index), c(abi_code(dtype)), c(sizes.len() as i64), words.into()];
        let memory = self.call_runtime(offset_of!(Runtime, alloc_output), self.emit.pointer().into(), &arguments)?;
        self.return_if_null(memory.into_pointer_value())
    }

    /// Launches a kernel whose argument block is written: kernel, block, units, cost, bytes of
    /// scratch.
    pub(super) fn call_launch(&mut self, arguments: [Val<'c>; 5]) -> Result<(), Error> {
        let status = self.call_runtime(offset_of!(Runtime, launch), self.status(), &arguments)?;
        self.return_failure(status)
    }

    /// Launches GPU kernel number `kernel`, whose words are written.
    pub(super) fn call_launch_grid(
        &mut self,
        kernel: u32,
        arguments: PointerValue<'c>,
        words: usize,
        grid: PointerValue<'c>,
    ) -> Result<(), Error> {
        let c = |value: i64| self.emit.const_int(32, 1, value);
        let given = [c(kernel.into()), arguments.into(), c(words as i64), grid.into()];
        let status = self.call_runtime(offset_of!(Runtime, launch_grid), self.status(), &given)?;
        self.return_failure(status)
    }

    /// Makes an offer whose words are written, by a function of the runtime at this offset, to a
    /// library of the device, which writes its answer into the first word.
    pub(super) fn call_offer(&mut self, function: usize, offer: PointerValue<'c>) -> Result<(), Error> {
        let status = self.call_runtime(function, self.status(), &[offer.into()])?;
        self.return_failure(status)
    }

    /// Replaces addresses of device memory in words by what is there, of these sizes.
    pub(super) fn call_fetch(&mut self, words: PointerValue<'c>, sizes: &[i64]) -> Result<(), Error> {
        let count = self.emit.const_int(32, 1, sizes.len() as i64);
        let arguments = [words.into(), self.emit.table(sizes).into(), count];
        let status = self.call_runtime(offset_of!(Runtime, fetch), self.status(), &arguments)?;
        self.return_failure(status)
    }

    /// Offers a GEMM whose words are written.
    pub(super) fn call_gemm(&mut self, product: PointerValue<'c>) -> Result<(), Error> {
        let status = self.call_runtime(offset_of!(Runtime, gemm), self.status(), &[product.into()])?;
        self.return_failure(status)
    }

    /// Ends the entry at a site, with these values, unless `pred` holds.
    pub(super) fn fail_unless(&mut self, pred: Val<'c>, site: i64, values: &[Val<'c>]) -> Result<(), Error> {
        let [fails, holds] = [self.append_block(), self.append_block()];
        self.emit.builder.build_conditional_branch(pred.into_int_value(), holds, fails)?;
        self.emit.builder.position_at_end(fails);
        let words = self.write_words(values)?;
        let c = |value: i64| self.emit.const_int(32, 1, value);
        let arguments = [c(site), words.into(), c(values.len() as i64)];
        let status = self.call_runtime(offset_of!(Runtime, fail), self.status(), &arguments)?;
        self.emit.builder.build_return(Some(&status))?;
        self.emit.builder.position_at_end(holds);
        Ok(())
    }

    /// Writes values into the words of the host program, from the first on. Returns their address.
    pub(super) fn write_words(&self, values: &[Val<'c>]) -> Result<PointerValue<'c>, Error> {
        let host = self.host.as_ref().ok_or_else(|| Error::Emit("only a host program has words".to_owned()))?;
        for (position, &value) in (0..).zip(values) {
            let at = self.emit.slot(host.words, position)?;
            self.emit.builder.build_store(at, value)?;
        }
        Ok(host.words)
    }

    fn return_if_null(&mut self, memory: PointerValue<'c>) -> Result<PointerValue<'c>, Error> {
        let is_null = self.emit.builder.build_is_null(memory, "")?;
        let [failed, after] = [self.append_block(), self.append_block()];
        self.emit.builder.build_conditional_branch(is_null, failed, after)?;
        self.emit.builder.position_at_end(failed);
        let status = self.emit.const_int(32, 1, STATUS_FAILED.into());
        self.emit.builder.build_return(Some(&status))?;
        self.emit.builder.position_at_end(after);
        Ok(memory)
    }
}

/// Offsets in the context of the runtime's table, of the threshold for non-temporal stores, and of
/// the table of weights.
pub(super) const RUNTIME: usize = offset_of!(Context, runtime);
pub(super) const NONTEMPORAL_BYTES: usize = offset_of!(Context, nontemporal_bytes);
pub(super) const WEIGHTS: usize = offset_of!(Context, weights);

/// Returns the runtime's number for an element type.
pub(super) fn abi_code(dtype: DType) -> i64 {
    let code = match dtype {
        DType::F16 => disc_abi::DType::F16,
        DType::BF16 => disc_abi::DType::BF16,
        DType::F32 => disc_abi::DType::F32,
        DType::F64 => disc_abi::DType::F64,
        DType::I1 => disc_abi::DType::I1,
        DType::I8 => disc_abi::DType::I8,
        DType::U8 => disc_abi::DType::U8,
        DType::I16 => disc_abi::DType::I16,
        DType::U16 => disc_abi::DType::U16,
        DType::I32 => disc_abi::DType::I32,
        DType::U32 => disc_abi::DType::U32,
        DType::I64 => disc_abi::DType::I64,
        DType::U64 => disc_abi::DType::U64,
    };
    code.code().into()
}
