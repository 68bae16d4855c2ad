//! Computes pow.
//!
//! |x|^y = e^(y log|x|) with the logarithm and the product in two parts; signs and special values
//! as in C (IEEE 754 pow).

use super::arith::{at_least, at_most, is_nan, mulc, sign_of};
use super::double::{Pair, scale};
use super::emitter::Emitter;
use super::exp::{exp_reduced, reduce};
use super::log_pair::log_pair;

/// x to the power of y.
pub(super) fn pow<E: Emitter>(e: &mut E, x: E::F, y: E::F) -> E::F {
    let size = e.abs(x);
    let log = log_with_limits(e, size);
    let p = times_log(e, log, y);
    let power = exp_pair(e, p);
    with_conventions(e, x, y, size, power)
}

/// log of x >= 0 with its limits at zero and infinity; NaN is kept.
fn log_with_limits<E: Emitter>(e: &mut E, x: E::F) -> Pair<E::F> {
    let log = log_pair(e, x);
    let (zero, inf, minus_inf) = (e.f(0.0), e.f(f64::INFINITY), e.f(f64::NEG_INFINITY));
    let finite = e.lt(x, inf);
    let is_zero = e.eq(x, zero);
    let high = e.select(finite, log.high, x);
    let high = e.select(is_zero, minus_inf, high);
    let positive = e.not(is_zero);
    let regular = e.and(finite, positive);
    Pair { high, low: e.select(regular, log.low, zero) }
}

/// log times y, for [`exp_pair`]: beyond its range, only the high part matters.
fn times_log<E: Emitter>(e: &mut E, log: Pair<E::F>, y: E::F) -> Pair<E::F> {
    let p = scale(e, log, y);
    // The parts of an overflowing product cancel to NaN, and a low part as large as the clamp below
    // must not be added to it.
    let high = e.mul(log.high, y);
    let size = e.abs(high);
    let limit = e.f(e.format().pick(256.0, 2048.0));
    let moderate = e.lt(size, limit);
    let zero = e.f(0.0);
    Pair { high: e.select(moderate, p.high, high), low: e.select(moderate, p.low, zero) }
}

/// e^(high + low).
fn exp_pair<E: Emitter>(e: &mut E, x: Pair<E::F>) -> E::F {
    let high = at_least(e, x.high, e.format().pick(-104.5, -746.0));
    let high = at_most(e, high, e.format().pick(89.0, 710.0));
    let (n, r) = reduce(e, high, e.format().scale_offset());
    let r = e.add(r, x.low);
    let p = exp_reduced(e, r);
    e.scale(p, n.value, n.shifted)
}

/// The sign and the special values of x^y, given |x|^y.
fn with_conventions<E: Emitter>(e: &mut E, x: E::F, y: E::F, size: E::F, power: E::F) -> E::F {
    let (zero, one, minus_inf, nan) = (e.f(0.0), e.f(1.0), e.f(f64::NEG_INFINITY), e.f(f64::NAN));
    // |x| = 1 with an infinite y.
    let unit = e.eq(size, one);
    let y_nan = is_nan(e, y);
    let y_number = e.not(y_nan);
    let unit = e.and(unit, y_number);
    let power = e.select(unit, one, power);
    let (whole, half) = (e.floor(y), mulc(e, y, 0.5));
    let half_whole = e.floor(half);
    let integral = e.eq(whole, y);
    let even = e.eq(half_whole, half);
    let not_even = e.not(even);
    let odd = e.and(integral, not_even);
    let sign = sign_of(e, x);
    let bits = e.bits(power);
    let negated = e.ixor(bits, sign);
    let negated = e.with_bits(negated);
    let power = e.select(odd, negated, power);
    let (negative, finite) = (e.lt(x, zero), e.lt(minus_inf, x));
    let fraction = e.not(integral);
    let invalid = e.and(negative, finite);
    let invalid = e.and(invalid, fraction);
    let power = e.select(invalid, nan, power);
    let (y_zero, x_one) = (e.eq(y, zero), e.eq(x, one));
    let always_one = e.or(y_zero, x_one);
    e.select(always_one, one, power)
}
