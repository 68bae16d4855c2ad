//! Lowers the start of a host program: reads sizes, checks the signature's facts, and chooses a
//! variant, before anything is allocated.
use super::{
    Lowering,
    host::words_of,
    runtime::{Host, RUNTIME, WEIGHTS},
};
use crate::{
    Error,
    emit::{Emit, Val},
    function::mark,
};
use disc_abi::{FLAG_ALIAS, FLAG_WRITTEN, Tensor};
use disc_codegen::host::signature::{FactCheck, Signature};
use disc_ir::{Function, Module, Symbol, dim::Fact};
use inkwell::{
    IntPredicate,
    module::Linkage,
    values::{FunctionValue, PointerValue},
};
use std::mem::offset_of;

/// Returns the exported name of a host program.
pub fn entry_symbol(name: &str) -> String {
    // A symbol's name is an identifier, and differs for different names.
    format!("disc_entry_{}", Symbol::new(name))
}

/// Lowers a host program of `program` into the module of `emit`.
pub(crate) fn lower_entry(emit: &Emit<'_>, program: &Module, function: &Function, signature: &Signature) -> Result<(), Error> {
    let llvm = declare_entry(emit, function);
    let start = emit.context.append_basic_block(llvm, "");
    emit.builder.position_at_end(start);
    let argument = |i| llvm.get_nth_param(i).expect("an entry has three parameters").into_pointer_value();
    let (ctx, inputs, outputs) = (argument(0), argument(1), argument(2));
    let words = emit.context.i64_type().array_type(words_of(program, function));
    let mut lowering = Lowering::new(emit, program, function, llvm);
    lowering.host = Some(Host {
        ctx,
        runtime: emit.load_pointer(ctx, RUNTIME)?,
        weights: emit.load_pointer(ctx, WEIGHTS)?,
        words: emit.builder.build_alloca(words, "")?,
    });
    lowering.bound = &signature.bound;
    lowering.check_inputs(inputs, signature)?;
    lowering.choose_variant()?;
    lowering.open_body()?;
    lowering.describe_stores(inputs, outputs)?;
    lowering.lower_block(function.body)?;
    emit.builder.build_return(Some(&emit.context.i32_type().const_zero()))?;
    Ok(())
}

/// Declares the LLVM function of a host program. Only the entry in the same library calls variants.
fn declare_entry<'c>(emit: &Emit<'c>, function: &Function) -> FunctionValue<'c> {
    let name = entry_symbol(&function.name);
    emit.module.get_function(&name).unwrap_or_else(|| {
        let ptr = emit.pointer().into();
        let ty = emit.context.i32_type().fn_type(&[ptr, ptr, ptr], false);
        let linkage = if function.variant_of.is_some() { Linkage::Internal } else { Linkage::External };
        let llvm = emit.module.add_function(&name, ty, Some(linkage));
        mark(emit.context, llvm, &emit.target);
        llvm
    })
}

