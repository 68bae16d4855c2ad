//! Converts between element types.
//!
//! Rounding is to nearest even from the exact value, also where LLVM would call a library: f16
//! without F16C, f64 to f16 and bf16. A float saturates to an integer, NaN becomes 0, integers
//! wrap, and a number is true if it is not 0.
use crate::emit::{Emit, Emitted, Val, int_bits, lanes_of};
use disc_codegen::target::{AArch64, ArmExtension, Target};
use disc_ir::DType;
use inkwell::{FloatPredicate, IntPredicate, values::InstructionOpcode};

impl<'c> Emit<'c> {
    pub(crate) fn convert(&self, x: Val<'c>, from: DType, to: DType) -> Emitted<'c> {
        let lanes = lanes_of(x);
        match (from, to) {
            _ if from == to => Ok(x),
            (DType::F16 | DType::BF16, _) => self.convert(self.widen_half(x, from)?, DType::F32, to),
            (_, DType::I1) => self.is_nonzero(x, from),
            (DType::F64, DType::F16 | DType::BF16) => self.narrow_half(self.round_to_odd(x)?, to),
            (DType::F32, DType::F16 | DType::BF16) => self.narrow_half(x, to),
            (_, DType::F16 | DType::BF16) if from.bits() <= 16 => self.narrow_half(self.convert(x, from, DType::F32)?, to),
            (_, DType::F16 | DType::BF16) => self.convert(self.convert(x, from, DType::F64)?, DType::F64, to),
            (DType::F32, DType::F64) => self.cast(InstructionOpcode::FPExt, x, self.ty(to, lanes)),
            (DType::F64, DType::F32) => self.cast(InstructionOpcode::FPTrunc, x, self.ty(to, lanes)),
            (DType::F32 | DType::F64, _) => self.float_to_int(x, from, to),
            (_, DType::F32 | DType::F64) => {
                let opcode = if from.is_signed_integer() { InstructionOpcode::SIToFP } else { InstructionOpcode::UIToFP };
                if from == DType::I1 && self.has_long_registers() {
                    let [one, zero] = [1.0, 0.0].map(|value| self.const_float(to, lanes, value));
                    return self.select(x, one, zero);
                }
                self.cast(opcode, x, self.ty(to, lanes))
            }
            _ => self.resize(x, to.bits(), from.is_signed_integer()),
        }
    }

    fn is_nonzero(&self, x: Val<'c>, from: DType) -> Emitted<'c> {
        let lanes = lanes_of(x);
        match from {
            // NaN is not 0.
            DType::F32 | DType::F64 => self.fcmp(FloatPredicate::UNE, x, self.const_float(from, lanes, 0.0)),
            _ => self.icmp(IntPredicate::NE, x, self.const_int(int_bits(x), lanes, 0)),
        }
    }

    /// Converts with saturation. AArch64 has instructions for it; for others LLVM scalarises
    /// conversions of vectors, with branches, so they are written out here.
    fn float_to_int(&self, x: Val<'c>, from: DType, to: DType) -> Emitted<'c> {
        let lanes = lanes_of(x);
        if lanes == 1 || matches!(self.target, Target::AArch64(_)) {
            let name = if to.is_signed_integer() { "llvm.fptosi.sat" } else { "llvm.fptoui.sat" };
            let types = [self.ty(to, lanes), x.get_type()];
            return self.typed_intrinsic(name, &types, &[x]);
        }
        match to.bits() {
            64 if !self.target.converts_longs() => self.float_to_long(x, from, to),
            bits => {
                let width = bits.max(32);
                let unsigned = !to.is_signed_integer();
                let (least, beyond) = limits(to);
                let opcode = if unsigned && bits >= 32 { InstructionOpcode::FPToUI } else { InstructionOpcode::FPToSI };
                let float = |value| self.const_float(from, lanes, value);
                // Values that are too large convert to anything, and are replaced.
                let above = self.fcmp(FloatPredicate::OGT, x, float(least))?;
                let bounded = self.select(above, x, float(least))?;
                let whole = self.cast(opcode, bounded, self.int_ty(width, lanes))?;
                let most = if unsigned { -1_i64 as u64 >> (64 - bits) } else { i64::MAX as u64 >> (64 - bits) };
                let below = self.fcmp(FloatPredicate::OLT, x, float(beyond))?;
                let whole = self.select(below, whole, self.const_int(width, lanes, most as i64))?;
                let is_number = self.fcmp(FloatPredicate::ORD, x, x)?;
                self.resize(self.select(is_number, whole, self.const_int(width, lanes, 0))?, bits, false)
            }
        }
    }

    /// Converts the magnitude in halves of 32 bits: no CPU below AVX-512 converts vectors to 64-bit
    /// integers.
    fn float_to_long(&self, x: Val<'c>, from: DType, to: DType) -> Emitted<'c> {
        let lanes = lanes_of(x);
        let float = |value| self.const_float(from, lanes, value);
        let long = |value| self.const_int(64, lanes, value);
        let (least, beyond) = limits(to);
        let signed = to.is_signed_integer();
        // Values that are too large are replaced in the end; NaN compares below nothing and so
        // becomes 0.
        let magnitude = if signed { self.intrinsic("llvm.fabs", &[x])? } else { x };
        let fits = self.fcmp(FloatPredicate::OLT, magnitude, float(beyond))?;
        let magnitude = self.select(fits, magnitude, float(0.0))?;
        let positive = self.fcmp(FloatPredicate::OGT, magnitude, float(0.0))?;
        let magnitude = self.select(positive, magnitude, float(0.0))?;
        let two_32 = f64::from(2.0_f32.powi(32));
        let high = self.binary(InstructionOpcode::FMul, magnitude, float(1.0 / two_32))?;
        let high = self.intrinsic("llvm.trunc", &[high])?;
        let rest = self.binary(InstructionOpcode::FMul, high, float(two_32))?;
        let low = self.binary(InstructionOpcode::FSub, magnitude, rest)?;
        let half = |part: Val<'c>| -> Emitted<'c> {
            let word = self.cast(InstructionOpcode::FPToUI, part, self.int_ty(32, lanes))?;
            self.resize(word, 64, false)
        };
        let whole = self.or(self.shift(InstructionOpcode::Shl, half(high)?, 32)?, half(low)?)?;
        let below = self.fcmp(FloatPredicate::ULT, x, float(beyond))?;
        let most = if signed { i64::MAX } else { -1 };
        if !signed {
            return self.select(below, whole, long(most));
        }
        let negative = self.fcmp(FloatPredicate::OLT, x, float(0.0))?;
        let whole = self.select(negative, self.sub(long(0), whole)?, whole)?;
        let whole = self.select(below, whole, long(most))?;
        let least_or_less = self.fcmp(FloatPredicate::OLE, x, float(least))?;
        self.select(least_or_less, long(i64::MIN), whole)
    }

    /// Widens f16 or bf16 to f32, which is exact.
    pub(crate) fn widen_half(&self, bits: Val<'c>, from: DType) -> Emitted<'c> {
        let lanes = lanes_of(bits);
        let f32t = self.ty(DType::F32, lanes);
        if from == DType::F16 && self.target.has_f16c() {
            return self.cast(InstructionOpcode::FPExt, self.bitcast(bits, self.half_ty(lanes))?, f32t);
        }
        let wide = self.resize(bits, 32, false)?;
        if from == DType::BF16 {
            return self.bitcast(self.shift(InstructionOpcode::Shl, wide, 16)?, f32t);
        }
        // A multiplication corrects the exponent's bias: it is exact and normalises denormals.
        let c = |value: i64| self.const_int(32, lanes, value);
        let magnitude = self.shift(InstructionOpcode::Shl, self.and(wide, c(0x7fff))?, 13)?;
        let scale = self.const_float(DType::F32, lanes, f64::from(2.0_f32.powi(112)));
        let scaled = self.binary(InstructionOpcode::FMul, self.bitcast(magnitude, f32t)?, scale)?;
        let special = self.fcmp(FloatPredicate::OGE, scaled, self.const_float(DType::F32, lanes, 65536.0))?;
        let scaled = self.bitcast(scaled, self.int_ty(32, lanes))?;
        let scaled = self.select(special, self.or(scaled, c(0x7f80_0000))?, scaled)?;
        let sign = self.shift(InstructionOpcode::Shl, self.and(wide, c(0x8000))?, 16)?;
        self.bitcast(self.or(scaled, sign)?, f32t)
    }

    /// Narrows f32 to f16 or bf16, to nearest even.
    pub(crate) fn narrow_half(&self, x: Val<'c>, to: DType) -> Emitted<'c> {
        let lanes = lanes_of(x);
        if to == DType::F16 && self.target.has_f16c() {
            let half = self.cast(InstructionOpcode::FPTrunc, x, self.half_ty(lanes))?;
            return self.bitcast(half, self.int_ty(16, lanes));
        }
        if to == DType::BF16 {
            return self.narrow_to_bf16(x, false);
        }
        let bits = self.bitcast(x, self.int_ty(32, lanes))?;
        self.resize(self.round_to_f16(bits)?, 16, false)
    }

    /// Narrows f32 to bf16; see [`Emit::bf16_in_high_half`].
    pub(crate) fn narrow_to_bf16(&self, x: Val<'c>, is_plain: bool) -> Emitted<'c> {
        let bits = self.bf16_in_high_half(x, is_plain)?;
        self.resize(self.shift(InstructionOpcode::LShr, bits, 16)?, 16, false)
    }

    /// Rounds f32 to the nearest number of bf16, as f32.
    pub(crate) fn round_to_bf16(&self, x: Val<'c>, is_plain: bool) -> Emitted<'c> {
        let lanes = lanes_of(x);
        let bits = self.bf16_in_high_half(x, is_plain)?;
        self.bitcast(self.and(bits, self.const_int(32, lanes, -0x1_0000))?, self.ty(DType::F32, lanes))
    }

    /// Rounds f32 to bf16: its bits are the high half of the result, the low half is any. A NaN
    /// with bits in its low half would become an infinity or a zero: `is_plain` says that there is
    /// none.
    fn bf16_in_high_half(&self, x: Val<'c>, is_plain: bool) -> Emitted<'c> {
        let lanes = lanes_of(x);
        // LLVM does not convert vectors that are longer than NEON's.
        let converts = |arm: &AArch64| arm.has(ArmExtension::Bf16) && (lanes == 1 || arm.vector_bytes() == 16);
        if matches!(&self.target, Target::AArch64(arm) if converts(arm)) {
            let ty = self.context.bf16_type();
            let ty = if lanes == 1 { ty.into() } else { ty.vec_type(lanes).into() };
            let rounded = self.bitcast(self.cast(InstructionOpcode::FPTrunc, x, ty)?, self.int_ty(16, lanes))?;
            return self.shift(InstructionOpcode::Shl, self.resize(rounded, 32, false)?, 16);
        }
        let c = |value: i64| self.const_int(32, lanes, value);
        let bits = self.bitcast(x, self.int_ty(32, lanes))?;
        let is_odd = self.and(self.shift(InstructionOpcode::LShr, bits, 16)?, c(1))?;
        let rounded = self.add(self.add(bits, c(0x7fff))?, is_odd)?;
        if is_plain {
            return Ok(rounded);
        }
        let is_nan = self.fcmp(FloatPredicate::UNO, x, x)?;
        self.select(is_nan, self.or(bits, c(0x40_0000))?, rounded)
    }

    /// Rounds the bits of an f32 to those of an f16 in the low half of 32.
    fn round_to_f16(&self, bits: Val<'c>) -> Emitted<'c> {
        let lanes = lanes_of(bits);
        let c = |value: i64| self.const_int(32, lanes, value);
        let magnitude = self.and(bits, c(0x7fff_ffff))?;
        let sign = self.shift(InstructionOpcode::LShr, self.xor(bits, magnitude)?, 16)?;
        // Normal: corrects the bias, and adds half a unit less one, or half a unit if the result
        // would be odd.
        let is_odd = self.and(self.shift(InstructionOpcode::LShr, magnitude, 13)?, c(1))?;
        let normal = self.add(self.add(magnitude, c(((15 - 127) << 23) + 0xfff))?, is_odd)?;
        let normal = self.shift(InstructionOpcode::LShr, normal, 13)?;
        // Denormal: adding a number whose last place is that of f16's denormals rounds to it.
        let magic = 126_i64 << 23;
        let f32t = self.ty(DType::F32, lanes);
        let sum =
            self.binary(InstructionOpcode::FAdd, self.bitcast(magnitude, f32t)?, self.const_float(DType::F32, lanes, 0.5))?;
        let denormal = self.sub(self.bitcast(sum, self.int_ty(32, lanes))?, c(magic))?;
        let is_denormal = self.icmp(IntPredicate::ULT, magnitude, c(113 << 23))?;
        let finite = self.select(is_denormal, denormal, normal)?;
        let is_nan = self.icmp(IntPredicate::UGT, magnitude, c(255 << 23))?;
        let special = self.select(is_nan, c(0x7e00), c(0x7c00))?;
        let is_special = self.icmp(IntPredicate::UGE, magnitude, c((127 + 16) << 23))?;
        self.or(self.select(is_special, special, finite)?, sign)
    }

    /// Narrows f64 to f32 so that a further rounding gives the same as rounding the f64 at once: an
    /// inexact result is made odd.
    fn round_to_odd(&self, x: Val<'c>) -> Emitted<'c> {
        let lanes = lanes_of(x);
        let (f32t, i32t) = (self.ty(DType::F32, lanes), self.int_ty(32, lanes));
        let near = self.cast(InstructionOpcode::FPTrunc, x, f32t)?;
        let back = self.cast(InstructionOpcode::FPExt, near, x.get_type())?;
        let (size, back_size) = (self.intrinsic("llvm.fabs", &[x])?, self.intrinsic("llvm.fabs", &[back])?);
        let above = self.fcmp(FloatPredicate::OGT, back_size, size)?;
        let below = self.fcmp(FloatPredicate::OLT, back_size, size)?;
        let bits = self.bitcast(near, i32t)?;
        let c = |value: i64| self.const_int(32, lanes, value);
        let is_even = self.icmp(IntPredicate::EQ, self.and(bits, c(1))?, c(0))?;
        let step = self.select(above, c(-1), self.select(below, c(1), c(0))?)?;
        let step = self.select(is_even, step, c(0))?;
        self.bitcast(self.add(bits, step)?, f32t)
    }

    fn half_ty(&self, lanes: u32) -> inkwell::types::BasicTypeEnum<'c> {
        let half = self.context.f16_type();
        if lanes == 1 { half.into() } else { half.vec_type(lanes).into() }
    }
}

/// Returns the least number of an integer type, and the first that is too large for it.
fn limits(to: DType) -> (f64, f64) {
    match to.is_signed_integer() {
        true => (-(2.0_f64.powi(to.bits() as i32 - 1)), 2.0_f64.powi(to.bits() as i32 - 1)),
        false => (0.0, 2.0_f64.powi(to.bits() as i32)),
    }
}
