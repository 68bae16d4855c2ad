//! Computes log, log2, log10 and log1p.
//!
//! x = 2^k m with m in [sqrt(1/2), sqrt(2)) by integer arithmetic on the word; f = m - 1. In f32
//! log(1 + f) = f + f^2 P(f); in f64 the form of fdlibm: with s = f / (2 + f), log(1 + f) = f -
//! f^2/2 + s (f^2/2 + s^2 R(s^2)), which needs fewer terms. Then k ln 2 is added in two parts.
//! Denormals are scaled first. log1p carries the rounding error of 1 + x into f.
//!
//! Fits: scripts/fit/log.py.

use super::arith::{addc, fmac, horner, mulc, small_to_float};
use super::emitter::{Emitter, Format};
use super::exp::{LN2_HI, LN2_LO};

/// log(1 + f) = f + f^2 P(f) on [sqrt(1/2) - 1, sqrt(2) - 1]: relative error 2^-26.8.
const LOG_32: [f64; 9] =
    [-0.5, 0.3333333, -0.25000823, 0.20001258, -0.16623351, 0.14201178, -0.13161916, 0.12767306, -0.076306514];
/// 2 atanh(s) = 2s + s^3 R(s^2) on |s| <= 0.1716: relative error 2^-59.5.
const LOG_64: [f64; 7] = [
    0.6666666666666734,
    0.39999999999416513,
    0.28571428742082666,
    0.22222198597275492,
    0.1818356334792104,
    0.15314070183369755,
    0.14795796505930156,
];

/// The bits of sqrt(1/2), rounded down to a value with a short word.
const SQRT_HALF: (i64, i64) = (0x3f35_04f3, 0x3fe6_a09e_667f_3bcd);

/// A positive normal number as 2^k (1 + f).
pub(super) struct Split<E: Emitter> {
    /// The exponent, as an integer.
    pub(super) k: E::I,
    /// In [sqrt(1/2) - 1, sqrt(2) - 1), exact.
    pub(super) f: E::F,
}

/// Splits a positive normal number. Other values give unspecified results.
pub(super) fn split<E: Emitter>(e: &mut E, x: E::F) -> Split<E> {
    let format = e.format();
    let base = e.i(format.pick(SQRT_HALF.0, SQRT_HALF.1));
    let word = e.bits(x);
    let above = e.isub(word, base);
    let fraction = e.i((1 << format.mantissa_bits()) - 1);
    let fraction = e.iand(above, fraction);
    let m = e.iadd(fraction, base);
    let m = e.with_bits(m);
    // The word of a positive number is below 2^(width-1): the difference is a small signed number
    // times 2^mantissa_bits, plus the fraction.
    let k = match format {
        Format::F32 => e.ashr(above, format.mantissa_bits()),
        // Without an arithmetic shift, which AVX2 lacks for 64 bits: bias it to be positive.
        Format::F64 => {
            let bias = e.i(1024 << format.mantissa_bits());
            let biased = e.iadd(above, bias);
            let k = e.lshr(biased, format.mantissa_bits());
            let bias = e.i(1024);
            e.isub(k, bias)
        }
    };
    Split { k, f: addc(e, m, -1.0) }
}

/// Makes denormals normal: returns (x * 2^p, -p) or (x, 0) as floats.
pub(super) fn normalize<E: Emitter>(e: &mut E, x: E::F) -> (E::F, E::F) {
    let format = e.format();
    let limit = e.f(format.min_normal());
    let small = e.lt(x, limit);
    let p = format.mantissa_bits() as i32 + 1;
    let scaled = mulc(e, x, 2f64.powi(p));
    let (zero, minus_p) = (e.f(0.0), e.f(f64::from(-p)));
    (e.select(small, scaled, x), e.select(small, minus_p, zero))
}

/// The small integer k as a float.
pub(super) fn exponent_to_float<E: Emitter>(e: &mut E, k: E::I) -> E::F {
    match e.format() {
        Format::F32 => e.to_float(k),
        Format::F64 => small_to_float(e, k),
    }
}

/// log(1 + f) - f for f in the range of [`split`].
fn log_tail<E: Emitter>(e: &mut E, f: E::F) -> E::F {
    let square = e.mul(f, f);
    match e.format() {
        Format::F32 => {
            let p = horner(e, f, &LOG_32);
            e.mul(p, square)
        }
        Format::F64 => {
            let bottom = addc(e, f, 2.0);
            let s = e.div(f, bottom);
            let z = e.mul(s, s);
            let r = horner(e, z, &LOG_64);
            let r = e.mul(r, z);
            let half = mulc(e, square, 0.5);
            let sum = e.add(half, r);
            let minus = e.neg(half);
            e.fma(s, sum, minus)
        }
    }
}

