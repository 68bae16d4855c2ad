//! Evaluates random bits: Philox 4x32 with 10 rounds.
use super::{
    Tensor,
    call::Call,
    machine::{Evaluated, Machine},
    scalar::Scalar,
};

const MULTIPLIERS: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Encrypts a counter with a key, both as 32-bit words, the low one first.
fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let ([mut a, mut b, mut c, mut d], [mut k0, mut k1]) = (counter, key);
    for _ in 0..10 {
        let (p0, p1) = (MULTIPLIERS[0] * u64::from(a), MULTIPLIERS[1] * u64::from(c));
        (a, b, c, d) = ((p1 >> 32) as u32 ^ b ^ k0, p1 as u32, (p0 >> 32) as u32 ^ d ^ k1, p0 as u32);
        (k0, k1) = (k0.wrapping_add(KEY_STEPS[0]), k1.wrapping_add(KEY_STEPS[1]));
    }
    [a, b, c, d]
}

fn words(value: u128) -> [u32; 4] {
    [0, 32, 64, 96].map(|shift| (value >> shift) as u32)
}

pub(super) fn rng_bit_generator(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let state = call.tensor(0)?;
    let part = |i: usize| if i < state.len() { state.at(i).as_int() as u64 } else { 0 };
    let (key, counter) = (part(0), u128::from(part(2)) << 64 | u128::from(part(1)));
    let key = [key as u32, (key >> 32) as u32];
    let dtype = call.result_type(1).dtype();
    let words_each = dtype.size().div_ceil(4);
    let word = |i: usize| i128::from(philox(words(counter.wrapping_add(i as u128 / 4)), key)[i % 4]);
    let bits = |i: usize| (0..words_each).map(|part| word(i * words_each + part) << (32 * part)).sum();
    let output = Tensor::from_fn(dtype, call.shapes[1].clone(), |i| Scalar::Int(bits(i)));
    let blocks = (output.len() * words_each).div_ceil(4);
    let after = counter.wrapping_add(blocks as u128);
    let mut output_state = state.clone();
    output_state.set(1, Scalar::Int((after & u128::from(u64::MAX)) as i128));
    if state.len() > 2 {
        output_state.set(2, Scalar::Int((after >> 64) as i128));
    }
    Ok(vec![output_state.into(), output.into()])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers of the authors' Random123 library.
    #[test]
    fn philox_gives_the_known_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408F_276D, 0x41C8_3B0E, 0xA20B_C7C6, 0x6D54_51FD]);
        let digits = philox([0x243F_6A88, 0x85A3_08D3, 0x1319_8A2E, 0x0370_7344], [0xA409_3822, 0x299F_31D0]);
        assert_eq!(digits, [0xD16C_FE09, 0x94FD_CCEB, 0x5001_E420, 0x2412_6EA1]);
    }
}
