//! Computes arithmetic on registers: one loop over all threads and lanes of an op.
//!
//! Invariants: results are those of the interpreter of disc-ir, bit by bit but for NaNs: integers
//! wrap and never trap, floats are rounded once, `fma` rounds once. They do not depend on the
//! instructions that the host has.
mod binary;
mod convert;
mod lanes;
mod ternary;
mod unary;

pub(crate) use binary::combine;
pub(crate) use lanes::bits_at;

use crate::{
    planes::{Element, Planes},
    program::{Alu, Slot},
};
use disc_ir::DType;

/// Elements that are converted at once for types without arithmetic of their own.
const CHUNK: usize = 256;

/// Runs one op.
pub(crate) fn run(planes: &mut Planes, registers: &[Slot], op: &Alu) {
    #[cfg(target_arch = "x86_64")]
    if is_wide() {
        // SAFETY: the processor has these instructions.
        return unsafe { run_wide(planes, registers, op) };
    }
    run_any(planes, registers, op);
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn is_wide() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn run_wide(planes: &mut Planes, registers: &[Slot], op: &Alu) {
    run_any(planes, registers, op);
}

#[inline(always)]
fn run_any(planes: &mut Planes, registers: &[Slot], op: &Alu) {
    let slot = |&register: &u32| registers[register as usize];
    match op {
        Alu::Unary(f, a, to) => unary::run(planes, *f, slot(a), slot(to)),
        Alu::Binary(f, operands, to) => binary::run(planes, *f, operands.map(|r| slot(&r)), slot(to)),
        Alu::Compare(f, operands, to) => binary::compare(planes, *f, operands.map(|r| slot(&r)), slot(to)),
        Alu::Select(operands, to) => ternary::select(planes, operands.map(|r| slot(&r)), slot(to)),
        Alu::Clamp(operands, to) => ternary::clamp(planes, operands.map(|r| slot(&r)), slot(to)),
        Alu::Fma(operands, to) => ternary::fma(planes, operands.map(|r| slot(&r)), slot(to)),
        Alu::Scale(operands, to) => ternary::scale(planes, operands.map(|r| slot(&r)), slot(to)),
        Alu::Convert(a, to) => convert::run(planes, slot(a), slot(to)),
        Alu::Bits(a, to) => lanes::bits(planes, slot(a), slot(to)),
        Alu::Expand(a, to) => expand(planes, slot(a), slot(to)),
        Alu::Permute(places, to) => lanes::permute(planes, registers, places, slot(to)),
        Alu::Pick(operands, to) => lanes::pick(planes, operands.map(|r| slot(&r)), slot(to)),
        Alu::LaneMask(a, to) => lanes::lane_mask(planes, slot(a), slot(to)),
        Alu::ReduceLanes(f, a, to) => lanes::reduce(planes, *f, slot(a), slot(to)),
    }
}

/// Gives each thread the value of the block.
#[inline(always)]
pub(crate) fn expand(planes: &mut Planes, from: Slot, to: Slot) {
    macro_rules! filled {
        ($ty:ty) => {{
            let ([from], to) = planes.split::<$ty, $ty, 1>([from], to);
            match from {
                [value] => to.fill(*value),
                _ => to.chunks_exact_mut(from.len()).for_each(|to| to.copy_from_slice(from)),
            }
        }};
    }
    let as_words = |dtype: DType| (Slot { dtype: Some(dtype), ..from }, Slot { dtype: Some(dtype), ..to });
    match from.dtype().size() {
        1 => {
            let (from, to) = as_words(DType::U8);
            let ([from], to) = planes.split::<u8, u8, 1>([from], to);
            to.chunks_exact_mut(from.len()).for_each(|to| to.copy_from_slice(from));
        }
        2 => filled!(u16),
        4 => filled!(u32),
        _ => filled!(u64),
    }
}

#[inline(always)]
fn map1<T: Element, U: Element>(planes: &mut Planes, a: Slot, to: Slot, f: impl Fn(T) -> U) {
    let ([a], to) = planes.split::<T, U, 1>([a], to);
    for (to, &a) in to.iter_mut().zip(a) {
        *to = f(a);
    }
}

#[inline(always)]
fn map2<T: Element, U: Element>(planes: &mut Planes, operands: [Slot; 2], to: Slot, f: impl Fn(T, T) -> U) {
    let ([a, b], to) = planes.split::<T, U, 2>(operands, to);
    for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
        *to = f(a, b);
    }
}

