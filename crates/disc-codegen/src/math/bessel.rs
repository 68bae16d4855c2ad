//! Computes bessel_i1e: e^-|x| I1(x).
//!
//! Near zero the result is e^-|x| times the power series of I1(x) / x in x^2, all of whose terms
//! are positive, as a minimax polynomial; far from zero it is a polynomial in 1/x over sqrt(x).
//!
//! Fits: scripts/fit/gamma.py.

use super::arith::{addc, at_least, at_most, horner, with_sign_of};
use super::double::two_product;
use super::emitter::{Emitter, Format};
use super::exp::{exp_reduced, reduce};

/// I1(x) = x P(x^2) on [0, 8]: relative: error 2^-32.64.
const NEAR_32: [f64; 11] = [
    0.5,
    0.0625,
    0.0026041667,
    5.4253433e-05,
    6.78176e-07,
    5.650661e-09,
    3.368146e-11,
    1.4871363e-13,
    5.5271404e-16,
    1.0500026e-18,
    5.9807973e-21,
];
/// The same on [0, 16]: error 2^-62.09.
const NEAR_64: [f64; 24] = [
    0.5,
    0.0625,
    0.0026041666666666665,
    5.4253472222222314e-05,
    6.781684027777544e-07,
    5.65140335648474e-09,
    3.363930569305685e-11,
    1.5017547186223437e-13,
    5.214426098541483e-16,
    1.4484517186343944e-18,
    3.2919351347159318e-21,
    6.234736552157076e-24,
    9.991406607045475e-27,
    1.3726275090802468e-29,
    1.6324273448171946e-32,
    1.712420740064994e-35,
    1.5050251151635612e-38,
    1.5423306055897023e-41,
    1.9853807892489184e-46,
    3.0171708481202924e-47,
    -4.26514667624529e-50,
    6.373569153538523e-53,
    -5.000447391325549e-56,
    2.0232432117600746e-59,
];
/// i1e(x) = P(16/x - 1) / sqrt(x) for x >= 8: relative: error 2^-26.52.
const FAR_32: [f64; 6] = [0.38939846, -0.009749585, -0.00021917002, -1.4990418e-05, -2.0081027e-06, -4.3176e-07];
/// i1e(x) = P(32/x - 1) / sqrt(x) for x >= 16: relative: error 2^-54.47.
const FAR_64: [f64; 18] = [
    0.394220213406121,
    -0.004770398290913599,
    -4.976699102701339e-05,
    -1.5068432513981455e-06,
    -7.616855917385073e-08,
    -5.488653618217279e-09,
    -5.231311681243357e-10,
    -6.316068271824794e-11,
    -9.173942722565014e-12,
    -1.6660615735318039e-12,
    -8.091260768272679e-13,
    -1.6036539693454635e-13,
    4.502879506309259e-13,
    6.184192310643288e-14,
    -2.847542410758208e-13,
    -4.810333305955429e-14,
    6.638377707865635e-14,
    1.1812828590109754e-14,
];

/// e^-|x| I1(x), I1 the modified Bessel function of order one.
pub(super) fn bessel_i1e<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let border = e.format().pick(8.0, 16.0);
    let a = e.abs(x);
    let small = at_most(e, a, border);
    let square = two_product(e, small, small);
    let near = match e.format() {
        Format::F32 => horner(e, square.high, &NEAR_32),
        Format::F64 => horner(e, square.high, &NEAR_64),
    };
    // The rounding of the square counts up to sevenfold: the logarithmic derivative of P is near 1
    // / (2 (x + 4)).
    let slope = addc(e, small, 4.0);
    let slope = e.add(slope, slope);
    let correction = e.div(square.low, slope);
    let minus = e.neg(small);
    let (n, r) = reduce(e, minus, e.format().scale_offset());
    let r = e.add(r, correction);
    let power = exp_reduced(e, r);
    let power = e.scale(power, n.value, n.shifted);
    let near = e.mul(near, small);
    let near = e.mul(near, power);

    let large = at_least(e, a, border);
    let numerator = e.f(2.0 * border);
    let one = e.f(1.0);
    let t = e.div(numerator, large);
    let t = e.sub(t, one);
    let far = match e.format() {
        Format::F32 => horner(e, t, &FAR_32),
        Format::F64 => horner(e, t, &FAR_64),
    };
    let root = e.sqrt(large);
    let far = e.div(far, root);
    let border = e.f(border);
    let is_far = e.lt(border, a);
    let y = e.select(is_far, far, near);
    with_sign_of(e, y, x)
}
