//! Computes ops of two operands.
use super::{Half, map2};
use crate::{
    planes::{Element, Planes},
    program::{Binary, Direction, Slot},
};
use disc_ir::DType;
use half::{bf16, f16};

#[inline(always)]
pub(super) fn run(planes: &mut Planes, f: Binary, operands: [Slot; 2], to: Slot) {
    match to.dtype() {
        DType::F32 => numbers::<f32>(planes, f, operands, to),
        DType::F64 => numbers::<f64>(planes, f, operands, to),
        DType::F16 => halves::<f16>(planes, f, operands, to),
        DType::BF16 => halves::<bf16>(planes, f, operands, to),
        DType::I1 => truths(planes, f, operands, to),
        DType::I8 => numbers::<i8>(planes, f, operands, to),
        DType::I16 => numbers::<i16>(planes, f, operands, to),
        DType::I32 => numbers::<i32>(planes, f, operands, to),
        DType::I64 => numbers::<i64>(planes, f, operands, to),
        DType::U8 => numbers::<u8>(planes, f, operands, to),
        DType::U16 => numbers::<u16>(planes, f, operands, to),
        DType::U32 => numbers::<u32>(planes, f, operands, to),
        DType::U64 => numbers::<u64>(planes, f, operands, to),
    }
}

/// Numbers that ops of two operands are defined on; those that are not of floats keep the first.
pub(super) trait Number: Element {
    fn add(self, b: Self) -> Self;
    fn subtract(self, b: Self) -> Self;
    fn multiply(self, b: Self) -> Self;
    fn divide(self, b: Self) -> Self;
    fn remainder(self, b: Self) -> Self;
    fn maximum(self, b: Self) -> Self;
    fn minimum(self, b: Self) -> Self;
    fn and(self, b: Self) -> Self;
    fn or(self, b: Self) -> Self;
    fn xor(self, b: Self) -> Self;
    fn shift_left(self, b: Self) -> Self;
    fn shift_right_arithmetic(self, b: Self) -> Self;
    fn shift_right_logical(self, b: Self) -> Self;
    fn power(self, b: Self) -> Self;
    /// The order of comparisons; all are false with a NaN.
    fn less(self, b: Self) -> bool;
    fn equal(self, b: Self) -> bool;
}

macro_rules! integers {
    ($($ty:ty, $signed:ty, $unsigned:ty;)*) => { $(
        impl Number for $ty {
            #[inline(always)]
            fn add(self, b: Self) -> Self { self.wrapping_add(b) }
            #[inline(always)]
            fn subtract(self, b: Self) -> Self { self.wrapping_sub(b) }
            #[inline(always)]
            fn multiply(self, b: Self) -> Self { self.wrapping_mul(b) }
            #[inline(always)]
            fn divide(self, b: Self) -> Self { if b == 0 { 0 } else { self.wrapping_div(b) } }
            #[inline(always)]
            fn remainder(self, b: Self) -> Self { if b == 0 { self } else { self.wrapping_rem(b) } }
            #[inline(always)]
            fn maximum(self, b: Self) -> Self { self.max(b) }
            #[inline(always)]
            fn minimum(self, b: Self) -> Self { self.min(b) }
            #[inline(always)]
            fn and(self, b: Self) -> Self { self & b }
            #[inline(always)]
            fn or(self, b: Self) -> Self { self | b }
            #[inline(always)]
            fn xor(self, b: Self) -> Self { self ^ b }
            #[inline(always)]
            fn shift_left(self, b: Self) -> Self {
                let by = b as $unsigned;
                if by < Self::BITS as $unsigned { self.wrapping_shl(by as u32) } else { 0 }
            }
            #[inline(always)]
            fn shift_right_arithmetic(self, b: Self) -> Self {
                let by = (b as $unsigned).min(Self::BITS as $unsigned - 1);
                (self as $signed).wrapping_shr(by as u32) as Self
            }
            #[inline(always)]
            fn shift_right_logical(self, b: Self) -> Self {
                let by = b as $unsigned;
                if by < Self::BITS as $unsigned { (self as $unsigned).wrapping_shr(by as u32) as Self } else { 0 }
            }
            #[inline(always)]
            fn less(self, b: Self) -> bool { self < b }
            #[inline(always)]
            fn equal(self, b: Self) -> bool { self == b }
            fn power(self, b: Self) -> Self {
                #[allow(unused_comparisons, reason = "unsigned numbers share the code")]
                let is_negative = b < 0;
                if is_negative {
                    return match self {
                        1 => 1,
                        _ if self.wrapping_add(1) == 0 => if b & 1 == 0 { 1 } else { self },
                        _ => 0,
                    };
                }
                let (mut result, mut square, mut rest): (Self, Self, Self) = (1, self, b);
                while rest > 0 {
                    if rest & 1 == 1 {
                        result = result.wrapping_mul(square);
                    }
                    square = square.wrapping_mul(square);
                    rest >>= 1;
                }
                result
            }
        }
    )* };
}

