//! Emits integer arithmetic that traps for no operand, shifts that are defined for every amount,
//! and powers.
use super::Lowering;
use crate::{
    Error,
    emit::{Emit, Emitted, Val, int_bits, lanes_of},
};
use disc_ir::Inst;
use inkwell::{
    IntPredicate,
    values::{InstructionOpcode, PhiValue},
};

impl<'c> Lowering<'_, 'c> {
    /// Raises an integer to the power of another: wrapping, by squaring, as long as some lane's
    /// exponent has bits left. A negative exponent gives 0, unless the base is 1 or -1, whose
    /// powers depend on the lowest bit alone and so come out right.
    pub(super) fn power(&mut self, inst: Inst) -> Result<(), Error> {
        let dtype = self.function.ty(self.function.result(inst)).dtype();
        if dtype.is_float() {
            return Err(self.error(inst, "must be expanded to arithmetic before".to_owned()));
        }
        let operands = self.operands(inst)?;
        let [base, exponent] = operands[..] else { return Err(self.error(inst, "needs two operands".to_owned())) };
        let mut value = self.power_by_squaring(base, exponent)?;
        if dtype.is_signed_integer() {
            let c = |value| self.emit.const_int(int_bits(base), lanes_of(base), value);
            let negative = self.emit.icmp(IntPredicate::SLT, exponent, c(0))?;
            let is_one = self.emit.icmp(IntPredicate::EQ, base, c(1))?;
            let is_minus_one = self.emit.icmp(IntPredicate::EQ, base, c(-1))?;
            let stays = self.emit.or(is_one, is_minus_one)?;
            let zero = self.emit.select(stays, value, c(0))?;
            value = self.emit.select(negative, zero, value)?;
        }
        self.define(inst, value);
        Ok(())
    }

    /// Treats `exponent` as unsigned.
    fn power_by_squaring(&self, base: Val<'c>, exponent: Val<'c>) -> Emitted<'c> {
        let c = |value| self.emit.const_int(int_bits(base), lanes_of(base), value);
        let (before, again, after) = (self.block()?, self.append_block(), self.append_block());
        let builder = &self.emit.builder;
        builder.build_unconditional_branch(again)?;
        builder.position_at_end(again);
        let phi = |first: Val<'c>| -> Result<PhiValue<'c>, Error> {
            let phi = builder.build_phi(first.get_type(), "")?;
            phi.add_incoming(&[(&first, before)]);
            Ok(phi)
        };
        let (result, square, rest) = (phi(c(1))?, phi(base)?, phi(exponent)?);
        let [r, s, e] = [result, square, rest].map(PhiValue::as_basic_value);
        let odd = self.emit.icmp(IntPredicate::NE, self.emit.and(e, c(1))?, c(0))?;
        let next = self.emit.select(odd, self.emit.mul(r, s)?, r)?;
        result.add_incoming(&[(&next, again)]);
        square.add_incoming(&[(&self.emit.mul(s, s)?, again)]);
        let left = self.emit.shift(InstructionOpcode::LShr, e, 1)?;
        rest.add_incoming(&[(&left, again)]);
        let any = match left {
            Val::VectorValue(_) => {
                let call = self.emit.call_intrinsic("llvm.vector.reduce.or", &[left.get_type()], &[left])?;
                call.try_as_basic_value().expect_basic("a reduction has a value")
            }
            scalar => scalar,
        };
        let more = self.emit.icmp(IntPredicate::NE, any, self.emit.const_int(int_bits(any), 1, 0))?.into_int_value();
        builder.build_conditional_branch(more, again, after)?;
        builder.position_at_end(after);
        Ok(next)
    }
}

