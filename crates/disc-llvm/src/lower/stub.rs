//! Emits the stubs of deferred functions, which find the function and jump to it, and the table of
//! their addresses in the whole library.
use super::declare;
use crate::{Error, emit::Emit};
use disc_abi::{DEFERRED_LOOKUP_SYMBOL, DEFERRED_TABLE_SYMBOL, DeferredLookup, STATUS_FAILED};
use disc_ir::{Function, Module};
use inkwell::{
    llvm_sys::LLVMTailCallKind,
    values::{BasicMetadataValueEnum, GlobalValue},
};
use std::mem::offset_of;

/// Emits stubs under the names of `functions`, which are numbered in this order, and the words that
/// the loader fills in.
pub(crate) fn lower_stubs(emit: &Emit<'_>, program: &Module, functions: &[&Function]) -> Result<(), Error> {
    let ptr = emit.pointer();
    let words = emit.context.struct_type(&[ptr.into(), ptr.into()], false);
    let lookup = emit.module.add_global(words, None, DEFERRED_LOOKUP_SYMBOL);
    lookup.set_initializer(&words.const_zero());
    lookup.set_alignment(align_of::<DeferredLookup>() as u32);
    (0..).zip(functions).try_for_each(|(number, function)| lower_stub(emit, program, lookup, number, function))
}

fn lower_stub<'c>(
    emit: &Emit<'c>,
    program: &Module,
    lookup: GlobalValue<'c>,
    number: u64,
    function: &Function,
) -> Result<(), Error> {
    let llvm = declare(emit, program, function)?;
    let [start, found, lacks] = [(); 3].map(|()| emit.context.append_basic_block(llvm, ""));
    emit.builder.position_at_end(start);
    let word = |at: usize| -> Result<_, Error> {
        let place = emit.slot(lookup.as_pointer_value(), (at / size_of::<*const ()>()) as i64)?;
        Ok(emit.builder.build_load(emit.pointer(), place, "")?.into_pointer_value())
    };
    let (find, context) = (word(offset_of!(DeferredLookup, find))?, word(offset_of!(DeferredLookup, context))?);
    let i32t = emit.context.i32_type();
    let find_type = emit.pointer().fn_type(&[emit.pointer().into(), i32t.into()], false);
    let arguments = [context.into(), i32t.const_int(number, false).into()];
    let call = emit.builder.build_indirect_call(find_type, find, &arguments, "")?;
    let address = call.try_as_basic_value().expect_basic("an address is returned").into_pointer_value();
    let is_null = emit.builder.build_is_null(address, "")?;
    emit.builder.build_conditional_branch(is_null, lacks, found)?;

    emit.builder.position_at_end(found);
    let arguments: Vec<BasicMetadataValueEnum<'c>> = llvm.get_param_iter().map(Into::into).collect();
    let call = emit.builder.build_indirect_call(llvm.get_type(), address, &arguments, "")?;
    call.set_tail_call_kind(LLVMTailCallKind::LLVMTailCallKindMustTail);
    let status = call.try_as_basic_value().expect_basic("a kernel returns a status");
    emit.builder.build_return(Some(&status))?;

    emit.builder.position_at_end(lacks);
    emit.builder.build_return(Some(&i32t.const_int(STATUS_FAILED as u64, true)))?;
    Ok(())
}

/// Emits the table of the addresses of `functions`, in this order.
pub(crate) fn lower_table(emit: &Emit<'_>, program: &Module, functions: &[&Function]) -> Result<(), Error> {
    let address = |function: &&Function| Ok(declare(emit, program, function)?.as_global_value().as_pointer_value());
    let addresses = functions.iter().map(address).collect::<Result<Vec<_>, Error>>()?;
    let values = emit.pointer().const_array(&addresses);
    let table = emit.module.add_global(values.get_type(), None, DEFERRED_TABLE_SYMBOL);
    table.set_initializer(&values);
    table.set_constant(true);
    Ok(())
}
