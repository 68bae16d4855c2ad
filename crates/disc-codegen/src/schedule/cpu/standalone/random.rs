//! Generates random bits by Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1,
//! 2, 3", 2011): one unit per block of four words, and one more that writes the new state.
use crate::{
    kernel::{Index, KernelBuilder},
    schedule::{Group, Scheduled, common::kernel_frame::KernelFrame},
};
use disc_ir::{DType, Dim, Inst, Literal, OpKind, Value};
use disc_kernel_macros::expr;

const MULTIPLIERS: [i64; 2] = [0xD251_1F53, 0xCD9E_8D57];
const KEY_STEPS: [i64; 2] = [0x9E37_79B9, 0xBB67_AE85];

pub(super) fn schedule(group: &Group<'_>, inst: Inst) -> Scheduled {
    let frame = KernelFrame::new(group, &group.name, 1);
    let [state, bits] = group.function.results_of(inst)[..] else { panic!("`rng_bit_generator` has two results") };
    let input = group.function.operands(inst)[0];
    let tensor = group.tensor(bits).clone();
    let count = tensor.element_count();
    let per_block = if tensor.dtype.size() == 8 { 2 } else { 4 };
    let blocks = count.ceil_div(&Dim::constant(per_block));
    let entries = group.tensor(input).dims[0].as_const().unwrap_or(2);
    frame.units(&blocks + 1, &blocks * 40, |frame, unit| {
        let read = |frame: &mut KernelFrame<'_>, i: i64| {
            let at = Index::uniform(frame.kb.int(i));
            frame.elements.element(&mut frame.kb, input, &[at])
        };
        let (key, low) = (read(frame, 0), read(frame, 1));
        let high = if entries > 2 { read(frame, 2) } else { frame.kb.zero(DType::U64, 1) };
        let kb = &mut frame.kb;
        let offset = kb.convert(unit, DType::U64);
        let sum = kb.map(OpKind::Add, &[low, offset]);
        let carry = expr!(kb, convert(sum < low, DType::U64));
        let top = kb.map(OpKind::Add, &[high, carry]);
        let last = kb.dim(&blocks);
        let is_block = expr!(kb, unit < last);
        let block = kb.open_if(is_block);
        let words = encrypt(kb, key, [sum, top]);
        if let Some(buffer) = frame.target(bits) {
            let total = frame.kb.dim(&count);
            for (i, word) in elements(&mut frame.kb, words, tensor.dtype).into_iter().enumerate() {
                let (each, shift) = (frame.kb.int(per_block), frame.kb.int(i as i64));
                let place = expr!(frame.kb, unit * each + shift);
                let exists = expr!(frame.kb, place < total);
                frame.kb.when(exists, |kb| {
                    kb.store(buffer, place, word, None);
                });
            }
        }
        frame.kb.close_if(block);
        let is_state = expr!(frame.kb, unit == last);
        let end = frame.kb.open_if(is_state);
        for (i, value) in [key, sum, top].into_iter().take(entries as usize).enumerate() {
            let at = Index::uniform(frame.kb.int(i as i64));
            frame.store(group, state, &[at], value);
        }
        frame.kb.close_if(end);
    })
}

fn word(kb: &mut KernelBuilder, value: i64) -> Value {
    kb.constant(Literal::splat_i64(DType::U64, value), 1)
}

/// The low and the high 32 bits.
fn halves(kb: &mut KernelBuilder, value: Value) -> [Value; 2] {
    let (mask, width) = (word(kb, 0xFFFF_FFFF), word(kb, 32));
    [expr!(kb, value & mask), kb.map(OpKind::ShiftRightLogical, &[value, width])]
}

/// The four words of a block, each in the low half of a `u64`.
fn encrypt(kb: &mut KernelBuilder, key: Value, [low, high]: [Value; 2]) -> [Value; 4] {
    let mut key = halves(kb, key);
    let ([c0, c1], [c2, c3]) = (halves(kb, low), halves(kb, high));
    let mut c = [c0, c1, c2, c3];
    let mask = word(kb, 0xFFFF_FFFF);
    for round in 0..10 {
        if round > 0 {
            for (half, step) in key.iter_mut().zip(KEY_STEPS) {
                let step = word(kb, step);
                let next = kb.map(OpKind::Add, &[*half, step]);
                *half = expr!(kb, next & mask);
            }
        }
        let product = |kb: &mut KernelBuilder, factor: i64, value: Value| {
            let factor = word(kb, factor);
            let wide = kb.map(OpKind::Multiply, &[factor, value]);
            halves(kb, wide)
        };
        let [low0, high0] = product(kb, MULTIPLIERS[0], c[0]);
        let [low1, high1] = product(kb, MULTIPLIERS[1], c[2]);
        let mix = |kb: &mut KernelBuilder, a: Value, b: Value, k: Value| expr!(kb, a ^ b ^ k);
        c = [mix(kb, high1, c[1], key[0]), low1, mix(kb, high0, c[3], key[1]), low0];
    }
    c
}

/// The elements made of a block's words.
fn elements(kb: &mut KernelBuilder, words: [Value; 4], dtype: DType) -> Vec<Value> {
    if dtype.size() < 8 {
        return words.into_iter().map(|w| kb.convert(w, dtype)).collect();
    }
    let width = word(kb, 32);
    let pairs = [[words[0], words[1]], [words[2], words[3]]];
    let joined = pairs.map(|[low, high]| {
        let high = kb.map(OpKind::ShiftLeft, &[high, width]);
        expr!(kb, convert(low | high, dtype))
    });
    joined.to_vec()
}
