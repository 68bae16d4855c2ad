//! Converts between element types.
use super::{CHUNK, Half, map1, to_odd};
use crate::{planes::Planes, program::Slot};
use disc_ir::DType;
use half::{bf16, f16, slice::HalfFloatSliceExt};

#[inline(always)]
pub(super) fn run(planes: &mut Planes, from: Slot, to: Slot) {
    use DType::{BF16, F16, F32, F64, I1, I8, I16, I32, I64, U8, U16, U32, U64};
    match (from.dtype(), to.dtype()) {
        (a, b) if a == b => super::lanes::bits(planes, from, to),
        (F16, F32) => {
            let ([from], to) = planes.split::<f16, f32, 1>([from], to);
            from.convert_to_f32_slice(to);
        }
        (F32, F16) => {
            let ([from], to) = planes.split::<f32, f16, 1>([from], to);
            to.convert_from_f32_slice(from);
        }
        (BF16, F32) => map1(planes, from, to, |a: bf16| f32::from_bits(u32::from(a.to_bits()) << 16)),
        (F32, BF16) => map1(planes, from, to, bf16::from_f32),
        (F32, F64) => map1::<f32, f64>(planes, from, to, f64::from),
        (F64, F32) => map1(planes, from, to, |a: f64| a as f32),
        (I32, I64) => map1::<i32, i64>(planes, from, to, i64::from),
        (I64 | U64, I32 | U32) => map1(planes, from, to, |a: i64| a as i32),
        (I32, F32) => map1(planes, from, to, |a: i32| a as f32),
        (I64, F32) => map1(planes, from, to, |a: i64| a as f32),
        (F32, I32) => map1(planes, from, to, |a: f32| a as i32),
        (I1 | U8, I32 | U32) => map1(planes, from, to, |a: u8| i32::from(a)),
        (I1 | U8, F32) => map1(planes, from, to, |a: u8| f32::from(a)),
        (F16 | BF16 | F32 | F64, F16 | BF16 | F32 | F64) => chunks(planes, from, to, read_floats, write_floats),
        (F16 | BF16 | F32 | F64, _) => chunks(planes, from, to, read_floats, saturate),
        (_, F16 | BF16 | F32 | F64) if from.dtype() == U64 => {
            chunks(planes, from, to, read_integers, |planes, to, first, values: &[i64]| {
                round(planes, to, first, values, |value| i128::from(value as u64));
            })
        }
        (_, F16 | BF16 | F32 | F64) => chunks(planes, from, to, read_integers, |planes, to, first, values: &[i64]| {
            round(planes, to, first, values, i128::from);
        }),
        (I1 | I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64, _) => chunks(planes, from, to, read_integers, wrap),
    }
}

/// Converts in two steps, some elements at a time.
fn chunks<T: Copy + Default>(
    planes: &mut Planes,
    from: Slot,
    to: Slot,
    read: impl Fn(&Planes, Slot, usize, &mut [T]),
    write: impl Fn(&mut Planes, Slot, usize, &[T]),
) {
    let mut values = [T::default(); CHUNK];
    for first in (0..from.count as usize).step_by(CHUNK) {
        let values = &mut values[..CHUNK.min(from.count as usize - first)];
        read(planes, from, first, values);
        write(planes, to, first, values);
    }
}

macro_rules! read {
    ($planes:expr, $slot:expr, $first:expr, $to:expr, $ty:ty, $f:expr) => {
        for (to, &value) in $to.iter_mut().zip(&$planes.get::<$ty>($slot)[$first..]) {
            *to = $f(value);
        }
    };
}

macro_rules! write {
    ($planes:expr, $slot:expr, $first:expr, $from:expr, $ty:ty, $f:expr) => {
        for (to, value) in $planes.get_mut::<$ty>($slot)[$first..].iter_mut().zip($from) {
            *to = $f(value);
        }
    };
}

