//! Computes the natural logarithm in two parts, for the functions that multiply it by a large
//! number (pow) or subtract near it (lgamma).
//!
//! x = 2^k m as in log.rs; s = (m - 1) / (m + 1) in two parts; log m = 2s + s^3 (2/3 + s^2 R(s^2)),
//! where the first two terms are kept in two parts. The relative error is near 2^-35 in f32, 2^-64
//! in f64.
//!
//! Fits: scripts/fit/pow.py.

use super::arith::{fmac, horner};
use super::double::{Pair, constant, fast_two_sum, product, sum, two_product, two_sum};
use super::emitter::{Emitter, Format};
use super::exp::{LN2_HI, LN2_LO};
use super::log::{Split, exponent_to_float, normalize, split};

/// R(z): 2 atanh(s) = 2s + (2/3) s^3 + s^5 R(s^2) on |s| <= 0.1716: error 2^-38.5 of the whole.
const TAIL_32: [f64; 4] = [0.4, 0.28571343, 0.22217585, 0.1887125];
/// The same: error 2^-66.5 of the whole.
const TAIL_64: [f64; 8] = [
    0.4,
    0.2857142857142631,
    0.2222222222277887,
    0.18181818153504478,
    0.1538461008121111,
    0.13334131828303158,
    0.11721484532621292,
    0.11584974731316683,
];

/// log x for positive finite x; elsewhere unspecified.
pub(super) fn log_pair<E: Emitter>(e: &mut E, x: E::F) -> Pair<E::F> {
    let (scaled, shift) = normalize(e, x);
    let Split { k, f } = split(e, scaled);
    let k = exponent_to_float(e, k);
    let k = e.add(k, shift);
    let s = half_ratio(e, f);
    let cube_part = tail(e, s);
    let s = Pair { high: e.add(s.high, s.high), low: e.add(s.low, s.low) };
    let log_m = sum(e, s, cube_part);
    let format = e.format();
    let high = super::arith::mulc(e, k, format.pick(LN2_HI.0, LN2_HI.1));
    let whole = two_sum(e, high, log_m.high);
    let low = fmac(e, k, format.pick(LN2_LO.0, LN2_LO.1), log_m.low);
    let low = e.add(whole.low, low);
    fast_two_sum(e, whole.high, low)
}

/// f / (2 + f).
fn half_ratio<E: Emitter>(e: &mut E, f: E::F) -> Pair<E::F> {
    let two = e.f(2.0);
    let bottom = fast_two_sum(e, two, f);
    let high = e.div(f, bottom.high);
    let back = two_product(e, high, bottom.high);
    let lost = e.sub(f, back.high);
    let lost = e.sub(lost, back.low);
    let minus = e.neg(high);
    let lost = e.fma(minus, bottom.low, lost);
    let low = e.div(lost, bottom.high);
    fast_two_sum(e, high, low)
}

/// s^3 (2/3 + s^2 R(s^2)).
fn tail<E: Emitter>(e: &mut E, s: Pair<E::F>) -> Pair<E::F> {
    let z = product(e, s, s);
    let r = match e.format() {
        Format::F32 => horner(e, z.high, &TAIL_32),
        Format::F64 => horner(e, z.high, &TAIL_64),
    };
    let two_thirds = e.format().pick((0.6666666865348816, -1.9868215517249155e-08), (0.6666666666666666, 3.700743415417188e-17));
    let two_thirds = constant(e, two_thirds.0, two_thirds.1);
    let rest = e.mul(r, z.high);
    let rest = Pair { high: rest, low: e.f(0.0) };
    let factor = sum(e, two_thirds, rest);
    let cube = product(e, z, s);
    product(e, cube, factor)
}
