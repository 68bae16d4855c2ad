//! Emits LLVM instructions on scalars and vectors alike, for the lowering of every op.
//!
//! It knows element types and lanes, and no ops. A value with one lane is a scalar, any other a
//! fixed vector. Invariants:
//! - f16 and bf16 values are their bits, as `i16`: nothing here makes LLVM compute with half
//!   floats, which would call a library;
//! - truth values are `i1` in registers and bytes, 0 or 1, in memory;
//! - no instruction carries a fast-math flag, and none gives poison for any value of its operands.
use crate::Error;
use disc_codegen::target::Target;
use disc_ir::DType;
use inkwell::{
    AddressSpace, FloatPredicate, IntPredicate,
    builder::Builder,
    context::Context,
    intrinsics::Intrinsic,
    module::Module,
    types::{AsTypeRef, BasicTypeEnum, IntType, PointerType, VectorType},
    values::{AsValueRef, BasicMetadataValueEnum, BasicValueEnum, CallSiteValue, InstructionOpcode, IntValue, PointerValue},
};
use llvm_sys::core::LLVMBuildGEP2;

pub(crate) type Val<'c> = BasicValueEnum<'c>;
pub(crate) type Emitted<'c> = Result<Val<'c>, Error>;

/// A module under construction, and the insertion point.
pub(crate) struct Emit<'c> {
    pub(crate) context: &'c Context,
    pub(crate) module: Module<'c>,
    pub(crate) builder: Builder<'c>,
    pub(crate) target: Target,
}

impl<'c> Emit<'c> {
    pub(crate) fn new(context: &'c Context, module: Module<'c>, target: Target) -> Self {
        Self { context, module, builder: context.create_builder(), target }
    }

