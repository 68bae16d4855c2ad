//! Expands math functions into arithmetic of the kernel IR: [`crate::math`] written out by a
//! [`KernelBuilder`].
//!
//! It approximates no function itself; it only supplies the operations. A value that is the same in
//! every lane stays a scalar.
use super::KernelBuilder;
use crate::{
    math::{Emitter, Format, LoopBody, MathFn, scale_by_products},
    target::Target,
};
use disc_ir::{DType, Literal, OpKind, Value};
use disc_kernel_macros::expr;

/// The arithmetic for which a target has one instruction each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arithmetic {
    /// The op `a * b + c`, rounded once.
    fused: bool,
    /// The op `x * 2^n`.
    scales: bool,
}

impl Arithmetic {
    pub(crate) fn of(target: &Target) -> Self {
        Self { fused: target.has_fma(), scales: target.scales_by_power() }
    }
}

/// Expands a math op; returns `None` for an op that the target computes, or that is on integers.
pub(crate) fn math(kb: &mut KernelBuilder, kind: OpKind, operands: &[Value], arithmetic: Arithmetic) -> Option<Value> {
    function(kb, MathFn::of(kind)?, operands, arithmetic)
}

/// Expands a function of floats; returns `None` for integers.
pub(crate) fn function(kb: &mut KernelBuilder, function: MathFn, operands: &[Value], arithmetic: Arithmetic) -> Option<Value> {
    let format = match kb.dtype(operands[0]) {
        DType::F32 => Format::F32,
        DType::F64 => Format::F64,
        _ => return None,
    };
    let operands = kb.unify(operands);
    Some(function.emit(&mut Writer { kb, format, arithmetic }, &operands))
}

struct Writer<'k> {
    kb: &'k mut KernelBuilder,
    format: Format,
    arithmetic: Arithmetic,
}

impl Writer<'_> {
    fn float_type(&self) -> DType {
        self.format.pick(DType::F32, DType::F64)
    }

    fn integer_type(&self) -> DType {
        self.format.pick(DType::I32, DType::I64)
    }

    fn shift(&mut self, kind: OpKind, a: Value, n: u32) -> Value {
        let n = self.i(i64::from(n));
        self.kb.map(kind, &[a, n])
    }
}

