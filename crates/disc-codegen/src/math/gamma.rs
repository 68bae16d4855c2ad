//! Computes lgamma and digamma.
//!
//! - lgamma on [1, 2] is u (u - 1) P(u) with u = x - 1, which keeps the zeros; below 8 the argument
//!   is moved there by the recurrence, the factors gathered in one product; from 8 on Stirling's
//!   series with the logarithm in two parts.
//! - digamma is moved up to 3 (f32) or 7 (f64) by the recurrence, gathered in one fraction, then
//!   its asymptotic series is evaluated.
//! - Negative arguments are computed by reflection, with sin(pi x) and cos(pi x) reduced exactly.
//!   Near the zeros between the poles (and near digamma's zero at 1.46) the error is small against
//!   1, not against the result.
//!
//! Fits: scripts/fit/gamma.py.

use super::arith::{addc, horner, mulc};
use super::emitter::{Emitter, Format};
use super::log::log_positive;
use super::log_pair::log_pair;
use super::trig::sin_cos_pi;

/// lgamma(1 + u) = u (u - 1) P(u) on [0, 1]: relative: error 2^-26.37.
const LGAMMA_32: [f64; 11] = [
    0.5772157,
    -0.24525179,
    0.15544148,
    -0.11519286,
    0.09229653,
    -0.07652679,
    0.061681107,
    -0.043476958,
    0.023331344,
    -0.008013361,
    0.001279962,
];
/// The same: error 2^-56.7.
const LGAMMA_64: [f64; 23] = [
    0.5772156649015329,
    -0.24525136852258192,
    0.1554342658640968,
    -0.11514654257015444,
    0.09223900861917973,
    -0.07731817087334973,
    0.06673175131725641,
    -0.05877808788330434,
    0.05255683641077432,
    -0.04754286166819133,
    0.04339542537874817,
    -0.03983584621347052,
    0.03652454041945839,
    -0.032957876917968455,
    0.028522949267724546,
    -0.022842729413673064,
    0.016242266422535095,
    -0.009819089445241888,
    0.004822562313457587,
    -0.001825606694517992,
    0.0004956922131465616,
    -8.544593837986744e-05,
    6.998111390193845e-06,
];
/// lgamma(x) = (x - 1/2)(log x - 1) + (log 2 pi - 1)/2 + P(1/x^2)/x for x >= 8: of the last term:
/// error 2^-21.54.
const STIRLING_32: [f64; 2] = [0.083333306, -0.002765219];
/// The same: error 2^-54.0.
const STIRLING_64: [f64; 7] = [
    0.08333333333333333,
    -0.002777777777766842,
    0.0007936507861173006,
    -0.0005952357908741663,
    0.0008413857725598279,
    -0.0018860804431568333,
    0.0049814116752662264,
];
/// digamma(x) = log x - 1/(2x) - P(1/x^2)/x^2 for x >= 3: of the last term: error 2^-24.0.
const DIGAMMA_32: [f64; 4] = [0.08333333, -0.008331824, 0.0038954567, -0.0029779351];
/// The same for x >= 7: error 2^-54.0.
const DIGAMMA_64: [f64; 9] = [
    0.08333333333333333,
    -0.008333333333322158,
    0.003968253960322066,
    -0.004166664111495083,
    0.0075753136268796985,
    -0.021047773002885288,
    0.08058975973482561,
    -0.3434429158473148,
    0.9468755686951381,
];

/// The logarithm of the absolute value of the gamma function.
pub(super) fn lgamma<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let a = e.abs(x);
    let positive = lgamma_positive(e, a);
    // log(pi / |a sin(pi a)|) - lgamma(a); for a tiny a both sides of 0 agree.
    let (sine, _) = sin_cos_pi(e, a);
    let product = e.mul(a, sine);
    let product = e.abs(product);
    let log = log_positive(e, product);
    let log_pi = e.f(1.1447298858494002);
    let reflected = e.sub(log_pi, log);
    let reflected = e.sub(reflected, positive);
    let (zero, inf) = (e.f(0.0), e.f(f64::INFINITY));
    let pole = e.eq(product, zero);
    let reflected = e.select(pole, inf, reflected);
    let limit = e.f(e.format().pick(-1e-15, -1e-30));
    let negative = e.lt(x, limit);
    let y = e.select(negative, reflected, positive);
    let (is_zero, is_inf) = (e.eq(x, zero), e.eq(a, inf));
    let special = e.or(is_zero, is_inf);
    e.select(special, inf, y)
}

