//! Computes sin, cos and tan.
//!
//! The angle is reduced to a quadrant and a remainder in two parts (trig_reduce.rs); minimax
//! polynomials give sine and cosine of the remainder, whose low part enters to first order; the
//! quadrant chooses between them and the sign. tan is their quotient.
//!
//! Fits: scripts/fit/trig.sollya.

use super::arith::{flip_sign, fmac, horner, mulc, small_to_int};
use super::double::{constant, scale};
use super::emitter::{Emitter, Format};
use super::trig_reduce::{Reduced, reduce};

/// sin(r) = r + r^3 P(r^2) on |r| <= 0.7855: relative error 2^-27.9.
const SIN_32: [f64; 3] = [-0.16666655, 0.008332189, -0.00019518285];
/// The same: relative error 2^-57.9.
const SIN_64: [f64; 6] = [
    -0.1666666666666663,
    0.008333333333321919,
    -0.0001984126982945851,
    2.755731358226442e-06,
    -2.5050742320642014e-08,
    1.589594363745077e-10,
];
/// cos(r) = 1 - r^2/2 + r^4 P(r^2) on |r| <= 0.7855: relative error 2^-33.0.
const COS_32: [f64; 3] = [0.041666646, -0.0013887311, 2.4432564e-05];
/// The same: relative error 2^-63.9.
const COS_64: [f64; 6] = [
    0.041666666666666595,
    -0.0013888888888873344,
    2.480158728900347e-05,
    -2.7557314217299276e-07,
    2.087570540410226e-09,
    -1.1358748095206087e-11,
];

/// Sine and cosine of a reduced angle, both without the quadrant.
fn sin_cos_rest<E: Emitter>(e: &mut E, reduced: &Reduced<E>) -> (E::F, E::F) {
    let (high, low) = (reduced.rest.high, reduced.rest.low);
    let z = e.mul(high, high);
    let (s, c) = match e.format() {
        Format::F32 => (horner(e, z, &SIN_32), horner(e, z, &COS_32)),
        Format::F64 => (horner(e, z, &SIN_64), horner(e, z, &COS_64)),
    };
    let cube = e.mul(z, high);
    let s = e.fma(s, cube, low);
    let sine = e.add(high, s);
    // 1 - z/2 has a rounding error that the next line recovers.
    let one = e.f(1.0);
    let near = fmac(e, z, -0.5, one);
    let lost = e.sub(one, near);
    let lost = fmac(e, z, -0.5, lost);
    let square = e.mul(z, z);
    let c = e.fma(c, square, lost);
    let minus = e.neg(high);
    let c = e.fma(minus, low, c);
    (sine, e.add(near, c))
}

/// Moves the bit of a word to the sign bit.
fn bit_as_sign<E: Emitter>(e: &mut E, word: E::I, bit: u32) -> E::I {
    let sign = e.i(e.format().sign_bit());
    let word = e.shl(word, e.format().width() - 1 - bit);
    e.iand(word, sign)
}

fn is_odd<E: Emitter>(e: &mut E, word: E::I) -> E::M {
    let (zero, one) = (e.i(0), e.i(1));
    let bit = e.iand(word, one);
    let even = e.ieq(bit, zero);
    e.not(even)
}

/// The sine.
pub(super) fn sin<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let size = e.abs(x);
    let reduced = reduce(e, size);
    let (s, c) = sin_cos_rest(e, &reduced);
    let odd = is_odd(e, reduced.quadrant);
    let y = e.select(odd, c, s);
    let sign = bit_as_sign(e, reduced.quadrant, 1);
    let x_sign = super::arith::sign_of(e, x);
    let sign = e.ixor(sign, x_sign);
    flip_sign(e, y, sign)
}

/// The cosine.
pub(super) fn cos<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let size = e.abs(x);
    let reduced = reduce(e, size);
    let (s, c) = sin_cos_rest(e, &reduced);
    let odd = is_odd(e, reduced.quadrant);
    let y = e.select(odd, s, c);
    // The sign is negative in the quadrants 1 and 2.
    let one = e.i(1);
    let turned = e.iadd(reduced.quadrant, one);
    let sign = bit_as_sign(e, turned, 1);
    flip_sign(e, y, sign)
}

/// The tangent.
pub(super) fn tan<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let size = e.abs(x);
    let reduced = reduce(e, size);
    let (s, c) = sin_cos_rest(e, &reduced);
    let odd = is_odd(e, reduced.quadrant);
    let top = e.select(odd, c, s);
    let bottom = e.select(odd, s, c);
    let y = e.div(top, bottom);
    let sign = bit_as_sign(e, reduced.quadrant, 0);
    let x_sign = super::arith::sign_of(e, x);
    let sign = e.ixor(sign, x_sign);
    flip_sign(e, y, sign)
}

/// sin(pi x) and cos(pi x) for finite x, with exact zeros; the sign of a zero is unspecified.
pub(super) fn sin_cos_pi<E: Emitter>(e: &mut E, x: E::F) -> (E::F, E::F) {
    // x mod 2, exact.
    let half = mulc(e, x, 0.5);
    let whole = e.floor(half);
    let x = fmac(e, whole, -2.0, x);
    let doubled = e.add(x, x);
    let n = e.round_even(doubled);
    let rest = fmac(e, n, -0.5, x);
    let pi = e.format().pick((3.1415927410125732, -8.742277657347586e-08), (std::f64::consts::PI, 1.2246467991473532e-16));
    let pi = constant(e, pi.0, pi.1);
    let rest = scale(e, pi, rest);
    let quadrant = small_to_int(e, n);
    let reduced = Reduced { rest, quadrant };
    let (s, c) = sin_cos_rest(e, &reduced);
    let odd = is_odd(e, quadrant);
    let (sine, cosine) = (e.select(odd, c, s), e.select(odd, s, c));
    let one = e.i(1);
    let turned = e.iadd(quadrant, one);
    let (sine_sign, cosine_sign) = (bit_as_sign(e, quadrant, 1), bit_as_sign(e, turned, 1));
    (flip_sign(e, sine, sine_sign), flip_sign(e, cosine, cosine_sign))
}
