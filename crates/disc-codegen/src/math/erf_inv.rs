//! Computes the inverse of erf.
//!
//! The method is that of M. Giles, "Approximating the erfinv function": x times a polynomial in w =
//! -log(1 - x^2), or in sqrt(w) where w > 5. In f64 that start, good to 2^-19, is improved by one
//! step of Halley's method on erf (or erfc, where x is near 1), which triples its bits.
//!
//! Fits: scripts/fit/gamma.py.

use super::arith::{addc, flip_sign, horner, mulc, sign_of};
use super::emitter::{Emitter, Format};
use super::erf::{erf, erfc};
use super::exp::exp;
use super::log::log_positive;

/// erf_inv(x) = x P(w - 5/2) for w <= 5: relative: error 2^-24.57.
const CENTER: [f64; 10] = [
    1.5014094,
    0.2466403,
    -0.0041775,
    -0.0012527623,
    0.00021841051,
    -4.951186e-06,
    -3.4769362e-06,
    4.6353532e-07,
    2.4252245e-08,
    -8.6021394e-09,
];
/// erf_inv(x) = x P(sqrt(w) - 3) for 5 < w <= 16.8: relative: error 2^-25.84.
const TAIL_32: [f64; 10] = [
    2.8329768,
    1.0016749,
    0.0094448505,
    -0.0076363883,
    0.0056896987,
    -0.003601045,
    0.0014790768,
    -5.0356495e-05,
    -0.00030522977,
    0.0001114782,
];
/// erf_inv(x) = x P(sqrt(w) - 4) for 5 < w <= 37.8: relative: error 2^-19.61.
const TAIL_64: [f64; 9] = [
    3.8397809697713776,
    1.0095117862270162,
    0.0012984725682357197,
    -0.0009433955239415693,
    0.00024758807187134983,
    -2.7428101125359828e-05,
    9.466777025820411e-05,
    -7.887161653425262e-05,
    1.7218086467740784e-05,
];

/// The y with erf(y) = x: infinite at -1 and 1, NaN beyond.
pub(super) fn erf_inv<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let (one, inf, nan) = (e.f(1.0), e.f(f64::INFINITY), e.f(f64::NAN));
    let a = e.abs(x);
    let (below, above) = (e.sub(one, a), e.add(one, a));
    let product = e.mul(below, above);
    let y = start(e, a, product);
    let y = match e.format() {
        Format::F32 => y,
        Format::F64 => halley(e, y, a, below),
    };
    let inside = e.lt(a, one);
    let end = e.eq(a, one);
    let special = e.select(end, inf, nan);
    let y = e.select(inside, y, special);
    let sign = sign_of(e, x);
    flip_sign(e, y, sign)
}

/// The approximation for 0 <= a < 1, given 1 - a^2.
fn start<E: Emitter>(e: &mut E, a: E::F, product: E::F) -> E::F {
    let log = log_positive(e, product);
    let w = e.neg(log);
    let five = e.f(5.0);
    let tail = e.lt(five, w);
    let t = addc(e, w, -2.5);
    let center_p = horner(e, t, &CENTER);
    let root = e.sqrt(w);
    let tail_p = match e.format() {
        Format::F32 => {
            let t = addc(e, root, -3.0);
            horner(e, t, &TAIL_32)
        }
        Format::F64 => {
            let t = addc(e, root, -4.0);
            horner(e, t, &TAIL_64)
        }
    };
    let p = e.select(tail, tail_p, center_p);
    e.mul(p, a)
}

/// One step towards erf(y) = a, 1 - a = rest: y - d / (1 + y d) with d = (erf y - a) / erf'(y).
fn halley<E: Emitter>(e: &mut E, y: E::F, a: E::F, rest: E::F) -> E::F {
    let center = erf(e, y);
    let center = e.sub(center, a);
    let tail = erfc(e, y);
    let tail = e.sub(rest, tail);
    let half = e.f(0.5);
    let near_zero = e.lt(a, half);
    let off = e.select(near_zero, center, tail);
    let square = e.mul(y, y);
    let inverse_slope = exp(e, square);
    let d = e.mul(off, inverse_slope);
    let d = mulc(e, d, 0.886226925452758);
    let one = e.f(1.0);
    let bottom = e.fma(y, d, one);
    let step = e.div(d, bottom);
    e.sub(y, step)
}