fn read_floats(planes: &Planes, slot: Slot, first: usize, to: &mut [f64]) {
    match slot.dtype() {
        DType::F16 => read!(planes, slot, first, to, f16, Half::widen),
        DType::BF16 => read!(planes, slot, first, to, bf16, Half::widen),
        DType::F32 => read!(planes, slot, first, to, f32, f64::from),
        _ => read!(planes, slot, first, to, f64, |value| value),
    }
}

/// Reads integers; those of 64 bits keep their bits.
fn read_integers(planes: &Planes, slot: Slot, first: usize, to: &mut [i64]) {
    match slot.dtype() {
        DType::I8 => read!(planes, slot, first, to, i8, i64::from),
        DType::I16 => read!(planes, slot, first, to, i16, i64::from),
        DType::I32 => read!(planes, slot, first, to, i32, i64::from),
        DType::I1 | DType::U8 => read!(planes, slot, first, to, u8, i64::from),
        DType::U16 => read!(planes, slot, first, to, u16, i64::from),
        DType::U32 => read!(planes, slot, first, to, u32, i64::from),
        _ => read!(planes, slot, first, to, i64, |value| value),
    }
}

fn write_floats(planes: &mut Planes, slot: Slot, first: usize, from: &[f64]) {
    let from = from.iter().copied();
    match slot.dtype() {
        DType::F16 => write!(planes, slot, first, from, f16, Half::narrow),
        DType::BF16 => write!(planes, slot, first, from, bf16, Half::narrow),
        DType::F32 => write!(planes, slot, first, from, f32, |value| value as f32),
        _ => write!(planes, slot, first, from, f64, |value| value),
    }
}

fn saturate(planes: &mut Planes, slot: Slot, first: usize, from: &[f64]) {
    let from = from.iter().copied();
    match slot.dtype() {
        DType::I1 => write!(planes, slot, first, from, u8, |value: f64| u8::from(value != 0.0)),
        DType::I8 => write!(planes, slot, first, from, i8, |value| value as i8),
        DType::I16 => write!(planes, slot, first, from, i16, |value| value as i16),
        DType::I32 => write!(planes, slot, first, from, i32, |value| value as i32),
        DType::I64 => write!(planes, slot, first, from, i64, |value| value as i64),
        DType::U8 => write!(planes, slot, first, from, u8, |value| value as u8),
        DType::U16 => write!(planes, slot, first, from, u16, |value| value as u16),
        DType::U32 => write!(planes, slot, first, from, u32, |value| value as u32),
        _ => write!(planes, slot, first, from, u64, |value| value as u64),
    }
}

fn wrap(planes: &mut Planes, slot: Slot, first: usize, from: &[i64]) {
    let from = from.iter().copied();
    match slot.dtype() {
        DType::I1 => write!(planes, slot, first, from, u8, |value: i64| u8::from(value != 0)),
        DType::I8 | DType::U8 => write!(planes, slot, first, from, u8, |value| value as u8),
        DType::I16 | DType::U16 => write!(planes, slot, first, from, u16, |value| value as u16),
        DType::I32 | DType::U32 => write!(planes, slot, first, from, u32, |value| value as u32),
        _ => write!(planes, slot, first, from, i64, |value| value),
    }
}

/// Rounds integers to floats, once.
fn round(planes: &mut Planes, slot: Slot, first: usize, from: &[i64], exact: impl Fn(i64) -> i128) {
    let from = from.iter().map(|&value| exact(value));
    match slot.dtype() {
        DType::F16 => write!(planes, slot, first, from, f16, |value| f16::from_f32(to_odd(to_odd_double(value)))),
        DType::BF16 => write!(planes, slot, first, from, bf16, |value| bf16::from_f32(to_odd(to_odd_double(value)))),
        DType::F32 => write!(planes, slot, first, from, f32, |value| value as f32),
        _ => write!(planes, slot, first, from, f64, |value| value as f64),
    }
}

/// As [`to_odd`], for an integer and f64.
fn to_odd_double(value: i128) -> f64 {
    let nearest = value as f64;
    if nearest as i128 == value || nearest.to_bits() & 1 == 1 {
        return nearest;
    }
    if (nearest as i128) < value { nearest.next_up() } else { nearest.next_down() }
}
