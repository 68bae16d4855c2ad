//! Lowers element-wise ops on vectors. Semantics are those of the op table: nothing traps, NaN
//! propagates.
//!
//! f16 and bf16 are computed in f32 and rounded, which for these ops equals computing in the type
//! itself. Math functions do not occur: the kernel pipeline has expanded them.
use super::Lowering;
use crate::{
    Error,
    emit::{Emit, Emitted, Val, lanes_of},
};
use disc_ir::{Attr, DType, Inst, OpKind, Value};
use inkwell::{FloatPredicate, IntPredicate, values::InstructionOpcode};

/// The ops that [`Lowering::has_plain_nans`] follows.
const DEPTH: u32 = 8;

impl<'c> Lowering<'_, 'c> {
    /// Lowers an op whose operands and result have one type.
    pub(super) fn arithmetic(&mut self, inst: Inst) -> Result<(), Error> {
        let kind = self.function.kind_of(inst);
        let dtype = self.function.ty(self.function.result(inst)).dtype();
        let operands = self.operands(inst)?;
        let value = match dtype {
            DType::F16 | DType::BF16 => {
                let wide = operands.iter().map(|&v| self.emit.widen_half(v, dtype)).collect::<Result<Vec<_>, _>>()?;
                self.emit.float_op(kind, DType::F32, &wide)?.map(|v| self.emit.narrow_half(v, dtype)).transpose()?
            }
            DType::F32 | DType::F64 => self.emit.float_op(kind, dtype, &operands)?,
            DType::I1 => self.emit.truth_op(kind, &operands)?,
            DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 | DType::U16 | DType::U32 | DType::U64 => {
                self.emit.int_op(kind, dtype, &operands)?
            }
        };
        let value = value.ok_or_else(|| self.error(inst, format!("is not arithmetic of {dtype}")))?;
        self.define(inst, value);
        Ok(())
    }

    pub(super) fn predicate(&mut self, inst: Inst) -> Result<(), Error> {
        let (x, dtype) = self.float_operand(inst)?;
        let lanes = lanes_of(x);
        let infinity = self.emit.const_float(dtype, lanes, f64::INFINITY);
        let value = match self.function.kind_of(inst) {
            OpKind::IsNan => self.emit.fcmp(FloatPredicate::UNO, x, x)?,
            OpKind::IsInf => self.emit.fcmp(FloatPredicate::OEQ, self.emit.intrinsic("llvm.fabs", &[x])?, infinity)?,
            _ => self.emit.fcmp(FloatPredicate::OLT, self.emit.intrinsic("llvm.fabs", &[x])?, infinity)?,
        };
        self.define(inst, value);
        Ok(())
    }

    /// Returns the operand, with halves widened to f32.
    fn float_operand(&mut self, inst: Inst) -> Result<(Val<'c>, DType), Error> {
        let operand = self.function.operands(inst)[0];
        let dtype = self.function.ty(operand).dtype();
        let value = self.value(operand)?;
        Ok(match dtype {
            DType::F16 | DType::BF16 => (self.emit.widen_half(value, dtype)?, DType::F32),
            _ => (value, dtype),
        })
    }

    pub(super) fn compare(&mut self, inst: Inst) -> Result<(), Error> {
        let direction = self.word(inst, "direction")?;
        let dtype = self.function.ty(self.function.operands(inst)[0]).dtype();
        let mut operands = self.operands(inst)?;
        let is_half = matches!(dtype, DType::F16 | DType::BF16);
        if is_half {
            operands = operands.iter().map(|&v| self.emit.widen_half(v, dtype)).collect::<Result<Vec<_>, _>>()?;
        }
        let [a, b] = operands[..] else { return Err(self.error(inst, "needs two operands".to_owned())) };
        let value = if dtype.is_float() {
            let predicate = match direction {
                "EQ" => FloatPredicate::OEQ,
                "NE" => FloatPredicate::UNE,
                "LT" => FloatPredicate::OLT,
                "LE" => FloatPredicate::OLE,
                "GT" => FloatPredicate::OGT,
                _ => FloatPredicate::OGE,
            };
            self.emit.fcmp(predicate, a, b)?
        } else {
            self.emit.icmp(int_predicate(direction, dtype.is_signed_integer()), a, b)?
        };
        self.define(inst, value);
        Ok(())
    }

    pub(super) fn select(&mut self, inst: Inst) -> Result<(), Error> {
        let operands = self.operands(inst)?;
        let [mask, a, b] = operands[..] else { return Err(self.error(inst, "needs three operands".to_owned())) };
        let value = self.emit.select(mask, a, b)?;
        self.define(inst, value);
        Ok(())
    }

    pub(super) fn convert(&mut self, inst: Inst) -> Result<(), Error> {
        let operand = self.function.operands(inst)[0];
        let (from, to) = (self.function.ty(operand).dtype(), self.function.ty(self.function.result(inst)).dtype());
        let value = match (from, to) {
            (DType::F32, DType::BF16) => self.emit.narrow_to_bf16(self.value(operand)?, self.has_plain_nans(operand, DEPTH))?,
            // A value that is rounded stays in its register.
            (DType::BF16, DType::F32) if let Some(exact) = self.narrowed_from(operand) => {
                self.emit.round_to_bf16(self.value(exact)?, self.has_plain_nans(exact, DEPTH))?
            }
            _ => self.emit.convert(self.value(operand)?, from, to)?,
        };
        self.define(inst, value);
        Ok(())
    }

    /// The value of f32 that a value of bf16 is converted from.
    fn narrowed_from(&self, value: Value) -> Option<Value> {
        let inst = self.function.defining(value).filter(|&inst| self.function.kind_of(inst) == OpKind::Convert)?;
        let from = self.function.operands(inst)[0];
        (self.function.ty(from).dtype() == DType::F32).then_some(from)
    }

    /// Returns true if every NaN of f32 that a value may have has the bits of one of bf16: it is
    /// computed from values of bf16 by instructions that keep the NaN of an operand, or give the
    /// target's own.
    fn has_plain_nans(&self, value: Value, depth: u32) -> bool {
        use OpKind as K;
        let Some(inst) = self.function.defining(value).filter(|_| depth > 0) else { return false };
        let operands = self.function.operands(inst);
        let all = |operands: &[Value]| operands.iter().all(|&operand| self.has_plain_nans(operand, depth - 1));
        match self.function.kind_of(inst) {
            K::Convert => {
                self.function.ty(operands[0]).dtype() == DType::BF16 || self.function.ty(operands[0]).dtype().is_integer()
            }
            K::Constant => {
                let Some(Some(Attr::Literal(literal))) = self.function.inst(inst).attrs.first() else { return false };
                literal.stored_len() == 1 && !literal.f64_at(0).is_nan()
            }
            K::Add | K::Subtract | K::Multiply | K::Divide | K::Fma | K::Sqrt | K::Maximum | K::Minimum => all(operands),
            K::Negate | K::Abs | K::Floor | K::Ceil | K::Splat => all(operands),
            K::Select => all(&operands[1..]),
            _ => false,
        }
    }

    pub(super) fn bitcast(&mut self, inst: Inst) -> Result<(), Error> {
        let value = self.value(self.function.operands(inst)[0])?;
        let to = self.emit.ty(self.function.ty(self.function.result(inst)).dtype(), lanes_of(value));
        let value = self.emit.bitcast(value, to)?;
        self.define(inst, value);
        Ok(())
    }
}