/// lgamma of a positive finite number.
fn lgamma_positive<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let (one, eight) = (e.f(1.0), e.f(8.0));
    let (below_one, below_eight) = (e.lt(x, one), e.lt(x, eight));
    // y in [1, 2) and the factors between: x = y + n, the product of y .. x - 1; below 1, y = x +
    // 1.
    let raised = e.add(x, one);
    let (mut y, mut factors) = (x, one);
    for i in 1..7 {
        let lower = addc(e, x, -f64::from(i));
        let above = e.le(one, lower);
        let more = e.mul(factors, lower);
        factors = e.select(above, more, factors);
        y = e.select(above, lower, y);
    }
    let y = e.select(below_one, raised, y);
    let factors = e.select(below_one, x, factors);
    let argument = e.select(below_eight, factors, x);
    let log = log_pair(e, argument);

    // u is in [0, 1]; for x < 1 it is x itself, without the rounding of x + 1.
    let u = addc(e, y, -1.0);
    let u = e.select(below_one, x, u);
    let p = match e.format() {
        Format::F32 => horner(e, u, &LGAMMA_32),
        Format::F64 => horner(e, u, &LGAMMA_64),
    };
    let v = addc(e, u, -1.0);
    let p = e.mul(p, v);
    let minus = e.neg(log.high);
    let log_part = e.select(below_one, minus, log.high);
    let near = e.fma(p, u, log_part);

    // (x - 1/2)(log x - 1) + c + P/x
    let inverse = e.div(one, x);
    let z = e.mul(inverse, inverse);
    let p = match e.format() {
        Format::F32 => horner(e, z, &STIRLING_32),
        Format::F64 => horner(e, z, &STIRLING_64),
    };
    let constant = e.f(0.4189385332046727);
    let p = e.fma(p, inverse, constant);
    let factor = addc(e, x, -0.5);
    let log_less = addc(e, log.high, -1.0);
    let p = e.fma(factor, log.low, p);
    let far = e.fma(factor, log_less, p);
    let far = e.select(below_eight, near, far);
    // NaN has no exponent to split.
    let number = e.eq(x, x);
    e.select(number, far, x)
}

/// The derivative of lgamma.
pub(super) fn digamma<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let a = e.abs(x);
    let (one, zero, nan, inf) = (e.f(1.0), e.f(0.0), e.f(f64::NAN), e.f(f64::INFINITY));
    let inverse = e.div(one, a);
    let (next, value) = digamma_pair(e, a, inverse);
    // digamma(-a) = digamma(a + 1) + pi cot(pi a)
    let (sine, cosine) = sin_cos_pi(e, a);
    let cosine = mulc(e, cosine, std::f64::consts::PI);
    let cotangent = e.div(cosine, sine);
    let reflected = e.add(next, cotangent);
    let pole = e.eq(sine, zero);
    let reflected = e.select(pole, nan, reflected);
    let negative = e.lt(x, zero);
    let y = e.select(negative, reflected, value);
    // At the ends: -infinity for +0, +infinity for -0, as 1/-x; also where only 1/x matters.
    let tiny = e.f(e.format().pick(1e-20, 1e-40));
    let tiny = e.lt(a, tiny);
    let minus = e.neg(x);
    let near_zero = e.div(one, minus);
    let y = e.select(tiny, near_zero, y);
    let is_inf = e.eq(x, inf);
    let y = e.select(is_inf, inf, y);
    let number = e.eq(x, x);
    e.select(number, y, x)
}

/// digamma(x + 1) and digamma(x) of a positive finite number that is not tiny, given 1/x.
fn digamma_pair<E: Emitter>(e: &mut E, x: E::F, inverse: E::F) -> (E::F, E::F) {
    let steps = e.format().pick(3, 7);
    let (zero, one, start) = (e.f(0.0), e.f(1.0), e.f(f64::from(steps)));
    let below = e.lt(x, start);
    // The sum of 1 / (x + i) from i = 1 as one fraction.
    let (mut top, mut bottom) = (one, addc(e, x, 1.0));
    for i in 2..steps {
        let factor = addc(e, x, f64::from(i));
        top = e.fma(top, factor, bottom);
        bottom = e.mul(bottom, factor);
    }
    let moved = addc(e, x, f64::from(steps));
    let y = e.select(below, moved, x);
    let fraction = e.div(top, bottom);
    let fraction = e.select(below, fraction, zero);
    let y_inverse = e.div(one, y);
    let z = e.mul(y_inverse, y_inverse);
    let p = match e.format() {
        Format::F32 => horner(e, z, &DIGAMMA_32),
        Format::F64 => horner(e, z, &DIGAMMA_64),
    };
    let half = e.f(0.5);
    let p = e.fma(p, y_inverse, half);
    let minus = e.neg(y_inverse);
    let log = log_positive(e, y);
    let series = e.fma(p, minus, log);
    let series = e.sub(series, fraction);
    let lower = e.select(below, inverse, zero);
    let upper = e.select(below, zero, inverse);
    (e.add(series, upper), e.sub(series, lower))
}
