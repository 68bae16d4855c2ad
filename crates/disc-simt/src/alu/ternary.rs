//! Computes ops of three operands, and scaling by powers of two.
use super::{Half, binary::Number, map2, map3};
use crate::{planes::Planes, program::Slot};
use disc_ir::DType;
use half::{bf16, f16};

#[inline(always)]
pub(super) fn select(planes: &mut Planes, [pred, a, b]: [Slot; 3], to: Slot) {
    macro_rules! selected {
        ($ty:ty, $dtype:expr) => {{
            let bits = |slot: Slot| Slot { dtype: Some($dtype), ..slot };
            let (pred, [a, b], to) = planes.split_two::<u8, $ty, 2>(pred, [bits(a), bits(b)], bits(to));
            for (((to, &pred), &a), &b) in to.iter_mut().zip(pred).zip(a).zip(b) {
                *to = if pred != 0 { a } else { b };
            }
        }};
    }
    match to.dtype().size() {
        1 => selected!(u8, DType::U8),
        2 => selected!(u16, DType::U16),
        4 => selected!(u32, DType::U32),
        _ => selected!(u64, DType::U64),
    }
}

#[inline(always)]
pub(super) fn clamp(planes: &mut Planes, operands: [Slot; 3], to: Slot) {
    macro_rules! clamped {
        ($ty:ty) => {
            map3(planes, operands, to, |low: $ty, value: $ty, high: $ty| value.max(low).min(high))
        };
    }
    match to.dtype() {
        DType::F32 => {
            map3(planes, operands, to, |low: f32, value: f32, high: f32| Number::minimum(Number::maximum(value, low), high))
        }
        DType::F64 => {
            map3(planes, operands, to, |low: f64, value: f64, high: f64| Number::minimum(Number::maximum(value, low), high))
        }
        DType::F16 => clamp_half::<f16>(planes, operands, to),
        DType::BF16 => clamp_half::<bf16>(planes, operands, to),
        DType::I8 => clamped!(i8),
        DType::I16 => clamped!(i16),
        DType::I32 => clamped!(i32),
        DType::I64 => clamped!(i64),
        DType::I1 | DType::U8 => clamped!(u8),
        DType::U16 => clamped!(u16),
        DType::U32 => clamped!(u32),
        DType::U64 => clamped!(u64),
    }
}

#[inline(always)]
fn clamp_half<T: Half>(planes: &mut Planes, operands: [Slot; 3], to: Slot) {
    map3(planes, operands, to, |low: T, value: T, high: T| {
        T::narrow(Number::minimum(Number::maximum(value.widen(), low.widen()), high.widen()))
    });
}

#[inline(always)]
pub(super) fn fma(planes: &mut Planes, operands: [Slot; 3], to: Slot) {
    macro_rules! integer {
        ($ty:ty) => {
            map3(planes, operands, to, |a: $ty, b: $ty, c: $ty| a.wrapping_mul(b).wrapping_add(c))
        };
    }
    match to.dtype() {
        DType::F32 => map3(planes, operands, to, f32::mul_add),
        DType::F64 => map3(planes, operands, to, f64::mul_add),
        DType::F16 => fma_half::<f16>(planes, operands, to),
        DType::BF16 => fma_half::<bf16>(planes, operands, to),
        DType::I8 | DType::U8 | DType::I1 => integer!(u8),
        DType::I16 | DType::U16 => integer!(u16),
        DType::I32 | DType::U32 => integer!(u32),
        DType::I64 | DType::U64 => integer!(u64),
    }
}

/// Rounds to f32 and then to the half, as the interpreter does.
#[inline(always)]
fn fma_half<T: Half>(planes: &mut Planes, operands: [Slot; 3], to: Slot) {
    let single = |value: T| value.widen() as f32;
    map3(planes, operands, to, |a: T, b: T, c: T| T::narrow(single(a).mul_add(single(b), single(c)).into()));
}

#[inline(always)]
pub(super) fn scale(planes: &mut Planes, operands: [Slot; 2], to: Slot) {
    match to.dtype() {
        DType::F32 => {
            map2(planes, operands, to, |value: f32, exponent: f32| (f64::from(value) * f64::from(exponent).exp2()) as f32)
        }
        // A power may be none of f64 as a whole, and its first half makes no denormal number.
        _ => map2(planes, operands, to, |value: f64, exponent: f64| {
            let half = (exponent / 2.0).trunc();
            value * half.exp2() * (exponent - half).exp2()
        }),
    }
}