integers! {
    i8, i8, u8;
    i16, i16, u16;
    i32, i32, u32;
    i64, i64, u64;
    u8, i8, u8;
    u16, i16, u16;
    u32, i32, u32;
    u64, i64, u64;
}

macro_rules! floats {
    ($($ty:ty),*) => { $(
        impl Number for $ty {
            #[inline(always)]
            fn add(self, b: Self) -> Self { self + b }
            #[inline(always)]
            fn subtract(self, b: Self) -> Self { self - b }
            #[inline(always)]
            fn multiply(self, b: Self) -> Self { self * b }
            #[inline(always)]
            fn divide(self, b: Self) -> Self { self / b }
            #[inline(always)]
            fn remainder(self, b: Self) -> Self { self % b }
            #[inline(always)]
            fn maximum(self, b: Self) -> Self {
                if self >= b { self } else if self < b { b } else { Self::NAN }
            }
            #[inline(always)]
            fn minimum(self, b: Self) -> Self {
                if self <= b { self } else if self > b { b } else { Self::NAN }
            }
            #[inline(always)]
            fn and(self, _: Self) -> Self { self }
            #[inline(always)]
            fn or(self, _: Self) -> Self { self }
            #[inline(always)]
            fn xor(self, _: Self) -> Self { self }
            #[inline(always)]
            fn shift_left(self, _: Self) -> Self { self }
            #[inline(always)]
            fn shift_right_arithmetic(self, _: Self) -> Self { self }
            #[inline(always)]
            fn shift_right_logical(self, _: Self) -> Self { self }
            #[inline(always)]
            fn power(self, _: Self) -> Self { self }
            #[inline(always)]
            fn less(self, b: Self) -> bool { self < b }
            #[inline(always)]
            fn equal(self, b: Self) -> bool { self == b }
        }
    )* };
}

floats!(f32, f64);

#[inline(always)]
fn numbers<T: Number>(planes: &mut Planes, f: Binary, operands: [Slot; 2], to: Slot) {
    match f {
        Binary::Add => map2(planes, operands, to, T::add),
        Binary::And => map2(planes, operands, to, T::and),
        Binary::Divide => map2(planes, operands, to, T::divide),
        Binary::Maximum => map2(planes, operands, to, T::maximum),
        Binary::Minimum => map2(planes, operands, to, T::minimum),
        Binary::Multiply => map2(planes, operands, to, T::multiply),
        Binary::Or => map2(planes, operands, to, T::or),
        Binary::Power => map2(planes, operands, to, T::power),
        Binary::Remainder => map2(planes, operands, to, T::remainder),
        Binary::ShiftLeft => map2(planes, operands, to, T::shift_left),
        Binary::ShiftRightArithmetic => map2(planes, operands, to, T::shift_right_arithmetic),
        Binary::ShiftRightLogical => map2(planes, operands, to, T::shift_right_logical),
        Binary::Subtract => map2(planes, operands, to, T::subtract),
        Binary::Xor => map2(planes, operands, to, T::xor),
    }
}

/// Combines two numbers.
#[inline(always)]
fn one<T: Number>(f: Binary, a: T, b: T) -> T {
    match f {
        Binary::Add => a.add(b),
        Binary::And => a.and(b),
        Binary::Divide => a.divide(b),
        Binary::Maximum => a.maximum(b),
        Binary::Minimum => a.minimum(b),
        Binary::Multiply => a.multiply(b),
        Binary::Or => a.or(b),
        Binary::Power => a.power(b),
        Binary::Remainder => a.remainder(b),
        Binary::ShiftLeft => a.shift_left(b),
        Binary::ShiftRightArithmetic => a.shift_right_arithmetic(b),
        Binary::ShiftRightLogical => a.shift_right_logical(b),
        Binary::Subtract => a.subtract(b),
        Binary::Xor => a.xor(b),
    }
}

#[inline(always)]
fn halves<T: Half>(planes: &mut Planes, f: Binary, operands: [Slot; 2], to: Slot) {
    map2(planes, operands, to, |a: T, b: T| T::narrow(one(f, a.widen(), b.widen())));
}

