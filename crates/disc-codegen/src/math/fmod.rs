//! Computes fmod (exact for all operands) and next_after.
//!
//! fmod is long division of the mantissas, a fixed number of quotient bits a round: the partial
//! remainder r < m stays exact, because r 2^k - q m with q = floor(r 2^k / m) is representable.
//! Operands of similar size take one round; the worst gap of exponents takes 14 (f32) or 44 (f64)
//! with fused multiply-add, 26 or 88 without.

use super::arith::{addc, flip_sign, is_nan, mulc, sign_of};
use super::double::two_product;
use super::emitter::{Emitter, Format};
use super::log::exponent_to_float;

/// The remainder of x / y with the quotient rounded to zero: the sign is x's.
pub(super) fn fmod<E: Emitter>(e: &mut E, x: E::F, y: E::F) -> E::F {
    let (a, b) = (e.abs(x), e.abs(y));
    let (a_mantissa, a_exponent) = decompose(e, a);
    let (b_mantissa, b_exponent) = decompose(e, b);
    let gap = e.isub(a_exponent, b_exponent);
    let (zero, inf) = (e.f(0.0), e.f(f64::INFINITY));
    let (finite, divides, larger) = (e.lt(a, inf), e.lt(zero, b), e.le(b, a));
    let b_finite = e.lt(b, inf);
    let valid = e.and(finite, divides);
    let regular = e.and(valid, larger);
    let regular = e.and(regular, b_finite);
    let rest = divide(e, a_mantissa, b_mantissa, gap, regular);
    let exponent = exponent_to_float(e, b_exponent);
    let shifter = e.format().shifter() + e.format().scale_offset() as f64;
    let shifted = addc(e, exponent, shifter);
    let rest = e.scale(rest, exponent, shifted);
    let y_small = e.select(regular, rest, a);
    // Invalid: an infinite x, a zero y, a NaN.
    let (y_nan, nan) = (is_nan(e, y), e.f(f64::NAN));
    let y_number = e.not(y_nan);
    let valid = e.and(valid, y_number);
    let result = e.select(valid, y_small, nan);
    let sign = sign_of(e, x);
    flip_sign(e, result, sign)
}

/// x = mantissa * 2^exponent, 1 <= mantissa < 2, for positive finite x; elsewhere unspecified.
fn decompose<E: Emitter>(e: &mut E, x: E::F) -> (E::F, E::I) {
    let format = e.format();
    let limit = e.f(format.min_normal());
    let small = e.lt(x, limit);
    let p = i64::from(format.mantissa_bits()) + 1;
    let scaled = mulc(e, x, 2f64.powi(p as i32));
    let normal = e.select(small, scaled, x);
    let word = e.bits(normal);
    let fraction = e.i((1 << format.mantissa_bits()) - 1);
    let fraction = e.iand(word, fraction);
    let one = e.i(format.one_bits());
    let mantissa = e.ior(fraction, one);
    let exponent = e.lshr(word, format.mantissa_bits());
    let (bias, small_bias) = (e.i(format.bias()), e.i(format.bias() + p));
    let bias = e.iselect(small, small_bias, bias);
    (e.with_bits(mantissa), e.isub(exponent, bias))
}

/// (a * 2^gap) mod b for mantissas a, b and gap >= 0, in the lanes of `active`.
fn divide<E: Emitter>(e: &mut E, a: E::F, b: E::F, gap: E::I, active: E::M) -> E::F {
    let bits = match (e.format(), e.fused()) {
        (Format::F32, true) => 20,
        (Format::F32, false) => 11,
        (Format::F64, true) => 48,
        (Format::F64, false) => 24,
    };
    let start = e.bits(a);
    let state = e.loop_while(active, &[start, gap], &mut |e, state| {
        let (rest, gap) = (e.with_bits(state[0]), state[1]);
        let most = e.i(bits);
        let last = e.ilt(gap, most);
        let k = e.iselect(last, gap, most);
        let bias = e.i(e.format().bias());
        let power = e.iadd(k, bias);
        let power = e.shl(power, e.format().mantissa_bits());
        let power = e.with_bits(power);
        let top = e.mul(rest, power);
        let rest = remainder_step(e, top, b);
        let gap = e.isub(gap, k);
        let zero = e.i(0);
        let more = e.ilt(zero, gap);
        (vec![e.bits(rest), gap], more)
    });
    e.with_bits(state[0])
}

/// top mod b, exact, where the quotient is below 2^(half of the bits - 1), or with fused
/// multiply-add 2^(the bits - 2).
fn remainder_step<E: Emitter>(e: &mut E, top: E::F, b: E::F) -> E::F {
    let q = e.div(top, b);
    let q = e.floor(q);
    let rest = if e.fused() {
        let minus = e.neg(q);
        e.fma(minus, b, top)
    } else {
        let p = two_product(e, q, b);
        let rest = e.sub(top, p.high);
        e.sub(rest, p.low)
    };
    // The quotient's rounding may have carried it up to the next integer.
    let zero = e.f(0.0);
    let below = e.lt(rest, zero);
    let raised = e.add(rest, b);
    e.select(below, raised, rest)
}

/// The neighbour of x towards y.
pub(super) fn next_after<E: Emitter>(e: &mut E, x: E::F, y: E::F) -> E::F {
    let word = e.bits(x);
    let (zero, one, minus_one) = (e.f(0.0), e.i(1), e.i(-1));
    let (up, positive) = (e.lt(x, y), e.lt(zero, x));
    // The word grows away from zero.
    let (both, either) = (e.and(up, positive), e.or(up, positive));
    let neither = e.not(either);
    let away = e.or(both, neither);
    let step = e.iselect(away, one, minus_one);
    let moved = e.iadd(word, step);
    let moved = e.with_bits(moved);
    let direction = sign_of(e, y);
    let least = e.ior(direction, one);
    let least = e.with_bits(least);
    let is_zero = e.eq(x, zero);
    let moved = e.select(is_zero, least, moved);
    let equal = e.eq(x, y);
    let moved = e.select(equal, y, moved);
    let sum = e.add(x, y);
    let (x_nan, y_nan) = (is_nan(e, x), is_nan(e, y));
    let any_nan = e.or(x_nan, y_nan);
    e.select(any_nan, sum, moved)
}
