//! Computes exp, exp2, expm1, softmax's exp and logistic.
//!
//! x = n ln 2 + r by Cody and Waite (ln 2 in two parts, the first short enough that n times it is
//! exact), a minimax polynomial in r on [-ln 2 / 2, ln 2 / 2], and a scale by 2^n that rounds once,
//! so that denormal results and overflow are right. The rounding to n is an addition of 1.5 *
//! 2^mantissa_bits. NaN passes through the clamps and multiplications.
//!
//! Fits: scripts/fit/exp.sollya, scripts/fit/expm1.py.

use super::arith::{Rounded, addc, at_least, at_most, fmac, horner, round_product};
use super::emitter::{Emitter, Format};

/// e^r = 1 + r + r^2 P(r) on |r| <= 0.34662: relative error 2^-28.2.
const EXP_32: [f64; 5] = [0.4999999105930328, 0.1666652113199234, 0.04166896268725395, 0.008368670940399168, 0.00137824728153646];
/// The same: relative error 2^-57.9.
const EXP_64: [f64; 10] = [
    0.5000000000000011,
    0.16666666666666424,
    0.04166666666652603,
    0.008333333333487052,
    0.0013888888944323028,
    0.00019841269522480505,
    2.4801492469932383e-05,
    2.755757225655128e-06,
    2.763045000653715e-07,
    2.5004509838753234e-08,
];

/// 2^r = 1 + r P(r) on |r| <= 0.5001: relative error 2^-28.0.
const EXP2_32: [f64; 6] =
    [0.6931471824645996, 0.24022644758224487, 0.05550358444452286, 0.009618829004466534, 0.0013391473330557346, 0.00015243397501];
/// The same: relative error 2^-57.3.
const EXP2_64: [f64; 11] = [
    0.6931471805599453,
    0.24022650695910136,
    0.05550410866482233,
    0.009618129107592572,
    0.0013333558146358224,
    0.00015403530458788097,
    1.5252733828792024e-05,
    1.3215434541074642e-06,
    1.017807664136571e-07,
    7.073898733704685e-09,
    4.4515126686427367e-10,
];

/// e^r on |r| <= 0.34662, degree 5, exact at 0: relative error 2^-23.4.
const SOFTMAX_32: [f64; 6] =
    [1.0, 0.9999997019767761, 0.4999915063381195, 0.16667652130126953, 0.041897840797901154, 0.008289304561913013];

/// e^r = 1 + r + r^2 P(r) on |r| <= 0.3466, weighed for e^r - 1: error 2^-28.2.
const EXPM1_32: [f64; 6] = [0.5, 0.16666636, 0.04166651, 0.008341511, 0.0013930515, 0.00015011334];
/// The same: error 2^-60.7.
const EXPM1_64: [f64; 11] = [
    0.5,
    0.16666666666666677,
    0.04166666666666669,
    0.008333333333321747,
    0.0013888888888884344,
    0.00019841269885207397,
    2.4801587301724955e-05,
    2.7557245548593963e-06,
    2.7557306808662917e-07,
    2.510848929074787e-08,
    2.090235131825992e-09,
];

/// ln 2 in two parts; the first has 9 bits in f32 and 42 in f64.
pub(super) const LN2_HI: (f64, f64) = (0.693359375, 0.6931471805598903);
pub(super) const LN2_LO: (f64, f64) = (-2.12194440e-4, 5.497923018708371e-14);

/// x = n ln 2 + r; `offset` is that of the rounded n.
pub(super) fn reduce<E: Emitter>(e: &mut E, x: E::F, offset: i64) -> (Rounded<E::F>, E::F) {
    let format = e.format();
    let n = round_product(e, x, std::f64::consts::LOG2_E, offset);
    let r = fmac(e, n.value, -format.pick(LN2_HI.0, LN2_HI.1), x);
    let r = fmac(e, n.value, -format.pick(LN2_LO.0, LN2_LO.1), r);
    (n, r)
}

/// e^r for |r| <= ln 2 / 2.
pub(super) fn exp_reduced<E: Emitter>(e: &mut E, r: E::F) -> E::F {
    let p = match e.format() {
        Format::F32 => horner(e, r, &EXP_32),
        Format::F64 => horner(e, r, &EXP_64),
    };
    let one = e.f(1.0);
    let p = e.fma(p, r, one);
    e.fma(p, r, one)
}

/// e^r - 1 for |r| <= ln 2 / 2, with a small relative error.
fn expm1_reduced<E: Emitter>(e: &mut E, r: E::F) -> E::F {
    let p = match e.format() {
        Format::F32 => horner(e, r, &EXPM1_32),
        Format::F64 => horner(e, r, &EXPM1_64),
    };
    let square = e.mul(r, r);
    e.fma(p, square, r)
}

/// e^x.
pub(super) fn exp<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let x = at_least(e, x, e.format().pick(-104.5, -746.0));
    let x = at_most(e, x, e.format().pick(89.0, 710.0));
    let (n, r) = reduce(e, x, e.format().scale_offset());
    let p = exp_reduced(e, r);
    e.scale(p, n.value, n.shifted)
}