#[inline(always)]
fn map3<T: Element, U: Element>(planes: &mut Planes, operands: [Slot; 3], to: Slot, f: impl Fn(T, T, T) -> U) {
    let ([a, b, c], to) = planes.split::<T, U, 3>(operands, to);
    for (((to, &a), &b), &c) in to.iter_mut().zip(a).zip(b).zip(c) {
        *to = f(a, b, c);
    }
}

/// A float of 16 bits: arithmetic on it is that of f64, rounded once.
trait Half: Element {
    fn widen(self) -> f64;
    fn narrow(value: f64) -> Self;
}

impl Half for half::f16 {
    #[inline(always)]
    fn widen(self) -> f64 {
        self.to_f32().into()
    }
    #[inline(always)]
    fn narrow(value: f64) -> Self {
        Self::from_f32(to_odd(value))
    }
}

impl Half for half::bf16 {
    #[inline(always)]
    fn widen(self) -> f64 {
        f32::from_bits(u32::from(self.to_bits()) << 16).into()
    }
    #[inline(always)]
    fn narrow(value: f64) -> Self {
        Self::from_f32(to_odd(value))
    }
}

/// Rounds to f32, an inexact value to the neighbour with an odd last bit: rounding that again, to
/// fewer bits, is rounding once.
#[inline(always)]
fn to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    if value.is_nan() || back == value || nearest.to_bits() & 1 == 1 {
        nearest
    } else if back < value {
        nearest.next_up()
    } else {
        nearest.next_down()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Binary, Unary};

    /// Numbers of all sizes and signs, as their bits.
    fn noise(seed: u64, bytes: &mut [u8]) {
        let mut state = seed;
        for (i, byte) in bytes.iter_mut().enumerate() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = if i % 32 < 4 { 0 } else { (state >> 33) as u8 };
        }
    }

    #[test]
    fn results_do_not_depend_on_the_instructions_of_the_host() {
        let ops = |dtype: DType| {
            let mut ops = vec![Alu::Fma([0, 1, 2], 3), Alu::Clamp([0, 1, 2], 3)];
            let binary = [Binary::Add, Binary::Divide, Binary::Maximum, Binary::Multiply, Binary::Remainder, Binary::Subtract];
            ops.extend(binary.map(|f| Alu::Binary(f, [0, 1], 3)));
            if dtype.is_float() {
                ops.extend([Unary::Sqrt, Unary::Rsqrt, Unary::RoundNearestEven].map(|f| Alu::Unary(f, 0, 3)));
            }
            ops
        };
        for dtype in DType::ALL.into_iter().filter(|&dtype| dtype != DType::I1) {
            let slot = |at: u32, dtype| Slot { at: at * 4096, count: 500, lanes: 1, varying: true, dtype: Some(dtype) };
            let mut registers: Vec<Slot> = (0..4).map(|at| slot(at, dtype)).collect();
            let mut planes = Planes::new(5 * 4096);
            (0..3).for_each(|at| noise(at as u64, planes.bytes_mut(registers[at])));
            registers.push(slot(4, DType::F32));
            let converted = if dtype.is_float() { vec![Alu::Convert(0, 4)] } else { Vec::new() };
            for op in ops(dtype).into_iter().chain(converted) {
                let to = registers[if matches!(op, Alu::Convert(..)) { 4 } else { 3 }];
                run(&mut planes, &registers, &op);
                let found = planes.bytes(to).to_vec();
                run_any(&mut planes, &registers, &op);
                let (size, other) = (to.dtype().size(), planes.bytes(to).to_vec());
                for (a, b) in found.chunks_exact(size).zip(other.chunks_exact(size)) {
                    assert!(a == b || is_nan(to.dtype(), a) && is_nan(to.dtype(), b), "{op:?} of {dtype}: {a:?}, {b:?}");
                }
            }
        }
    }

    fn is_nan(dtype: DType, bytes: &[u8]) -> bool {
        disc_ir::Literal::dense(dtype, bytes).f64_at(0).is_nan() && dtype.is_float()
    }
}
