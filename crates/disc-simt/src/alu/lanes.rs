//! Computes ops on the lanes of vectors.
use super::binary::combine;
use crate::{
    planes::{Element, Planes},
    program::{Binary, Reg, Slot},
};
use disc_ir::DType;

/// Copies the bytes of a register.
#[inline(always)]
pub(super) fn bits(planes: &mut Planes, from: Slot, to: Slot) {
    let ([from], to) = planes.split::<u8, u8, 1>([from.as_bytes()], to.as_bytes());
    to.copy_from_slice(from);
}

/// Gives each lane of the result a lane of a register.
#[inline(always)]
pub(super) fn permute(planes: &mut Planes, registers: &[Slot], places: &[(Reg, u32)], to: Slot) {
    match to.dtype().size() {
        1 => permuted::<u8>(planes, registers, places, Slot { dtype: Some(DType::U8), ..to }),
        2 => permuted::<u16>(planes, registers, places, Slot { dtype: Some(DType::U16), ..to }),
        4 => permuted::<u32>(planes, registers, places, Slot { dtype: Some(DType::U32), ..to }),
        _ => permuted::<u64>(planes, registers, places, Slot { dtype: Some(DType::U64), ..to }),
    }
}

#[inline(always)]
fn permuted<T: Element>(planes: &mut Planes, registers: &[Slot], places: &[(Reg, u32)], to: Slot) {
    for (lane, &(register, place)) in places.iter().enumerate() {
        let from = Slot { dtype: to.dtype, ..registers[register as usize] };
        let (step, place) = (from.lanes as usize, place as usize);
        let ([from], to) = planes.split::<T, T, 1>([from], to);
        for (to, from) in to.chunks_exact_mut(places.len()).zip(from.chunks_exact(step)) {
            to[lane] = from[place];
        }
    }
}

/// Reads an element as its bits.
pub(crate) fn bits_at(bytes: &[u8], size: usize, index: usize) -> u64 {
    let mut word = [0; 8];
    word[..size].copy_from_slice(&bytes[index * size..(index + 1) * size]);
    u64::from_le_bytes(word)
}

pub(super) fn pick(planes: &mut Planes, [a, b, places]: [Slot; 3], to: Slot) {
    let (lanes, size) = (to.lanes as usize, to.dtype().size());
    for i in 0..to.count as usize {
        let place = planes.get::<i32>(places)[i].rem_euclid(2 * lanes as i32) as usize;
        let from = if place < lanes { a } else { b };
        let start = (i / lanes * lanes + place % lanes) * size;
        let mut word = [0; 8];
        word[..size].copy_from_slice(&planes.bytes(from)[start..start + size]);
        planes.bytes_mut(to)[i * size..(i + 1) * size].copy_from_slice(&word[..size]);
    }
}

pub(super) fn lane_mask(planes: &mut Planes, count: Slot, to: Slot) {
    let lanes = to.lanes as usize;
    for i in 0..count.count as usize {
        let count = match count.dtype() {
            DType::I32 => planes.get::<i32>(count)[i].into(),
            _ => planes.get::<i64>(count)[i],
        };
        for (lane, to) in planes.get_mut::<u8>(to)[i * lanes..(i + 1) * lanes].iter_mut().enumerate() {
            *to = u8::from((lane as i64) < count);
        }
    }
}

/// Combines the lanes of each value, the lower half with the upper half.
pub(super) fn reduce(planes: &mut Planes, f: Binary, from: Slot, to: Slot) {
    let (dtype, lanes, size) = (from.dtype(), from.lanes as usize, from.dtype().size());
    let mut values = vec![0; lanes];
    for i in 0..to.count as usize {
        let bytes = planes.bytes(from);
        (0..lanes).for_each(|lane| values[lane] = bits_at(bytes, size, i * lanes + lane));
        let mut count = lanes;
        while count > 1 {
            let half = count.div_ceil(2);
            for lane in half..count {
                values[lane - half] = combine(f, dtype, values[lane - half], values[lane]);
            }
            count = half;
        }
        planes.bytes_mut(to)[i * size..(i + 1) * size].copy_from_slice(&values[0].to_le_bytes()[..size]);
    }
}