impl Emitter for Writer<'_> {
    type F = Value;
    type I = Value;
    type M = Value;

    fn format(&self) -> Format {
        self.format
    }

    fn fused(&self) -> bool {
        self.arithmetic.fused
    }

    fn f(&mut self, c: f64) -> Value {
        let dtype = self.float_type();
        self.kb.float(dtype, c, 1)
    }

    fn i(&mut self, c: i64) -> Value {
        let dtype = self.integer_type();
        self.kb.constant(Literal::splat_i64(dtype, c), 1)
    }

    fn add(&mut self, a: Value, b: Value) -> Value {
        self.kb.map(OpKind::Add, &[a, b])
    }

    fn sub(&mut self, a: Value, b: Value) -> Value {
        self.kb.map(OpKind::Subtract, &[a, b])
    }

    fn mul(&mut self, a: Value, b: Value) -> Value {
        self.kb.map(OpKind::Multiply, &[a, b])
    }

    fn div(&mut self, a: Value, b: Value) -> Value {
        self.kb.map(OpKind::Divide, &[a, b])
    }

    fn fma(&mut self, a: Value, b: Value, c: Value) -> Value {
        self.kb.fma(a, b, c)
    }

    fn neg(&mut self, a: Value) -> Value {
        self.kb.emit(OpKind::Negate, &[a])
    }

    fn abs(&mut self, a: Value) -> Value {
        self.kb.emit(OpKind::Abs, &[a])
    }

    fn sqrt(&mut self, a: Value) -> Value {
        self.kb.emit(OpKind::Sqrt, &[a])
    }

    fn floor(&mut self, a: Value) -> Value {
        self.kb.emit(OpKind::Floor, &[a])
    }

    fn round_even(&mut self, a: Value) -> Value {
        self.kb.emit(OpKind::RoundNearestEven, &[a])
    }

    fn eq(&mut self, a: Value, b: Value) -> Value {
        expr!(self.kb, a == b)
    }

    fn lt(&mut self, a: Value, b: Value) -> Value {
        expr!(self.kb, a < b)
    }

    fn le(&mut self, a: Value, b: Value) -> Value {
        expr!(self.kb, a <= b)
    }

    fn select(&mut self, mask: Value, a: Value, b: Value) -> Value {
        self.kb.select(mask, a, b)
    }

    fn iselect(&mut self, mask: Value, a: Value, b: Value) -> Value {
        self.kb.select(mask, a, b)
    }

    fn and(&mut self, a: Value, b: Value) -> Value {
        expr!(self.kb, a & b)
    }

    fn or(&mut self, a: Value, b: Value) -> Value {
        expr!(self.kb, a | b)
    }

    fn not(&mut self, a: Value) -> Value {
        expr!(self.kb, !a)
    }

    fn bits(&mut self, a: Value) -> Value {
        let dtype = self.integer_type();
        self.kb.emit_all(OpKind::BitcastConvert, &[a], &[("dtype", dtype.into())], None)[0]
    }

    fn with_bits(&mut self, a: Value) -> Value {
        let dtype = self.float_type();
        self.kb.emit_all(OpKind::BitcastConvert, &[a], &[("dtype", dtype.into())], None)[0]
    }

    fn to_int(&mut self, a: Value) -> Value {
        let dtype = self.integer_type();
        self.kb.convert(a, dtype)
    }

    fn to_float(&mut self, a: Value) -> Value {
        let dtype = self.float_type();
        self.kb.convert(a, dtype)
    }

    fn iadd(&mut self, a: Value, b: Value) -> Value {
        self.kb.map(OpKind::Add, &[a, b])
    }

    fn isub(&mut self, a: Value, b: Value) -> Value {
        self.kb.map(OpKind::Subtract, &[a, b])
    }

    fn imul(&mut self, a: Value, b: Value) -> Value {
        self.kb.map(OpKind::Multiply, &[a, b])
    }

    fn iand(&mut self, a: Value, b: Value) -> Value {
        expr!(self.kb, a & b)
    }

    fn ior(&mut self, a: Value, b: Value) -> Value {
        expr!(self.kb, a | b)
    }

    fn ixor(&mut self, a: Value, b: Value) -> Value {
        expr!(self.kb, a ^ b)
    }

    fn shl(&mut self, a: Value, n: u32) -> Value {
        self.shift(OpKind::ShiftLeft, a, n)
    }

    fn lshr(&mut self, a: Value, n: u32) -> Value {
        self.shift(OpKind::ShiftRightLogical, a, n)
    }

    fn ashr(&mut self, a: Value, n: u32) -> Value {
        self.shift(OpKind::ShiftRightArithmetic, a, n)
    }

    fn ieq(&mut self, a: Value, b: Value) -> Value {
        expr!(self.kb, a == b)
    }

    fn ilt(&mut self, a: Value, b: Value) -> Value {
        expr!(self.kb, a < b)
    }

    fn loop_while(&mut self, active: Value, state: &[Value], body: &mut LoopBody<'_, Self>) -> Vec<Value> {
        let all = self.kb.unify(&[&[active], state].concat());
        let mut open = self.kb.open_while(&all, |kb, carried| kb.reduce_lanes(carried[0], "or"));
        let (active, state) = (open.carried[0], open.carried[1..].to_vec());
        let lanes = self.kb.lanes(active);
        let (next, goes_on) = body(self, &state);
        let chosen: Vec<Value> = next.iter().zip(&state).map(|(&n, &old)| self.kb.select(active, n, old)).collect();
        let still = expr!(self.kb, active & goes_on);
        open.next = [still].into_iter().chain(chosen).map(|v| self.kb.widen(v, lanes)).collect();
        self.kb.close_while(open).split_off(1)
    }

    fn where_rare(&mut self, mask: Value, usual: &[Value], rare: &mut dyn FnMut(&mut Self) -> Vec<Value>) -> Vec<Value> {
        let all = self.kb.unify(&[&[mask], usual].concat());
        let (mask, usual) = (all[0], &all[1..]);
        let lanes = self.kb.lanes(mask);
        let any = self.kb.reduce_lanes(mask, "or");
        let open = self.kb.open_if(any);
        let values = rare(self);
        let chosen: Vec<Value> = values.iter().zip(usual).map(|(&r, &u)| self.kb.select(mask, r, u)).collect();
        let chosen: Vec<Value> = chosen.into_iter().map(|v| self.kb.widen(v, lanes)).collect();
        self.kb.close_if_giving(open, &chosen, usual)
    }

    fn scale(&mut self, x: Value, n: Value, shifted: Value) -> Value {
        if !self.arithmetic.scales {
            return scale_by_products(self, x, shifted);
        }
        self.kb.map(OpKind::ScaleByPower, &[x, n])
    }
}