    pub(crate) fn pointer(&self) -> PointerType<'c> {
        self.context.ptr_type(AddressSpace::default())
    }

    pub(crate) fn int(&self, bits: u32) -> IntType<'c> {
        let bits = std::num::NonZeroU32::new(bits).expect("an integer has bits");
        self.context.custom_width_int_type(bits).expect("LLVM has integers of up to 2^23 bits")
    }

    pub(crate) fn i64(&self, value: i64) -> IntValue<'c> {
        self.context.i64_type().const_int(value as u64, true)
    }

    /// Returns the type of a value in a register.
    pub(crate) fn ty(&self, dtype: DType, lanes: u32) -> BasicTypeEnum<'c> {
        let element: BasicTypeEnum<'c> = match dtype {
            DType::F32 => self.context.f32_type().into(),
            DType::F64 => self.context.f64_type().into(),
            DType::I1 => self.context.bool_type().into(),
            DType::F16 | DType::BF16 => self.context.i16_type().into(),
            DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::I32 | DType::U32 | DType::I64 | DType::U64 => {
                self.int(dtype.bits()).into()
            }
        };
        vector_of(element, lanes)
    }

    /// Returns the type of a value in memory.
    pub(crate) fn memory_ty(&self, dtype: DType, lanes: u32) -> BasicTypeEnum<'c> {
        match dtype {
            DType::I1 => self.int_ty(8, lanes),
            other => self.ty(other, lanes),
        }
    }

    pub(crate) fn int_ty(&self, bits: u32, lanes: u32) -> BasicTypeEnum<'c> {
        vector_of(self.int(bits).into(), lanes)
    }

    /// Splats `value`, wrapped to `bits`.
    pub(crate) fn const_int(&self, bits: u32, lanes: u32, value: i64) -> Val<'c> {
        repeat(self.int(bits).const_int(value as u64, true).into(), lanes)
    }

    /// Splats `value`, rounded to `dtype`, which is f32 or f64.
    pub(crate) fn const_float(&self, dtype: DType, lanes: u32, value: f64) -> Val<'c> {
        let ty = self.ty(dtype, 1).into_float_type();
        repeat(ty.const_float(value).into(), lanes)
    }

    pub(crate) fn binary(&self, opcode: InstructionOpcode, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        Ok(self.builder.build_binop(opcode, a, b, "")?)
    }

    pub(crate) fn add(&self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        self.binary(InstructionOpcode::Add, a, b)
    }

    pub(crate) fn sub(&self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        self.binary(InstructionOpcode::Sub, a, b)
    }

    pub(crate) fn mul(&self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        self.binary(InstructionOpcode::Mul, a, b)
    }

    pub(crate) fn and(&self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        self.binary(InstructionOpcode::And, a, b)
    }

    pub(crate) fn or(&self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        self.binary(InstructionOpcode::Or, a, b)
    }

    pub(crate) fn xor(&self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        self.binary(InstructionOpcode::Xor, a, b)
    }

    /// Shifts by a constant below the width.
    pub(crate) fn shift(&self, opcode: InstructionOpcode, a: Val<'c>, amount: u32) -> Emitted<'c> {
        self.binary(opcode, a, self.const_int(int_bits(a), lanes_of(a), i64::from(amount)))
    }

    pub(crate) fn cast(&self, opcode: InstructionOpcode, value: Val<'c>, to: BasicTypeEnum<'c>) -> Emitted<'c> {
        if value.get_type() == to {
            return Ok(value);
        }
        Ok(self.builder.build_cast(opcode, value, to, "")?)
    }

    pub(crate) fn bitcast(&self, value: Val<'c>, to: BasicTypeEnum<'c>) -> Emitted<'c> {
        self.cast(InstructionOpcode::BitCast, value, to)
    }

    /// Converts an integer to another width: truncates it, or extends it as `signed` says.
    pub(crate) fn resize(&self, value: Val<'c>, bits: u32, signed: bool) -> Emitted<'c> {
        let opcode = match (int_bits(value) > bits, signed) {
            (true, _) => InstructionOpcode::Trunc,
            (false, true) => InstructionOpcode::SExt,
            (false, false) => InstructionOpcode::ZExt,
        };
        self.cast(opcode, value, self.int_ty(bits, lanes_of(value)))
    }

    pub(crate) fn icmp(&self, predicate: IntPredicate, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        Ok(match (a, b) {
            (Val::VectorValue(a), Val::VectorValue(b)) => self.builder.build_int_compare(predicate, a, b, "")?.into(),
            (a, b) => self.builder.build_int_compare(predicate, a.into_int_value(), b.into_int_value(), "")?.into(),
        })
    }

    pub(crate) fn fcmp(&self, predicate: FloatPredicate, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        Ok(match (a, b) {
            (Val::VectorValue(a), Val::VectorValue(b)) => self.builder.build_float_compare(predicate, a, b, "")?.into(),
            (a, b) => self.builder.build_float_compare(predicate, a.into_float_value(), b.into_float_value(), "")?.into(),
        })
    }

    /// Selects `a` in the lanes where `mask` holds, else `b`.
    pub(crate) fn select(&self, mask: Val<'c>, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        Ok(match mask {
            Val::VectorValue(mask) => self.builder.build_select(mask, a, b, "")?,
            mask => self.builder.build_select(mask.into_int_value(), a, b, "")?,
        })
    }

    pub(crate) fn negate_float(&self, a: Val<'c>) -> Emitted<'c> {
        Ok(match a {
            Val::VectorValue(a) => self.builder.build_float_neg(a, "")?.into(),
            a => self.builder.build_float_neg(a.into_float_value(), "")?.into(),
        })
    }

    /// Calls an intrinsic of LLVM that is overloaded on `types`.
    pub(crate) fn call_intrinsic(
        &self,
        name: &str,
        types: &[BasicTypeEnum<'c>],
        arguments: &[Val<'c>],
    ) -> Result<CallSiteValue<'c>, Error> {
        let declared = Intrinsic::find(name).and_then(|intrinsic| intrinsic.get_declaration(&self.module, types));
        let function = declared.ok_or_else(|| Error::Emit(format!("LLVM has no intrinsic {name} of these types")))?;
        let arguments: Vec<BasicMetadataValueEnum<'c>> = arguments.iter().map(|&a| a.into()).collect();
        Ok(self.builder.build_call(function, &arguments, "")?)
    }

    /// Calls an intrinsic that is overloaded only on the type of its first argument.
    pub(crate) fn intrinsic(&self, name: &str, arguments: &[Val<'c>]) -> Emitted<'c> {
        self.typed_intrinsic(name, &[arguments[0].get_type()], arguments)
    }

    /// Calls an intrinsic with a value, overloaded on `types`.
    pub(crate) fn typed_intrinsic(&self, name: &str, types: &[BasicTypeEnum<'c>], arguments: &[Val<'c>]) -> Emitted<'c> {
        let call = self.call_intrinsic(name, types, arguments)?;
        Ok(call.try_as_basic_value().expect_basic("an intrinsic with a value"))
    }

    /// Calls an intrinsic of one target, whose types are fixed: arguments are bitcast to them.
    pub(crate) fn target_intrinsic(&self, name: &str, arguments: &[Val<'c>]) -> Emitted<'c> {
        let declared = Intrinsic::find(name).and_then(|intrinsic| intrinsic.get_declaration(&self.module, &[]));
        let function = declared.ok_or_else(|| Error::Emit(format!("LLVM has no intrinsic {name}")))?;
        let taken = function.get_type().get_param_types();
        let arguments = arguments.iter().zip(taken).map(|(&argument, ty)| {
            let ty = BasicTypeEnum::try_from(ty).map_err(|()| Error::Emit(format!("{name} takes what is no value")))?;
            Ok(self.bitcast(argument, ty)?.into())
        });
        let arguments = arguments.collect::<Result<Vec<BasicMetadataValueEnum<'c>>, Error>>()?;
        let call = self.builder.build_call(function, &arguments, "")?;
        Ok(call.try_as_basic_value().expect_basic("an intrinsic with a value"))
    }

    /// Broadcasts a scalar to all lanes.
    pub(crate) fn splat(&self, scalar: Val<'c>, lanes: u32) -> Emitted<'c> {
        if lanes == 1 {
            return Ok(scalar);
        }
        let BasicTypeEnum::VectorType(vector) = vector_of(scalar.get_type(), lanes) else {
            return Err(Error::Emit("a splat of what is no scalar".to_owned()));
        };
        let first = self.builder.build_insert_element(vector.get_poison(), scalar, self.i64(0), "")?;
        let zeros = self.context.i32_type().vec_type(lanes).const_zero();
        Ok(self.builder.build_shuffle_vector(first, vector.get_poison(), zeros, "")?.into())
    }

    /// Shuffles the lanes of `a`, or of `a` followed by `b`, into the order of `sources`.
    pub(crate) fn shuffle(&self, a: Val<'c>, b: Option<Val<'c>>, sources: impl IntoIterator<Item = u32>) -> Emitted<'c> {
        let i32t = self.context.i32_type();
        let lanes: Vec<_> = sources.into_iter().map(|lane| i32t.const_int(u64::from(lane), false)).collect();
        let a = a.into_vector_value();
        let b = b.map_or_else(|| a.get_type().get_poison(), Val::into_vector_value);
        Ok(self.builder.build_shuffle_vector(a, b, VectorType::const_vector(&lanes), "")?.into())
    }

    /// Returns the address of element `index` of an array of `dtype`; for a vector of indices, a
    /// vector of addresses.
    pub(crate) fn element_address(&self, dtype: DType, array: PointerValue<'c>, index: Val<'c>) -> Emitted<'c> {
        let element = self.memory_ty(dtype, 1);
        let mut indices = [index.as_value_ref()];
        // SAFETY: values of this context, at the position of the builder. It only computes an
        // address; without `inbounds` it has a value for every index. inkwell's own method takes no
        // vector of indices.
        unsafe {
            let (builder, ty) = (self.builder.as_mut_ptr(), element.as_type_ref());
            Ok(Val::new(LLVMBuildGEP2(builder, ty, array.as_value_ref(), indices.as_mut_ptr(), 1, c"".as_ptr())))
        }
    }

    /// Returns the address of an eight-byte slot in an array of such.
    pub(crate) fn slot(&self, array: PointerValue<'c>, position: i64) -> Result<PointerValue<'c>, Error> {
        Ok(self.element_address(DType::I64, array, self.i64(position).into())?.into_pointer_value())
    }
}

pub(crate) fn vector_of(element: BasicTypeEnum<'_>, lanes: u32) -> BasicTypeEnum<'_> {
    match (lanes, element) {
        (1, element) => element,
        (_, BasicTypeEnum::IntType(ty)) => ty.vec_type(lanes).into(),
        (_, BasicTypeEnum::FloatType(ty)) => ty.vec_type(lanes).into(),
        (_, BasicTypeEnum::PointerType(ty)) => ty.vec_type(lanes).into(),
        (_, other) => other,
    }
}

/// Repeats a constant in all lanes.
fn repeat(scalar: Val<'_>, lanes: u32) -> Val<'_> {
    match (lanes, scalar) {
        (1, scalar) => scalar,
        (_, Val::IntValue(value)) => VectorType::const_vector(&vec![value; lanes as usize]).into(),
        (_, Val::FloatValue(value)) => VectorType::const_vector(&vec![value; lanes as usize]).into(),
        (_, other) => other,
    }
}

/// Returns the number of lanes of a value; 1 for a scalar.
pub(crate) fn lanes_of(value: Val<'_>) -> u32 {
    match value {
        Val::VectorValue(vector) => vector.get_type().get_size(),
        _ => 1,
    }
}

/// Returns the width of an integer, or of the integers of a vector.
pub(crate) fn int_bits(value: Val<'_>) -> u32 {
    match value.get_type() {
        BasicTypeEnum::VectorType(vector) => vector.get_element_type().into_int_type().get_bit_width(),
        scalar => scalar.into_int_type().get_bit_width(),
    }
}