/// The result at zero, below zero, at infinity and NaN; elsewhere y.
pub(super) fn log_specials<E: Emitter>(e: &mut E, x: E::F, y: E::F) -> E::F {
    let inf = e.f(f64::INFINITY);
    let finite = e.lt(x, inf);
    let y = e.select(finite, y, x);
    let zero = e.f(0.0);
    let (is_zero, positive) = (e.eq(x, zero), e.le(x, zero));
    let (minus_inf, nan) = (e.f(f64::NEG_INFINITY), e.f(f64::NAN));
    let special = e.select(is_zero, minus_inf, nan);
    e.select(positive, special, y)
}

/// The natural logarithm.
pub(super) fn log<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let y = log_positive(e, x);
    log_specials(e, x, y)
}

/// The natural logarithm of a positive finite number; other values give unspecified results.
pub(super) fn log_positive<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let (scaled, shift) = normalize(e, x);
    let Split { k, f } = split(e, scaled);
    let k = exponent_to_float(e, k);
    let k = e.add(k, shift);
    let tail = log_tail(e, f);
    add_exponent(e, k, f, tail)
}

/// k ln 2 + f + tail.
fn add_exponent<E: Emitter>(e: &mut E, k: E::F, f: E::F, tail: E::F) -> E::F {
    let format = e.format();
    let low = fmac(e, k, format.pick(LN2_LO.0, LN2_LO.1), tail);
    let sum = e.add(low, f);
    fmac(e, k, format.pick(LN2_HI.0, LN2_HI.1), sum)
}

/// The logarithm of base 2 or 10: (k c + f h) + (f l + tail / ln base), where h is short so that f
/// h ... is nearly exact.
fn log_base<E: Emitter>(e: &mut E, x: E::F, inverse: (f64, f64), of_two: (f64, f64)) -> E::F {
    let (scaled, shift) = normalize(e, x);
    let Split { k, f } = split(e, scaled);
    let k = exponent_to_float(e, k);
    let k = e.add(k, shift);
    let tail = log_tail(e, f);
    // f is in two parts: the first has half of the bits, so that its product with the short
    // `inverse.0` is exact.
    let format = e.format();
    let mask = e.i(format.pick(-1 << 12, -1 << 27));
    let word = e.bits(f);
    let head = e.iand(word, mask);
    let head = e.with_bits(head);
    let rest = e.sub(f, head);
    let rest = e.add(rest, tail);
    let low = mulc(e, rest, inverse.1);
    let low = fmac(e, head, inverse.1, low);
    let low = fmac(e, k, of_two.1, low);
    let low = fmac(e, rest, inverse.0, low);
    let high = mulc(e, k, of_two.0);
    let y = fmac(e, head, inverse.0, low);
    let y = e.add(high, y);
    log_specials(e, x, y)
}

/// The logarithm of base 2.
pub(super) fn log2<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let inverse = e.format().pick((1.44287109375, -0.00017605286103659264), (1.4426950514316559, -1.0542692476429138e-08));
    log_base(e, x, inverse, (1.0, 0.0))
}

/// The logarithm of base 10.
pub(super) fn log10<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let inverse = e.format().pick((0.434326171875, -3.168997174817235e-05), (0.4342944845557213, -2.6524694553078553e-09));
    let of_two = e.format().pick((0.301025390625, 4.605038981195214e-06), (0.30102999566395283, 2.8363394551044964e-14));
    log_base(e, x, inverse, of_two)
}

/// log(1 + x).
pub(super) fn log1p<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let y = log1p_above(e, x);
    let one = e.f(1.0);
    let u = e.add(x, one);
    let y = log_specials(e, u, y);
    // A tiny x is its own result: this keeps -0 and denormals.
    let size = e.abs(x);
    let tiny = e.f(e.format().pick(1e-20, 1e-30));
    let tiny = e.lt(size, tiny);
    e.select(tiny, x, y)
}

/// log(1 + x) for finite x > -1; -0 and other values give unspecified results.
pub(super) fn log1p_above<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let one = e.f(1.0);
    let u = e.add(x, one);
    let Split { k, f } = split(e, u);
    // The rounding error of the sum is exact, with the larger of x and 1 first.
    let large = e.lt(one, x);
    let (big, small) = (e.select(large, x, one), e.select(large, one, x));
    let lost = e.sub(u, big);
    let lost = e.sub(small, lost);
    // Far above 1 it does not matter, and 2^-k below would leave the format.
    let limit = e.f(e.format().pick(1e9, 1e18));
    let far = e.lt(limit, x);
    // lost * 2^-k.
    let power = e.shl(k, e.format().mantissa_bits());
    let unit = e.i(e.format().one_bits());
    let power = e.isub(unit, power);
    let power = e.with_bits(power);
    let lost = e.mul(lost, power);
    let zero = e.f(0.0);
    let lost = e.select(far, zero, lost);
    let f = e.add(f, lost);
    let k = exponent_to_float(e, k);
    let tail = log_tail(e, f);
    add_exponent(e, k, f, tail)
}