/// e^x for x <= 0 or NaN: no upper clamp, and one multiplication, which scales and rounds once: the
/// polynomial holds 2^-up, which is exact, and its factor is 2^(n + up). That is a normal number
/// for all n but the least, -151 (f64: -1076), for which the results are 0: there the bits of the
/// factor are those of 0.0. A product that underflows to 0 would take many cycles, and masks make
/// many of them.
pub(super) fn exp_nonpositive<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let format = e.format();
    let up: f64 = format.pick(24.0, 53.0);
    let x = at_least(e, x, format.pick(-104.5, -746.0));
    let (n, r) = reduce(e, x, format.bias() + up as i64);
    let down = (-up).exp2();
    let p = match format {
        Format::F32 => horner(e, r, &EXP_32.map(|c| c * down)),
        Format::F64 => horner(e, r, &EXP_64.map(|c| c * down)),
    };
    let least = e.f(down);
    let p = e.fma(p, r, least);
    let p = e.fma(p, r, least);
    let power = power_of_two(e, n.shifted);
    e.mul(p, power)
}

/// 2^x.
pub(super) fn exp2<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let x = at_least(e, x, e.format().pick(-151.0, -1076.0));
    let x = at_most(e, x, e.format().pick(129.0, 1025.0));
    let n = round_product(e, x, 1.0, e.format().scale_offset());
    let r = e.sub(x, n.value);
    let p = exp2_reduced(e, r);
    e.scale(p, n.value, n.shifted)
}

/// 2^r for |r| <= 1/2.
pub(super) fn exp2_reduced<E: Emitter>(e: &mut E, r: E::F) -> E::F {
    let p = match e.format() {
        Format::F32 => horner(e, r, &EXP2_32),
        Format::F64 => horner(e, r, &EXP2_64),
    };
    let one = e.f(1.0);
    e.fma(p, r, one)
}

/// e^x for x <= 0 (or NaN), zero where it would be denormal: all that softmax needs, with fewer
/// operations.
pub(super) fn softmax_exp<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    // The clamp reduces to n = -bias, whose power of two below is the word zero.
    let x = at_least(e, x, e.format().pick(-88.0, -709.0));
    let (n, r) = match (e.format(), e.fused()) {
        // The f32 next to ln 2 is 1.9e-9 away from it: two to four units in the last place of the
        // least power, negligible for a large one.
        (Format::F32, true) => {
            let n = round_product(e, x, std::f64::consts::LOG2_E, e.format().bias());
            (n, fmac(e, n.value, -std::f64::consts::LN_2, x))
        }
        _ => reduce(e, x, e.format().bias()),
    };
    let p = match e.format() {
        Format::F32 => horner(e, r, &SOFTMAX_32),
        Format::F64 => exp_reduced(e, r),
    };
    let power = power_of_two(e, n.shifted);
    e.mul(p, power)
}

/// 2^n for -bias <= n <= bias, zero at -bias; from n rounded with the offset bias, or 2^(n + k)
/// with the offset bias + k.
pub(super) fn power_of_two<E: Emitter>(e: &mut E, shifted: E::F) -> E::F {
    let word = e.bits(shifted);
    let word = e.shl(word, e.format().mantissa_bits());
    e.with_bits(word)
}

/// (e^x - 1) / 2, without overflow where that is finite; for x >= -40 ln 2 at least (lower values
/// are not clamped here).
pub(super) fn half_expm1<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let (n, r) = reduce(e, x, e.format().bias() - 1);
    let q = expm1_reduced(e, r);
    // 2^(n-1) q + (2^(n-1) - 1/2): the parenthesis is exact, or 1/2 is far below.
    let power = power_of_two(e, n.shifted);
    let rest = addc(e, power, -0.5);
    e.fma(power, q, rest)
}

/// e^x - 1 for -2^k <= x <= 0 or NaN.
pub(super) fn expm1_nonpositive<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let x = at_least(e, x, e.format().pick(-18.0, -39.0));
    let (n, r) = reduce(e, x, e.format().bias());
    let q = expm1_reduced(e, r);
    let power = power_of_two(e, n.shifted);
    let rest = addc(e, power, -1.0);
    e.fma(power, q, rest)
}

/// e^x - 1.
pub(super) fn expm1<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let clamped = at_least(e, x, e.format().pick(-18.0, -39.0));
    let clamped = at_most(e, clamped, e.format().pick(89.0, 710.0));
    let half = half_expm1(e, clamped);
    let full = e.add(half, half);
    // Halving loses the last bit of a denormal, and the sum loses the sign of zero.
    let size = e.abs(x);
    let tiny = e.f(e.format().pick(1e-30, 1e-300));
    let tiny = e.lt(size, tiny);
    e.select(tiny, x, full)
}

/// 1 / (1 + e^-x), from e^-|x|, which cannot overflow; where x < 0 it is e^x / (1 + e^x), so that
/// denormal results are right.
pub(super) fn logistic<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let size = e.abs(x);
    let minus = e.neg(size);
    let t = exp_nonpositive(e, minus);
    let one = e.f(1.0);
    let zero = e.f(0.0);
    let negative = e.lt(x, zero);
    let top = e.select(negative, t, one);
    let bottom = e.add(one, t);
    e.div(top, bottom)
}