impl<'c> Emit<'c> {
    /// `x / 0 = 0`, `MIN / -1 = MIN`.
    pub(crate) fn int_divide(&self, a: Val<'c>, b: Val<'c>, signed: bool) -> Emitted<'c> {
        let (bits, lanes) = (int_bits(a), lanes_of(a));
        let opcode = if signed { InstructionOpcode::SDiv } else { InstructionOpcode::UDiv };
        if self.divides_safely(b) {
            return self.binary(opcode, a, b);
        }
        let (zero, safe) = (self.const_int(bits, lanes, 0), self.safe_divisor(b, signed)?);
        let mut quotient = self.binary(opcode, a, safe)?;
        if signed {
            let is_minus_one = self.icmp(IntPredicate::EQ, b, self.const_int(bits, lanes, -1))?;
            quotient = self.select(is_minus_one, self.sub(zero, a)?, quotient)?;
        }
        self.select(self.icmp(IntPredicate::EQ, b, zero)?, zero, quotient)
    }

    /// Returns the remainder of the truncated quotient: `x rem 0 = x`, `MIN rem -1 = 0`.
    pub(crate) fn int_remainder(&self, a: Val<'c>, b: Val<'c>, signed: bool) -> Emitted<'c> {
        let opcode = if signed { InstructionOpcode::SRem } else { InstructionOpcode::URem };
        if self.divides_safely(b) {
            return self.binary(opcode, a, b);
        }
        // The divisor 1 in place of -1 gives the remainder 0, as required.
        let rest = self.binary(opcode, a, self.safe_divisor(b, signed)?)?;
        let is_zero = self.icmp(IntPredicate::EQ, b, self.const_int(int_bits(a), lanes_of(a), 0))?;
        self.select(is_zero, a, rest)
    }

    /// Divides and rounds down; 0 for a divisor of 0.
    pub(crate) fn floor_divide(&self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        let divisor = constant(b);
        if let Some(power) = divisor.filter(|d| *d > 0 && d.count_ones() == 1) {
            return self.shift(InstructionOpcode::AShr, a, power.trailing_zeros());
        }
        let (quotient, below) = (self.int_divide(a, b, true)?, self.rounds_up(a, b)?);
        let below = self.resize(below, int_bits(a), true)?;
        self.add(quotient, below)
    }

    /// Returns the remainder of [`Emit::floor_divide`], with the sign of the divisor; 0 for a
    /// divisor of 0.
    pub(crate) fn floor_modulo(&self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        let zero = self.const_int(int_bits(a), lanes_of(a), 0);
        let rest = self.int_remainder(a, b, true)?;
        let rest = self.select(self.rounds_up(a, b)?, self.add(rest, b)?, rest)?;
        self.select(self.icmp(IntPredicate::EQ, b, zero)?, zero, rest)
    }

    /// Returns true if the truncated quotient is above the exact one.
    fn rounds_up(&self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        let zero = self.const_int(int_bits(a), lanes_of(a), 0);
        let rest = self.int_remainder(a, b, true)?;
        let inexact = self.icmp(IntPredicate::NE, rest, zero)?;
        let opposite = self.icmp(IntPredicate::SLT, self.xor(rest, b)?, zero)?;
        let divides = self.icmp(IntPredicate::NE, b, zero)?;
        self.and(self.and(inexact, opposite)?, divides)
    }

    /// Replaces divisors that trap: 0, and -1 if the quotient may overflow, become 1.
    fn safe_divisor(&self, b: Val<'c>, signed: bool) -> Emitted<'c> {
        let (bits, lanes) = (int_bits(b), lanes_of(b));
        let one = self.const_int(bits, lanes, 1);
        // 0 and -1 are the values for which b + 1 is at most 1, unsigned.
        let unsafe_ = match signed {
            true => self.icmp(IntPredicate::ULE, self.add(b, one)?, one)?,
            false => self.icmp(IntPredicate::EQ, b, self.const_int(bits, lanes, 0))?,
        };
        self.select(unsafe_, one, b)
    }

    /// Returns true if a divisor is a scalar constant other than 0 and -1. For constant vectors
    /// LLVM folds the guards.
    fn divides_safely(&self, b: Val<'c>) -> bool {
        constant(b).is_some_and(|value| value != 0 && value != -1)
    }

    /// Shifts; 0 for amounts of at least the width, negative ones included.
    pub(crate) fn shift_logical(&self, opcode: InstructionOpcode, a: Val<'c>, amount: Val<'c>) -> Emitted<'c> {
        let (bits, lanes) = (int_bits(a), lanes_of(a));
        let shifted = self.binary(opcode, a, self.and(amount, self.const_int(bits, lanes, i64::from(bits) - 1))?)?;
        let fits = self.icmp(IntPredicate::ULT, amount, self.const_int(bits, lanes, i64::from(bits)))?;
        self.select(fits, shifted, self.const_int(bits, lanes, 0))
    }

    /// Shifts; the sign in every bit for amounts of at least the width, negative ones included.
    pub(crate) fn shift_arithmetic(&self, a: Val<'c>, amount: Val<'c>) -> Emitted<'c> {
        let most = self.const_int(int_bits(a), lanes_of(a), i64::from(int_bits(a)) - 1);
        self.binary(InstructionOpcode::AShr, a, self.intrinsic("llvm.umin", &[amount, most])?)
    }
}

/// Returns the value of a scalar constant.
fn constant(value: Val<'_>) -> Option<i64> {
    match value {
        Val::IntValue(value) => value.get_sign_extended_constant(),
        _ => None,
    }
}