fn int_predicate(direction: &str, signed: bool) -> IntPredicate {
    match (direction, signed) {
        ("EQ", _) => IntPredicate::EQ,
        ("NE", _) => IntPredicate::NE,
        ("LT", true) => IntPredicate::SLT,
        ("LT", false) => IntPredicate::ULT,
        ("LE", true) => IntPredicate::SLE,
        ("LE", false) => IntPredicate::ULE,
        ("GT", true) => IntPredicate::SGT,
        ("GT", false) => IntPredicate::UGT,
        (_, true) => IntPredicate::SGE,
        (_, false) => IntPredicate::UGE,
    }
}

/// The value of an op, or `None` if the op does not exist for these types.
type Maybe<'c> = Result<Option<Val<'c>>, Error>;

impl<'c> Emit<'c> {
    fn float_op(&self, kind: OpKind, dtype: DType, operands: &[Val<'c>]) -> Maybe<'c> {
        let lanes = lanes_of(operands[0]);
        let c = |value| self.const_float(dtype, lanes, value);
        let value = match (kind, operands) {
            (OpKind::Abs, &[x]) => self.intrinsic("llvm.fabs", &[x]),
            (OpKind::Negate, &[x]) => self.negate_float(x),
            (OpKind::Ceil, &[x]) => self.intrinsic("llvm.ceil", &[x]),
            (OpKind::Floor, &[x]) => self.intrinsic("llvm.floor", &[x]),
            (OpKind::RoundNearestEven, &[x]) => self.intrinsic("llvm.roundeven", &[x]),
            (OpKind::RoundNearestAfz, &[x]) => self.intrinsic("llvm.round", &[x]),
            (OpKind::Sqrt, &[x]) => self.intrinsic("llvm.sqrt", &[x]),
            (OpKind::Rsqrt, &[x]) => self.binary(InstructionOpcode::FDiv, c(1.0), self.intrinsic("llvm.sqrt", &[x])?),
            (OpKind::Sign, &[x]) => {
                let negative = self.fcmp(FloatPredicate::OLT, x, c(0.0))?;
                let positive = self.fcmp(FloatPredicate::OGT, x, c(0.0))?;
                self.select(positive, c(1.0), self.select(negative, c(-1.0), x)?)
            }
            (OpKind::Add, &[a, b]) => self.binary(InstructionOpcode::FAdd, a, b),
            (OpKind::Subtract, &[a, b]) => self.binary(InstructionOpcode::FSub, a, b),
            (OpKind::Multiply, &[a, b]) => self.binary(InstructionOpcode::FMul, a, b),
            (OpKind::Divide, &[a, b]) => self.binary(InstructionOpcode::FDiv, a, b),
            (OpKind::Maximum, &[a, b]) => self.float_extreme(FloatPredicate::OLT, a, b),
            (OpKind::Minimum, &[a, b]) => self.float_extreme(FloatPredicate::OGT, a, b),
            (OpKind::Clamp, &[low, x, high]) => {
                let x = self.float_extreme(FloatPredicate::OLT, x, low)?;
                self.float_extreme(FloatPredicate::OGT, x, high)
            }
            (OpKind::Fma, &[a, b, c]) if self.target.has_fma() => self.intrinsic("llvm.fma", &[a, b, c]),
            (OpKind::Fma, &[a, b, c]) => {
                let product = self.binary(InstructionOpcode::FMul, a, b)?;
                self.binary(InstructionOpcode::FAdd, product, c)
            }
            (OpKind::ScaleByPower, &[x, n]) if self.target.scales_by_power() => self.scale_by_power(dtype, x, n),
            _ => return Ok(None),
        };
        value.map(Some)
    }

    /// Emits the greater (lesser) of two: `b` where `a` is less (greater); NaN if either is. Of
    /// zeros with different signs, `a`: so `maximum(x, 0)` is -0.0 for -0.0, as PyTorch's relu and
    /// clamp are.
    ///
    /// In this form x86 needs one instruction for a constant `b`, and three otherwise;
    /// `llvm.maximum` orders zeros for three more.
    fn float_extreme(&self, predicate: FloatPredicate, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        // The comparison alone does not decide: with a NaN in `b` it chooses `a`.
        let chosen = self.select(self.fcmp(predicate, a, b)?, b, a)?;
        let is_nan = self.fcmp(FloatPredicate::UNO, b, b)?;
        self.select(is_nan, b, chosen)
    }

    fn int_op(&self, kind: OpKind, dtype: DType, operands: &[Val<'c>]) -> Maybe<'c> {
        let (lanes, signed) = (lanes_of(operands[0]), dtype.is_signed_integer());
        let bits = dtype.bits();
        let c = |value| self.const_int(bits, lanes, value);
        let false_ = self.context.bool_type().const_zero().into();
        let (maximum, minimum) = if signed { ("llvm.smax", "llvm.smin") } else { ("llvm.umax", "llvm.umin") };
        let value = match (kind, operands) {
            (OpKind::Abs, &[x]) => self.intrinsic("llvm.abs", &[x, false_]),
            (OpKind::Negate, &[x]) => self.sub(c(0), x),
            (OpKind::Not, &[x]) => self.xor(x, c(-1)),
            (OpKind::Popcnt, &[x]) => self.intrinsic("llvm.ctpop", &[x]),
            (OpKind::CountLeadingZeros, &[x]) => self.intrinsic("llvm.ctlz", &[x, false_]),
            (OpKind::Sign, &[x]) => {
                let positive = self.resize(self.icmp(IntPredicate::SGT, x, c(0))?, bits, false)?;
                self.or(self.shift(InstructionOpcode::AShr, x, bits - 1)?, positive)
            }
            (OpKind::Add, &[a, b]) => self.add(a, b),
            (OpKind::Subtract, &[a, b]) => self.sub(a, b),
            (OpKind::Multiply, &[a, b]) => self.mul(a, b),
            (OpKind::Divide, &[a, b]) => self.int_divide(a, b, signed),
            (OpKind::Remainder, &[a, b]) => self.int_remainder(a, b, signed),
            (OpKind::Maximum, &[a, b]) => self.intrinsic(maximum, &[a, b]),
            (OpKind::Minimum, &[a, b]) => self.intrinsic(minimum, &[a, b]),
            (OpKind::Clamp, &[low, x, high]) => self.intrinsic(minimum, &[self.intrinsic(maximum, &[x, low])?, high]),
            (OpKind::Fma, &[a, b, c]) => self.add(self.mul(a, b)?, c),
            (OpKind::And, &[a, b]) => self.and(a, b),
            (OpKind::Or, &[a, b]) => self.or(a, b),
            (OpKind::Xor, &[a, b]) => self.xor(a, b),
            (OpKind::ShiftLeft, &[a, b]) => self.shift_logical(InstructionOpcode::Shl, a, b),
            (OpKind::ShiftRightLogical, &[a, b]) => self.shift_logical(InstructionOpcode::LShr, a, b),
            (OpKind::ShiftRightArithmetic, &[a, b]) => self.shift_arithmetic(a, b),
            _ => return Ok(None),
        };
        value.map(Some)
    }

    fn truth_op(&self, kind: OpKind, operands: &[Val<'c>]) -> Maybe<'c> {
        let value = match (kind, operands) {
            (OpKind::Not, &[x]) => self.xor(x, self.const_int(1, lanes_of(x), 1)),
            (OpKind::And | OpKind::Minimum, &[a, b]) => self.and(a, b),
            (OpKind::Or | OpKind::Maximum, &[a, b]) => self.or(a, b),
            (OpKind::Xor, &[a, b]) => self.xor(a, b),
            _ => return Ok(None),
        };
        value.map(Some)
    }

    /// Combines two values as a reduction over lanes does; `None` for a reducer that the type does
    /// not have.
    pub(super) fn combine(&self, reducer: &str, dtype: DType, a: Val<'c>, b: Val<'c>) -> Maybe<'c> {
        let kind = match reducer {
            "add" => OpKind::Add,
            "multiply" => OpKind::Multiply,
            "maximum" => OpKind::Maximum,
            "minimum" => OpKind::Minimum,
            "and" => OpKind::And,
            "or" => OpKind::Or,
            _ => return Ok(None),
        };
        match dtype {
            DType::F32 | DType::F64 => self.float_op(kind, dtype, &[a, b]),
            DType::F16 | DType::BF16 => {
                let wide = [self.widen_half(a, dtype)?, self.widen_half(b, dtype)?];
                self.float_op(kind, DType::F32, &wide)?.map(|v| self.narrow_half(v, dtype)).transpose()
            }
            DType::I1 => self.truth_op(kind, &[a, b]),
            DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 | DType::U16 | DType::U32 | DType::U64 => {
                self.int_op(kind, dtype, &[a, b])
            }
        }
    }
}
