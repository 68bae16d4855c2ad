//! Lowers memory and lane ops of kernels.
//!
//! Accesses are aligned only to the element, which costs nothing if the address happens to be
//! better aligned. A mask keeps lanes from memory: they neither read, nor write, nor fault. A store
//! with `nontemporal` states a larger alignment, and becomes a non-temporal store on x86.
use super::Lowering;
use crate::{
    Error,
    emit::{Emitted, Val, lanes_of},
};
use disc_ir::{Attr, DType, Dim, Inst, OpKind, Value};
use inkwell::{
    FloatPredicate, IntPredicate,
    attributes::{Attribute, AttributeLoc},
    types::{BasicTypeEnum, VectorType},
    values::{BasicValue, CallSiteValue, InstructionValue, PointerValue},
};

/// Alignment in bytes of each part of a task's memory.
const SCRATCH_ALIGN: i64 = disc_abi::SCRATCH_ALIGN as i64;

impl<'c> Lowering<'_, 'c> {
    /// Returns the address (or the addresses, for a vector of indices) of an access.
    pub(super) fn address(&mut self, buffer: Value, index: Value) -> Result<Val<'c>, Error> {
        let dtype = self.function.ty(buffer).dtype();
        let base = self.value(buffer)?.into_pointer_value();
        self.emit.element_address(dtype, base, self.value(index)?)
    }

    pub(super) fn load(&mut self, inst: Inst) -> Result<(), Error> {
        let operands = self.function.operands(inst);
        let (dtype, lanes) = self.vector_type(self.function.result(inst))?;
        let mask = operands.get(2).map(|&m| self.value(m)).transpose()?;
        let value = match self.strided(operands[1], dtype) {
            Some(places) => self.load_strided(operands[0], &places, lanes, mask)?,
            None => self.load_any(operands[0], operands[1], lanes, mask)?,
        };
        if mask.is_none() {
            self.mark_load(inst, value)?;
        }
        let value = match dtype {
            DType::I1 => self.emit.icmp(IntPredicate::NE, value, self.emit.const_int(8, lanes, 0))?,
            _ => value,
        };
        self.define(inst, value);
        Ok(())
    }

    /// Loads consecutive elements from an index on, or gathers the elements of a vector of indices.
    fn load_any(&mut self, buffer: Value, index: Value, lanes: u32, mask: Option<Val<'c>>) -> Emitted<'c> {
        let dtype = self.function.ty(buffer).dtype();
        let memory = self.emit.memory_ty(dtype, lanes);
        match (self.address(buffer, index)?, mask) {
            (Val::PointerValue(at), Some(mask)) if lanes == 1 => self.load_if(mask, at, dtype),
            (at @ Val::PointerValue(_), mask) => self.load_wide(memory, at, mask, dtype),
            (addresses, mask) => {
                let mask = mask.unwrap_or_else(|| self.emit.const_int(1, lanes, 1));
                let arguments = [addresses, mask, memory.const_zero()];
                let call = self.emit.call_intrinsic("llvm.masked.gather", &[memory, addresses.get_type()], &arguments)?;
                self.align_argument(call, 0, dtype);
                Ok(self.emit.as_gathered(call.try_as_basic_value().expect_basic("a load has a value"), dtype))
            }
        }
    }

    /// Loads consecutive elements; of a vector, only those whose mask is set.
    pub(super) fn load_wide(&self, memory: BasicTypeEnum<'c>, at: Val<'c>, mask: Option<Val<'c>>, dtype: DType) -> Emitted<'c> {
        let Some(mask) = mask else {
            let read = self.emit.type_to_load(memory, dtype);
            let load = self.emit.builder.build_load(read, at.into_pointer_value(), "")?;
            align(load.as_instruction_value().expect("a load is an instruction"), dtype)?;
            return self.emit.bitcast(load, memory);
        };
        if let Some(loaded) = self.load_by_predicate(memory, at, mask, dtype)? {
            return Ok(loaded);
        }
        let arguments = [at, mask, memory.const_zero()];
        let call = self.emit.call_intrinsic("llvm.masked.load", &[memory, at.get_type()], &arguments)?;
        self.align_argument(call, 0, dtype);
        Ok(call.try_as_basic_value().expect_basic("a load has a value"))
    }

    /// Loads a scalar if `mask` holds, else 0.
    fn load_if(&mut self, mask: Val<'c>, at: PointerValue<'c>, dtype: DType) -> Emitted<'c> {
        let memory = self.emit.memory_ty(dtype, 1);
        let from = self.block()?;
        let [read, after] = [self.append_block(), self.append_block()];
        self.emit.builder.build_conditional_branch(mask.into_int_value(), read, after)?;
        self.emit.builder.position_at_end(read);
        let load = self.emit.builder.build_load(memory, at, "")?;
        self.emit.builder.build_unconditional_branch(after)?;
        self.emit.builder.position_at_end(after);
        let phi = self.emit.builder.build_phi(memory, "")?;
        phi.add_incoming(&[(&load, read), (&memory.const_zero(), from)]);
        Ok(phi.as_basic_value())
    }

    pub(super) fn store(&mut self, inst: Inst) -> Result<(), Error> {
        let operands = self.function.operands(inst);
        let (dtype, lanes) = self.vector_type(operands[2])?;
        let mask = operands.get(3).map(|&m| self.value(m)).transpose()?;
        let mut value = self.value(operands[2])?;
        if dtype == DType::I1 {
            value = self.emit.resize(value, 8, false)?;
        }
        match (self.address(operands[0], operands[1])?, mask) {
            (Val::PointerValue(at), None) => {
                let store = self.emit.builder.build_store(at, value)?;
                match self.int(inst, "nontemporal").filter(|_| self.emit.target.has_nontemporal_stores()) {
                    Some(multiple) => self.mark_nontemporal(store, multiple)?,
                    None => align(store, dtype)?,
                }
                if let Some(bytes) = self.int(inst, "align") {
                    set_alignment(store, bytes as u32)?;
                }
            }
            (Val::PointerValue(at), Some(mask)) if lanes == 1 => {
                let [write, after] = [self.append_block(), self.append_block()];
                self.emit.builder.build_conditional_branch(mask.into_int_value(), write, after)?;
                self.emit.builder.position_at_end(write);
                self.emit.builder.build_store(at, value)?;
                self.emit.builder.build_unconditional_branch(after)?;
                self.emit.builder.position_at_end(after);
            }
            (at @ Val::PointerValue(_), Some(mask)) if self.store_by_predicate(value, at, mask, dtype)? => {}
            (Val::PointerValue(at), Some(mask)) => {
                let types = [value.get_type(), at.get_type().into()];
                let call = self.emit.call_intrinsic("llvm.masked.store", &types, &[value, at.into(), mask])?;
                self.align_argument(call, 1, dtype);
            }
            (addresses, mask) => {
                let mask = mask.unwrap_or_else(|| self.emit.const_int(1, lanes, 1));
                let types = [value.get_type(), addresses.get_type()];
                let call = self.emit.call_intrinsic("llvm.masked.scatter", &types, &[value, addresses, mask])?;
                self.align_argument(call, 1, dtype);
            }
        }
        Ok(())
    }

    /// States what a load of a GPU kernel says about its address and its memory.
    fn mark_load(&self, inst: Inst, value: Val<'c>) -> Result<(), Error> {
        let Some(load) = value.as_instruction_value() else { return Ok(()) };
        if let Some(bytes) = self.int(inst, "align") {
            set_alignment(load, bytes as u32)?;
        }
        if matches!(self.attr(inst, "cache"), Some(Attr::Enum("readonly"))) {
            let nothing = self.emit.context.metadata_node(&[]);
            let kind = self.emit.context.get_kind_id("invariant.load");
            load.set_metadata(nothing, kind).map_err(|error| Error::Emit(error.to_string()))?;
        }
        Ok(())
    }

    /// Makes a store non-temporal; `multiple` bytes divide its address.
    fn mark_nontemporal(&self, store: InstructionValue<'c>, multiple: i64) -> Result<(), Error> {
        let failed = |message: &dyn std::fmt::Display| Error::Emit(message.to_string());
        store.set_alignment(multiple as u32).map_err(|e| failed(&e))?;
        let one = self.emit.context.metadata_node(&[self.emit.context.i32_type().const_int(1, false).into()]);
        store.set_metadata(one, self.emit.context.get_kind_id("nontemporal")).map_err(|e| failed(&e))
    }

    /// Fences a kernel with non-temporal stores: others see them before they see that the kernel is
    /// done. Only these stores are unordered.
    pub(super) fn fence_nontemporal(&mut self) -> Result<(), Error> {
        let is_nontemporal =
            |&inst: &Inst| self.function.kind_of(inst) == OpKind::Store && self.int(inst, "nontemporal").is_some();
        if self.emit.target.has_nontemporal_stores() && self.function.walk(self.function.body).iter().any(is_nontemporal) {
            self.emit.call_intrinsic("llvm.x86.sse.sfence", &[], &[])?;
        }
        Ok(())
    }

    /// States the alignment of a masked access, as an attribute of its address.
    pub(super) fn align_argument(&self, call: CallSiteValue<'c>, argument: u32, dtype: DType) {
        let kind = Attribute::get_named_enum_kind_id("align");
        let attribute = self.emit.context.create_enum_attribute(kind, dtype.size() as u64);
        call.add_attribute(AttributeLoc::Param(argument), attribute);
    }

    pub(super) fn view(&mut self, inst: Inst) -> Result<(), Error> {
        let operands = self.function.operands(inst);
        let address = self.address(operands[0], operands[1])?;
        self.define(inst, address);
        Ok(())
    }

    /// Returns the next part of the task's memory, after those of the earlier `scratch` ops.
    pub(super) fn scratch(&mut self, inst: Inst) -> Result<(), Error> {
        let Some(base) = self.scratch else { return Err(self.error(inst, "is legal in the body of a kernel alone".to_owned())) };
        self.define(inst, base.into());
        let tensor = self.function.ty(self.function.result(inst)).shaped().expect("scratch is a buffer");
        let bytes = (tensor.element_count() * tensor.dtype.size() as i64).ceil_div(&Dim::constant(SCRATCH_ALIGN)) * SCRATCH_ALIGN;
        let bytes = self.dim_value(&bytes)?;
        self.scratch = Some(self.emit.element_address(DType::U8, base, bytes)?.into_pointer_value());
        Ok(())
    }

    pub(super) fn prefetch(&mut self, inst: Inst) -> Result<(), Error> {
        let operands = self.function.operands(inst);
        let locality = self.int(inst, "locality").unwrap_or(3);
        if !(0..=3).contains(&locality) {
            return Err(self.error(inst, format!("has locality {locality}, expected 0 to 3")));
        }
        let address = self.address(operands[0], operands[1])?;
        let c = |value| self.emit.const_int(32, 1, value);
        // For reading, into a data cache.
        self.emit.call_intrinsic("llvm.prefetch", &[address.get_type()], &[address, c(0), c(locality), c(1)])?;
        Ok(())
    }

    pub(super) fn splat(&mut self, inst: Inst) -> Result<(), Error> {
        let (_, lanes) = self.vector_type(self.function.result(inst))?;
        let value = self.emit.splat(self.value(self.function.operands(inst)[0])?, lanes)?;
        self.define(inst, value);
        Ok(())
    }

    pub(super) fn lanes(&mut self, inst: Inst) -> Result<(), Error> {
        let (dtype, lanes) = self.vector_type(self.function.result(inst))?;
        let value = match dtype {
            DType::F32 | DType::F64 => {
                let numbers = (0..lanes).map(|lane| self.emit.const_float(dtype, 1, f64::from(lane)).into_float_value());
                vector_or_scalar(&numbers.map(Val::from).collect::<Vec<_>>())
            }
            DType::F16 | DType::BF16 | DType::I1 => return Err(self.error(inst, format!("has no lanes of {dtype}"))),
            _ => self.lane_numbers(dtype.bits(), lanes),
        };
        self.define(inst, value);
        Ok(())
    }

    fn lane_numbers(&self, bits: u32, lanes: u32) -> Val<'c> {
        let numbers: Vec<Val<'c>> = (0..lanes).map(|lane| self.emit.const_int(bits, 1, i64::from(lane))).collect();
        vector_or_scalar(&numbers)
    }

    /// Compares the lanes' numbers with the count, in integers as wide as the elements of a full
    /// vector would be.
    pub(super) fn lane_mask(&mut self, inst: Inst) -> Result<(), Error> {
        let (_, lanes) = self.vector_type(self.function.result(inst))?;
        let operand = self.function.operands(inst)[0];
        let count = self.value(operand)?;
        let bits = (self.emit.target.vector_bytes() * 8 / lanes).next_power_of_two().clamp(8, 64);
        let limit = |value| self.emit.const_int(self.function.ty(operand).dtype().bits(), 1, value);
        let count = self.emit.intrinsic("llvm.smin", &[count, limit(i64::from(lanes))])?;
        let count = self.emit.intrinsic("llvm.smax", &[count, limit(0)])?;
        let count = self.emit.splat(self.emit.resize(count, bits, false)?, lanes)?;
        let mask = self.emit.icmp(IntPredicate::ULT, self.lane_numbers(bits, lanes), count)?;
        self.define(inst, mask);
        Ok(())
    }

    pub(super) fn extract_lane(&mut self, inst: Inst) -> Result<(), Error> {
        let lane = self.int(inst, "lane").unwrap_or(0);
        let value = match self.value(self.function.operands(inst)[0])? {
            Val::VectorValue(vector) => self.emit.builder.build_extract_element(vector, self.emit.i64(lane), "")?,
            scalar => scalar,
        };
        self.define(inst, value);
        Ok(())
    }

    /// Combines the lower half with the upper half until one lane is left.
    pub(super) fn reduce_lanes(&mut self, inst: Inst) -> Result<(), Error> {
        let (dtype, lanes) = self.vector_type(self.function.operands(inst)[0])?;
        if !lanes.is_power_of_two() {
            return Err(self.error(inst, format!("has {lanes} lanes, expected a power of two")));
        }
        let reducer = self.word(inst, "applies")?;
        let value = self.value(self.function.operands(inst)[0])?;
        let reduced = match (reducer, dtype) {
            ("maximum", DType::F32 | DType::F64) if lanes > 1 => self.extreme_lane(value, dtype, FloatPredicate::OGT)?,
            ("minimum", DType::F32 | DType::F64) if lanes > 1 => self.extreme_lane(value, dtype, FloatPredicate::OLT)?,
            // Their order does not matter, and all lanes of a mask reduce in few instructions.
            ("and" | "or", DType::I1) if lanes > 1 => self.emit.intrinsic(&format!("llvm.vector.reduce.{reducer}"), &[value])?,
            _ => self.halved(value, |this, low, high| {
                let combined = this.emit.combine(reducer, dtype, low, high)?;
                combined.ok_or_else(|| this.error(inst, format!("cannot apply `{reducer}` to {dtype}")))
            })?,
        };
        self.define(inst, reduced);
        Ok(())
    }

    fn halved(&self, mut value: Val<'c>, combine: impl Fn(&Self, Val<'c>, Val<'c>) -> Emitted<'c>) -> Emitted<'c> {
        while lanes_of(value) > 1 {
            let half = lanes_of(value) / 2;
            value = combine(self, self.part(value, 0, half)?, self.part(value, half, half)?)?;
        }
        Ok(value)
    }

    /// Returns the greatest or least lane, NaN if there is one: NaN is tested once, beside the
    /// comparisons, which depend on each other.
    fn extreme_lane(&self, value: Val<'c>, dtype: DType, predicate: FloatPredicate) -> Emitted<'c> {
        let emit = &self.emit;
        let extreme = self.halved(value, |_, low, high| emit.select(emit.fcmp(predicate, low, high)?, low, high))?;
        let mask = emit.fcmp(FloatPredicate::UNO, value, value)?;
        let bits = emit.int(lanes_of(value));
        let mask = emit.bitcast(mask, bits.into())?;
        let any = emit.icmp(IntPredicate::NE, mask, bits.const_zero().into())?;
        emit.select(any, emit.const_float(dtype, 1, f64::NAN), extreme)
    }

    /// Extracts `count` lanes from `first` on; a single one as a scalar.
    fn part(&self, value: Val<'c>, first: u32, count: u32) -> Emitted<'c> {
        if count == 1 {
            let lane = self.emit.i64(i64::from(first));
            return Ok(self.emit.builder.build_extract_element(value.into_vector_value(), lane, "")?);
        }
        self.emit.shuffle(value, None, first..first + count)
    }
}

fn align(instruction: InstructionValue<'_>, dtype: DType) -> Result<(), Error> {
    set_alignment(instruction, dtype.size() as u32)
}

fn set_alignment(instruction: InstructionValue<'_>, bytes: u32) -> Result<(), Error> {
    instruction.set_alignment(bytes).map_err(|e| Error::Emit(e.to_string()))
}

/// Makes a constant vector of lanes; a single one as a scalar.
pub(super) fn vector_or_scalar<'c>(lanes: &[Val<'c>]) -> Val<'c> {
    match lanes {
        [one] => *one,
        [Val::FloatValue(_), ..] => {
            VectorType::const_vector(&lanes.iter().map(|v| v.into_float_value()).collect::<Vec<_>>()).into()
        }
        _ => VectorType::const_vector(&lanes.iter().map(|v| v.into_int_value()).collect::<Vec<_>>()).into(),
    }
}
