//! Computes ops of one operand.
use super::{Half, map1};
use crate::{
    planes::Planes,
    program::{Slot, Unary},
};
use disc_ir::DType;
use half::{bf16, f16};

#[inline(always)]
pub(super) fn run(planes: &mut Planes, f: Unary, a: Slot, to: Slot) {
    macro_rules! integer {
        ($ty:ty) => {
            integer::<$ty>(planes, f, a, to)
        };
    }
    match a.dtype() {
        DType::F32 => single(planes, f, a, to),
        DType::F64 => double(planes, f, a, to),
        DType::F16 => half::<f16>(planes, f, a, to),
        DType::BF16 => half::<bf16>(planes, f, a, to),
        DType::I1 => map1::<u8, u8>(planes, a, to, |a| 1 - a),
        DType::I8 => integer!(i8),
        DType::I16 => integer!(i16),
        DType::I32 => integer!(i32),
        DType::I64 => integer!(i64),
        DType::U8 => integer!(u8),
        DType::U16 => integer!(u16),
        DType::U32 => integer!(u32),
        DType::U64 => integer!(u64),
    }
}

/// The integers' functions.
trait Integer: crate::planes::Element {
    fn absolute(self) -> Self;
    fn negated(self) -> Self;
    fn inverted(self) -> Self;
    fn sign(self) -> Self;
    fn ones(self) -> Self;
    fn zeros(self) -> Self;
}

macro_rules! integers {
    ($($ty:ty: $absolute:expr, $sign:expr;)*) => { $(
        impl Integer for $ty {
            #[inline(always)]
            fn absolute(self) -> Self {
                $absolute(self)
            }
            #[inline(always)]
            fn negated(self) -> Self {
                self.wrapping_neg()
            }
            #[inline(always)]
            fn inverted(self) -> Self {
                !self
            }
            #[inline(always)]
            fn sign(self) -> Self {
                $sign(self)
            }
            #[inline(always)]
            fn ones(self) -> Self {
                self.count_ones() as Self
            }
            #[inline(always)]
            fn zeros(self) -> Self {
                self.leading_zeros() as Self
            }
        }
    )* };
}

integers! {
    i8: i8::wrapping_abs, i8::signum;
    i16: i16::wrapping_abs, i16::signum;
    i32: i32::wrapping_abs, i32::signum;
    i64: i64::wrapping_abs, i64::signum;
    u8: |a| a, |a: u8| a.min(1);
    u16: |a| a, |a: u16| a.min(1);
    u32: |a| a, |a: u32| a.min(1);
    u64: |a| a, |a: u64| a.min(1);
}

#[inline(always)]
fn integer<T: Integer>(planes: &mut Planes, f: Unary, a: Slot, to: Slot) {
    match f {
        Unary::Abs => map1(planes, a, to, T::absolute),
        Unary::CountLeadingZeros => map1(planes, a, to, T::zeros),
        Unary::Negate => map1(planes, a, to, T::negated),
        Unary::Not => map1(planes, a, to, T::inverted),
        Unary::Popcnt => map1(planes, a, to, T::ones),
        Unary::Sign => map1(planes, a, to, T::sign),
        // The others are of floats: the verifier sees to it.
        _ => map1(planes, a, to, |a: T| a),
    }
}

#[inline(always)]
fn single(planes: &mut Planes, f: Unary, a: Slot, to: Slot) {
    match f {
        Unary::Abs => map1(planes, a, to, f32::abs),
        Unary::Ceil => map1(planes, a, to, f32::ceil),
        Unary::Floor => map1(planes, a, to, f32::floor),
        Unary::IsFinite => map1(planes, a, to, |a: f32| u8::from(a.is_finite())),
        Unary::IsInf => map1(planes, a, to, |a: f32| u8::from(a.is_infinite())),
        Unary::IsNan => map1(planes, a, to, |a: f32| u8::from(a.is_nan())),
        Unary::Negate => map1(planes, a, to, |a: f32| -a),
        Unary::RoundNearestAfz => map1(planes, a, to, f32::round),
        Unary::RoundNearestEven => map1(planes, a, to, f32::round_ties_even),
        // In f64, as the interpreter: the root is not rounded to f32.
        Unary::Rsqrt => map1(planes, a, to, |a: f32| (1.0 / f64::from(a).sqrt()) as f32),
        Unary::Sign => map1(planes, a, to, |a: f32| if a.is_nan() || a == 0.0 { a } else { a.signum() }),
        Unary::Sqrt => map1(planes, a, to, f32::sqrt),
        _ => map1(planes, a, to, |a: f32| a),
    }
}

#[inline(always)]
fn double(planes: &mut Planes, f: Unary, a: Slot, to: Slot) {
    match f {
        Unary::IsFinite => map1(planes, a, to, |a: f64| u8::from(a.is_finite())),
        Unary::IsInf => map1(planes, a, to, |a: f64| u8::from(a.is_infinite())),
        Unary::IsNan => map1(planes, a, to, |a: f64| u8::from(a.is_nan())),
        _ => map1(planes, a, to, |a: f64| of_double(f, a)),
    }
}

#[inline(always)]
fn of_double(f: Unary, a: f64) -> f64 {
    match f {
        Unary::Abs => a.abs(),
        Unary::Ceil => a.ceil(),
        Unary::Floor => a.floor(),
        Unary::Negate => -a,
        Unary::RoundNearestAfz => a.round(),
        Unary::RoundNearestEven => a.round_ties_even(),
        Unary::Rsqrt => 1.0 / a.sqrt(),
        Unary::Sign if a.is_nan() || a == 0.0 => a,
        Unary::Sign => a.signum(),
        Unary::Sqrt => a.sqrt(),
        _ => a,
    }
}

#[inline(always)]
fn half<T: Half>(planes: &mut Planes, f: Unary, a: Slot, to: Slot) {
    match f {
        Unary::IsFinite => map1(planes, a, to, |a: T| u8::from(a.widen().is_finite())),
        Unary::IsInf => map1(planes, a, to, |a: T| u8::from(a.widen().is_infinite())),
        Unary::IsNan => map1(planes, a, to, |a: T| u8::from(a.widen().is_nan())),
        _ => map1(planes, a, to, |a: T| T::narrow(of_double(f, a.widen()))),
    }
}
