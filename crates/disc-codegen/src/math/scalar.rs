//! Computes math functions directly: emitters of one lane, in plain Rust arithmetic.
//!
//! They serve to test the math functions (and may fold constants); compiled code does not run them.
//!
//! - `FUSED` means that `fma` rounds once; with `false` they show the results of a target without
//!   FMA.

use super::emitter::{Emitter, Format, LoopBody};
use std::marker::PhantomData;

/// A computing emitter for `T` = f32 or f64.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scalar<T, const FUSED: bool>(PhantomData<T>);

/// f32 with fused multiply-add.
pub type Scalar32 = Scalar<f32, true>;
/// f64 with fused multiply-add.
pub type Scalar64 = Scalar<f64, true>;
/// f32 on a target without fused multiply-add.
pub type Scalar32NoFma = Scalar<f32, false>;
/// f64 on a target without fused multiply-add.
pub type Scalar64NoFma = Scalar<f64, false>;

impl<T, const FUSED: bool> Scalar<T, FUSED> {
    /// Makes the emitter; it has no state.
    pub const fn new() -> Self {
        Scalar(PhantomData)
    }
}

macro_rules! scalar_emitter {
    ($float:ty, $int:ty, $uint:ty, $format:expr) => {
        impl<const FUSED: bool> Emitter for Scalar<$float, FUSED> {
            type F = $float;
            type I = $int;
            type M = bool;

            fn format(&self) -> Format {
                $format
            }
            fn fused(&self) -> bool {
                FUSED
            }
            #[inline(always)]
            fn f(&mut self, c: f64) -> $float {
                c as $float
            }
            #[inline(always)]
            fn i(&mut self, c: i64) -> $int {
                c as $int
            }
            #[inline(always)]
            fn add(&mut self, a: $float, b: $float) -> $float {
                a + b
            }
            #[inline(always)]
            fn sub(&mut self, a: $float, b: $float) -> $float {
                a - b
            }
            #[inline(always)]
            fn mul(&mut self, a: $float, b: $float) -> $float {
                a * b
            }
            #[inline(always)]
            fn div(&mut self, a: $float, b: $float) -> $float {
                a / b
            }
            #[inline(always)]
            fn fma(&mut self, a: $float, b: $float, c: $float) -> $float {
                if FUSED { a.mul_add(b, c) } else { a * b + c }
            }
            #[inline(always)]
            fn neg(&mut self, a: $float) -> $float {
                -a
            }
            #[inline(always)]
            fn abs(&mut self, a: $float) -> $float {
                a.abs()
            }
            #[inline(always)]
            fn sqrt(&mut self, a: $float) -> $float {
                a.sqrt()
            }
            #[inline(always)]
            fn floor(&mut self, a: $float) -> $float {
                a.floor()
            }
            #[inline(always)]
            fn round_even(&mut self, a: $float) -> $float {
                a.round_ties_even()
            }
            #[inline(always)]
            fn eq(&mut self, a: $float, b: $float) -> bool {
                a == b
            }
            #[inline(always)]
            fn lt(&mut self, a: $float, b: $float) -> bool {
                a < b
            }
            #[inline(always)]
            fn le(&mut self, a: $float, b: $float) -> bool {
                a <= b
            }
            #[inline(always)]
            fn select(&mut self, mask: bool, a: $float, b: $float) -> $float {
                if mask { a } else { b }
            }
            #[inline(always)]
            fn iselect(&mut self, mask: bool, a: $int, b: $int) -> $int {
                if mask { a } else { b }
            }
            #[inline(always)]
            fn and(&mut self, a: bool, b: bool) -> bool {
                a & b
            }
            #[inline(always)]
            fn or(&mut self, a: bool, b: bool) -> bool {
                a | b
            }
            #[inline(always)]
            fn not(&mut self, a: bool) -> bool {
                !a
            }
            #[inline(always)]
            fn bits(&mut self, a: $float) -> $int {
                a.to_bits() as $int
            }
            #[inline(always)]
            fn with_bits(&mut self, a: $int) -> $float {
                <$float>::from_bits(a as $uint)
            }
            #[inline(always)]
            fn to_int(&mut self, a: $float) -> $int {
                a as $int
            }
            #[inline(always)]
            fn to_float(&mut self, a: $int) -> $float {
                a as $float
            }
            #[inline(always)]
            fn iadd(&mut self, a: $int, b: $int) -> $int {
                a.wrapping_add(b)
            }
            #[inline(always)]
            fn isub(&mut self, a: $int, b: $int) -> $int {
                a.wrapping_sub(b)
            }
            #[inline(always)]
            fn imul(&mut self, a: $int, b: $int) -> $int {
                a.wrapping_mul(b)
            }
            #[inline(always)]
            fn iand(&mut self, a: $int, b: $int) -> $int {
                a & b
            }
            #[inline(always)]
            fn ior(&mut self, a: $int, b: $int) -> $int {
                a | b
            }
            #[inline(always)]
            fn ixor(&mut self, a: $int, b: $int) -> $int {
                a ^ b
            }
            #[inline(always)]
            fn shl(&mut self, a: $int, n: u32) -> $int {
                a << n
            }
            #[inline(always)]
            fn lshr(&mut self, a: $int, n: u32) -> $int {
                ((a as $uint) >> n) as $int
            }
            #[inline(always)]
            fn ashr(&mut self, a: $int, n: u32) -> $int {
                a >> n
            }
            #[inline(always)]
            fn ieq(&mut self, a: $int, b: $int) -> bool {
                a == b
            }
            #[inline(always)]
            fn ilt(&mut self, a: $int, b: $int) -> bool {
                a < b
            }

            fn loop_while(&mut self, active: bool, state: &[$int], body: &mut LoopBody<'_, Self>) -> Vec<$int> {
                let (mut state, mut active) = (state.to_vec(), active);
                while active {
                    (state, active) = body(self, &state);
                }
                state
            }
        }
    };
}

scalar_emitter!(f32, i32, u32, Format::F32);
scalar_emitter!(f64, i64, u64, Format::F64);