impl<'c> Lowering<'_, 'c> {
    /// Tail-calls the first variant whose guard holds: its sizes are read and checked, and nothing
    /// is allocated yet.
    fn choose_variant(&mut self) -> Result<(), Error> {
        for variant in self.program.variants_of(self.function) {
            let mut holds = self.emit.const_int(1, 1, 1);
            for fact in variant.guard(self.function) {
                let one = self.holds(&fact)?.0;
                holds = self.emit.and(holds, one)?;
            }
            let [then, otherwise] = [(); 2].map(|()| self.emit.context.append_basic_block(self.llvm, ""));
            self.emit.builder.build_conditional_branch(holds.into_int_value(), then, otherwise)?;
            self.emit.builder.position_at_end(then);
            let arguments: Vec<_> = self.llvm.get_param_iter().map(Into::into).collect();
            let call = self.emit.builder.build_call(declare_entry(self.emit, variant), &arguments, "")?;
            let status = call.try_as_basic_value().expect_basic("an entry returns a status");
            self.emit.builder.build_return(Some(&status))?;
            self.emit.builder.position_at_end(otherwise);
        }
        Ok(())
    }

    fn check_inputs(&mut self, inputs: PointerValue<'c>, signature: &Signature) -> Result<(), Error> {
        let mut sizes = Vec::new();
        for (i, &parameter) in self.function.parameters().iter().enumerate() {
            let field = |offset| self.emit.load_pointer(inputs, i * size_of::<Tensor>() + offset);
            let (data, strides) = (field(offset_of!(Tensor, data))?, field(offset_of!(Tensor, strides))?);
            sizes.push(field(offset_of!(Tensor, sizes))?);
            self.bind(parameter, data.into());
            let contiguous = self.emit.builder.build_is_null(strides, "")?;
            self.fail_unless(contiguous.into(), signature.contiguous, &[self.emit.i64(i as i64).into()])?;
        }
        for binding in &signature.bindings {
            let mut value = self.emit.load_i64(sizes[binding.parameter], binding.axis as i64)?;
            if !binding.is_plain() {
                let rest = self.dim_value(&binding.rest)?;
                value = self.emit.floor_divide(self.emit.sub(value, rest)?, self.emit.i64(binding.scale).into())?;
            }
            self.symbols.insert(binding.symbol.clone(), value);
        }
        for check in &signature.sizes {
            let came = self.emit.load_i64(sizes[check.input], check.axis as i64)?;
            let expected = self.bounded_value(&check.expected)?;
            let equal = self.emit.icmp(IntPredicate::EQ, came, expected)?;
            self.fail_unless(equal, check.site, &[came, expected])?;
        }
        signature.facts.iter().try_for_each(|check| self.check_fact(check))
    }

    /// Describes the outputs that are stored into inputs: each is in the memory of its input.
    fn describe_stores(&mut self, inputs: PointerValue<'c>, outputs: PointerValue<'c>) -> Result<(), Error> {
        for store in &self.function.stores {
            let field = |offset| store.parameter * size_of::<Tensor>() + offset;
            let data = self.emit.load_pointer(inputs, field(offset_of!(Tensor, data)))?;
            let output = |offset| store.result * size_of::<Tensor>() + offset;
            let place = self.emit.field(outputs, output(offset_of!(Tensor, data)))?;
            self.emit.builder.build_store(place, data)?;
            let flags = self.emit.context.i16_type().const_int(u64::from(FLAG_WRITTEN | FLAG_ALIAS), false);
            let place = self.emit.field(outputs, output(offset_of!(Tensor, flags)))?;
            self.emit.builder.build_store(place, flags)?;
            let came = self.emit.load_pointer(inputs, field(offset_of!(Tensor, sizes)))?;
            let sizes = self.emit.load_pointer(outputs, output(offset_of!(Tensor, sizes)))?;
            let parameter = self.function.parameters()[store.parameter];
            let rank = self.function.ty(parameter).shaped().map_or(0, |tensor| tensor.dims.len());
            for axis in 0..rank as i64 {
                let size = self.emit.load_i64(came, axis)?;
                let place = self.emit.slot(sizes, axis)?;
                self.emit.builder.build_store(place, size.into_int_value())?;
            }
        }
        Ok(())
    }

    pub(super) fn check_fact(&mut self, check: &FactCheck) -> Result<(), Error> {
        let (holds, values) = self.holds(&check.fact)?;
        self.fail_unless(holds, check.site, &values)
    }

    /// Evaluates a fact. Returns its truth value and the values that it compares.
    fn holds(&mut self, fact: &Fact) -> Result<(Val<'c>, Vec<Val<'c>>), Error> {
        Ok(match fact {
            Fact::Equal(a, b) => {
                let values = [self.bounded_value(a)?, self.bounded_value(b)?];
                let equal = self.emit.icmp(IntPredicate::EQ, values[0], values[1])?;
                let known = self.emit.icmp(IntPredicate::NE, values[0], self.emit.i64(i64::MAX).into())?;
                (self.emit.and(equal, known)?, values.into())
            }
            Fact::Range(dim, range) => {
                let value = self.bounded_value(dim)?;
                let mut holds = self.emit.const_int(1, 1, 1);
                for (predicate, bound) in [(IntPredicate::SGE, range.lo), (IntPredicate::SLE, range.hi)] {
                    if let Some(bound) = bound {
                        let within = self.emit.icmp(predicate, value, self.emit.i64(bound).into())?;
                        holds = self.emit.and(holds, within)?;
                    }
                }
                (holds, vec![value])
            }
            Fact::Divisible(dim, by) => {
                let value = self.bounded_value(dim)?;
                let rest = self.emit.int_remainder(value, self.emit.i64(*by).into(), true)?;
                (self.emit.icmp(IntPredicate::EQ, rest, self.emit.const_int(64, 1, 0))?, vec![value])
            }
            Fact::Likely(..) => (self.emit.const_int(1, 1, 1), Vec::new()),
        })
    }
}