#[inline(always)]
fn truths(planes: &mut Planes, f: Binary, operands: [Slot; 2], to: Slot) {
    match f {
        Binary::And | Binary::Minimum | Binary::Multiply => map2(planes, operands, to, |a: u8, b: u8| a & b),
        Binary::Xor => map2(planes, operands, to, |a: u8, b: u8| a ^ b),
        _ => map2(planes, operands, to, |a: u8, b: u8| a | b),
    }
}

/// Combines two elements of a type, given and returned as their bits.
pub(crate) fn combine(f: Binary, dtype: DType, a: u64, b: u64) -> u64 {
    match dtype {
        DType::F32 => one(f, f32::from_bits(a as u32), f32::from_bits(b as u32)).to_bits().into(),
        DType::F64 => one(f, f64::from_bits(a), f64::from_bits(b)).to_bits(),
        DType::F16 => half_bits::<f16>(f, [f16::from_bits(a as u16), f16::from_bits(b as u16)]).to_bits().into(),
        DType::BF16 => half_bits::<bf16>(f, [bf16::from_bits(a as u16), bf16::from_bits(b as u16)]).to_bits().into(),
        DType::I1 => match f {
            Binary::And | Binary::Minimum | Binary::Multiply => a & b,
            Binary::Xor => a ^ b,
            _ => a | b,
        },
        DType::I8 => u64::from(one(f, a as i8, b as i8) as u8),
        DType::I16 => u64::from(one(f, a as i16, b as i16) as u16),
        DType::I32 => u64::from(one(f, a as i32, b as i32) as u32),
        DType::I64 => one(f, a as i64, b as i64) as u64,
        DType::U8 => one(f, a as u8, b as u8).into(),
        DType::U16 => one(f, a as u16, b as u16).into(),
        DType::U32 => one(f, a as u32, b as u32).into(),
        DType::U64 => one(f, a, b),
    }
}

fn half_bits<T: Half>(f: Binary, [a, b]: [T; 2]) -> T {
    T::narrow(one(f, a.widen(), b.widen()))
}

#[inline(always)]
pub(super) fn compare(planes: &mut Planes, f: Direction, operands: [Slot; 2], to: Slot) {
    match operands[0].dtype() {
        DType::F32 => compared::<f32>(planes, f, operands, to),
        DType::F64 => compared::<f64>(planes, f, operands, to),
        DType::F16 => compared_halves::<f16>(planes, f, operands, to),
        DType::BF16 => compared_halves::<bf16>(planes, f, operands, to),
        DType::I8 => compared::<i8>(planes, f, operands, to),
        DType::I16 => compared::<i16>(planes, f, operands, to),
        DType::I32 => compared::<i32>(planes, f, operands, to),
        DType::I64 => compared::<i64>(planes, f, operands, to),
        DType::I1 | DType::U8 => compared::<u8>(planes, f, operands, to),
        DType::U16 => compared::<u16>(planes, f, operands, to),
        DType::U32 => compared::<u32>(planes, f, operands, to),
        DType::U64 => compared::<u64>(planes, f, operands, to),
    }
}

#[inline(always)]
fn compared<T: Number>(planes: &mut Planes, f: Direction, operands: [Slot; 2], to: Slot) {
    match f {
        Direction::Eq => map2(planes, operands, to, |a: T, b: T| u8::from(a.equal(b))),
        Direction::Ne => map2(planes, operands, to, |a: T, b: T| u8::from(!a.equal(b))),
        Direction::Lt => map2(planes, operands, to, |a: T, b: T| u8::from(a.less(b))),
        Direction::Le => map2(planes, operands, to, |a: T, b: T| u8::from(a.less(b) | a.equal(b))),
        Direction::Gt => map2(planes, operands, to, |a: T, b: T| u8::from(b.less(a))),
        Direction::Ge => map2(planes, operands, to, |a: T, b: T| u8::from(b.less(a) | a.equal(b))),
    }
}

#[inline(always)]
fn compared_halves<T: Half>(planes: &mut Planes, f: Direction, operands: [Slot; 2], to: Slot) {
    map2(planes, operands, to, |a: T, b: T| {
        let (a, b) = (a.widen(), b.widen());
        u8::from(match f {
            Direction::Eq => a == b,
            Direction::Ne => a != b,
            Direction::Lt => a < b,
            Direction::Le => a <= b,
            Direction::Gt => a > b,
            Direction::Ge => a >= b,
        })
    });
}
