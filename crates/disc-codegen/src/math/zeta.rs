//! Computes the Hurwitz zeta function, and polygamma on it.
//!
//! The method is that of Euler and Maclaurin, after Cephes (zeta.c): the first terms one by one, in
//! a loop, then the integral and twelve terms of Bernoulli numbers.
//!
//! - zeta(s, q) needs s > 1 (infinite at 1, NaN below). For q <= 0: infinite at integers, NaN
//!   elsewhere unless s is an integer.
//! - A q below -1024 gives NaN: each unit is a term of the sum.

use super::arith::{addc, is_nan, mulc};
use super::emitter::Emitter;
use super::gamma::{digamma, lgamma};
use super::pow::pow;

/// B(2k) / (2k)! for k = 1 to 12, the factors of the Bernoulli terms.
const BERNOULLI: [f64; 12] = [
    0.08333333333333333,
    -0.001388888888888889,
    3.306878306878307e-05,
    -8.267195767195768e-07,
    2.08767569878681e-08,
    -5.284190138687493e-10,
    1.3382536530684679e-11,
    -3.3896802963225827e-13,
    8.586062056277844e-15,
    -2.174868698558062e-16,
    5.5090028283602295e-18,
    -1.3954464685812523e-19,
];
/// The number of terms that are summed one by one, and the least argument at which the series
/// begins.
const TERMS: f64 = 9.0;

/// The sum of (q + k)^-s over k >= 0.
pub(super) fn zeta<E: Emitter>(e: &mut E, s: E::F, q: E::F) -> E::F {
    let (zero, one, nan, inf) = (e.f(0.0), e.f(1.0), e.f(f64::NAN), e.f(f64::INFINITY));
    let least = e.f(-1024.0);
    let (deep, nonpositive) = (e.lt(q, least), e.le(q, zero));
    let (q_whole, s_whole) = (e.floor(q), e.floor(s));
    let (q_integral, s_integral) = (e.eq(q_whole, q), e.eq(s_whole, s));
    let s_fraction = e.not(s_integral);
    let pole = e.and(nonpositive, q_integral);
    let undefined = e.and(nonpositive, s_fraction);
    let undefined = e.or(undefined, deep);
    let small_s = e.lt(s, one);
    let (s_nan, q_nan) = (is_nan(e, s), is_nan(e, q));
    let any_nan = e.or(s_nan, q_nan);
    let divergent = e.eq(s, one);
    // Lanes whose result is settled run with harmless operands.
    let settled = e.or(pole, undefined);
    let settled = e.or(settled, small_s);
    let settled = e.or(settled, any_nan);
    let settled = e.or(settled, divergent);
    let two = e.f(2.0);
    let safe_s = e.select(settled, two, s);
    let safe_q = e.select(settled, two, q);
    let sum = zeta_sum(e, safe_s, safe_q);
    let sum = e.select(undefined, nan, sum);
    let sum = e.select(pole, inf, sum);
    let sum = e.select(small_s, nan, sum);
    let sum = e.select(divergent, inf, sum);
    e.select(any_nan, nan, sum)
}

/// The sum for s > 1 and a q that is no pole.
fn zeta_sum<E: Emitter>(e: &mut E, s: E::F, q: E::F) -> E::F {
    // a^(1-s), which the integral needs, underflows later than a^-s; 1 - s is exact for s > 1.
    let one = e.f(1.0);
    let power = e.sub(one, s);
    let first = pow(e, q, power);
    let sum = e.div(first, q);
    // Up to nine rounds for positive q, 9 - q for negative; none for a large q, to which 1 could
    // not be added without loss: there the series converges at once, unless s is larger still.
    let (count, large) = (e.i(9), e.f(e.format().pick(4096.0, 67108864.0)));
    let state = [e.bits(q), e.bits(sum), e.bits(first), count];
    let (near, steep) = (e.lt(q, large), e.lt(q, s));
    let active = e.or(near, steep);
    let state = e.loop_while(active, &state, &mut |e, state| {
        let (a, sum) = (e.with_bits(state[0]), e.with_bits(state[1]));
        let a = addc(e, a, 1.0);
        let raised = pow(e, a, power);
        let term = e.div(raised, a);
        let sum = e.add(sum, term);
        let minus_one = e.i(-1);
        let left = e.iadd(state[3], minus_one);
        let (zero, enough) = (e.i(0), e.f(TERMS));
        let (few, low) = (e.ilt(zero, left), e.le(a, enough));
        let more = e.or(few, low);
        (vec![e.bits(a), e.bits(sum), e.bits(raised), left], more)
    });
    let (a, sum, raised) = (e.with_bits(state[0]), e.with_bits(state[1]), e.with_bits(state[2]));
    let rest = tail(e, s, a, raised);
    e.add(sum, rest)
}

/// The sum from a + 1 on, given a^(1-s).
fn tail<E: Emitter>(e: &mut E, s: E::F, a: E::F, raised: E::F) -> E::F {
    let (zero, one) = (e.f(0.0), e.f(1.0));
    let s_less = e.sub(s, one);
    let integral = e.div(raised, s_less);
    let inverse = e.div(one, a);
    let term = e.mul(raised, inverse);
    let half = mulc(e, term, -0.5);
    // u = term * s (s + 1) .. (s + 2k) / a^(2k+1); s / a is moderate unless the term vanishes.
    let factor = e.mul(s, inverse);
    let mut u = e.mul(term, factor);
    let mut series = mulc(e, u, BERNOULLI[0]);
    for (k, &bernoulli) in BERNOULLI.iter().enumerate().skip(1) {
        for step in [2 * k - 1, 2 * k] {
            let factor = addc(e, s, step as f64);
            let factor = e.mul(factor, inverse);
            u = e.mul(u, factor);
        }
        let b = e.f(bernoulli);
        series = e.fma(u, b, series);
    }
    let series = e.add(half, series);
    let vanished = e.eq(term, zero);
    let series = e.select(vanished, zero, series);
    e.add(integral, series)
}

/// The derivative of order n of digamma; NaN unless n is an integer >= 0.
pub(super) fn polygamma<E: Emitter>(e: &mut E, n: E::F, x: E::F) -> E::F {
    let (zero, one, nan) = (e.f(0.0), e.f(1.0), e.f(f64::NAN));
    let order = e.add(n, one);
    let log_factorial = lgamma(e, order);
    let factorial = super::exp::exp(e, log_factorial);
    // This is an integer, as far as that is representable.
    let factorial = e.round_even(factorial);
    let sum = zeta(e, order, x);
    let size = e.mul(factorial, sum);
    let half = mulc(e, n, 0.5);
    let whole_half = e.floor(half);
    let even = e.eq(half, whole_half);
    let minus = e.neg(size);
    let y = e.select(even, minus, size);
    let first = e.eq(n, zero);
    let digamma = digamma(e, x);
    let y = e.select(first, digamma, y);
    let whole = e.floor(n);
    let (integral, defined) = (e.eq(whole, n), e.le(zero, n));
    let valid = e.and(integral, defined);
    e.select(valid, y, nan)
}
