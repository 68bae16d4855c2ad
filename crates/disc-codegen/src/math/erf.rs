//! Computes erf, erfc and the exact GELU.
//!
//! - erfc(a) = e^(-a^2) P(t) / (1 + 2a) with t = (a - K) / (a + K) for a >= 0 (after M. Shepherd
//!   and J. Laframboise, "Chebyshev approximation of (1+2x) exp(x^2) erfc x"), where a^2 has two
//!   parts; 2 minus that for a negative argument.
//! - erf in f32 is -expm1(-a P(a)), which has a small relative error everywhere; in f64 x + x
//!   P(x^2) below 1 and 1 - erfc above.
//! - GELU(x) = max(x, 0) - |x| Phi(-|x|). In f32 Phi(-a) = 2^Q(a) with a polynomial Q (its error is
//!   small against 1, not against the tail); in f64 Phi comes from erfc.
//!
//! Fits: scripts/fit/erf.py.

use super::arith::{addc, at_least, at_most, fmac, horner, mulc, round_product, with_sign_of};
use super::emitter::{Emitter, Format};
use super::exp::{exp_reduced, expm1_nonpositive, power_of_two, reduce};

/// -log(erfc(a)) = a P(a) on [0, 3.95], weighed for erf: relative error 2^-24.2.
const ERF_32: [f64; 9] =
    [1.1283792, 0.636615, 0.1028335, -0.019408887, 0.0003929895, 0.0010416015, -0.0002549624, 2.631921e-06, 4.5302654e-06];
/// erf(x) = x + x P(x^2) on [0, 1/2]: relative error 2^-29.3.
const ERF_SMALL_32: [f64; 5] = [0.12837917, -0.3761261, 0.112828515, -0.026758388, 0.004719638];
/// The same on [0, 1]: relative error 2^-56.3.
const ERF_64: [f64; 13] = [
    0.1283791670955126,
    -0.376126389031841,
    0.11283791670971086,
    -0.02686617064802657,
    0.005223977652629485,
    -0.0008548328531242493,
    0.00012055385997010444,
    -1.4926876089691025e-05,
    1.6480963045034206e-06,
    -1.655601988577982e-07,
    1.6005180998626498e-08,
    -1.6431543703737869e-09,
    1.4284105385626568e-10,
];
/// erfc's P(t), K = 2, on [-1, 0.669]: relative error 2^-25.6.
const ERFC_32: [f64; 10] = [
    1.2769784,
    -0.09276399,
    -0.16603084,
    0.1640556,
    -0.054208793,
    -0.008062224,
    0.008644311,
    0.0013217385,
    -0.0012417842,
    -0.00040986226,
];
/// erfc's P(t), K = 4, on [-1, 0.744]: relative error 2^-54.3.
const ERFC_64: [f64; 22] = [
    1.2329951186255526,
    -0.13962111684056322,
    0.015379652102606165,
    0.0680970542547681,
    -0.10103906603557423,
    0.0937328349960546,
    -0.06633036582790991,
    0.037167515568156013,
    -0.01619773388241296,
    0.005031969766587866,
    -0.0007577744398442264,
    -0.00019925591481451628,
    0.0001506263840033824,
    -2.4400553760742065e-05,
    -1.1234278620167976e-05,
    5.709532183148236e-06,
    3.1384161682171073e-07,
    -8.204112290589729e-07,
    5.511309736554729e-08,
    1.0159079094512925e-07,
    -7.980961281582211e-09,
    -8.366619666571131e-09,
];
/// log2 Phi(-a) on [0, 13.5], weighed by Phi(-a) / Phi(a): error 2^-26.5.
const GELU_32: [f64; 9] =
    [-1.0, -1.1511048, -0.45921257, -0.052480523, 0.007037895, -0.00011550474, -0.00019572655, 4.1509586e-05, -3.0216747e-06];
/// 2^r on |r| <= 0.5001, degree 5: relative error 2^-23.3.
const EXP2_SHORT_32: [f64; 6] =
    [1.0, 0.6931470036506653, 0.24022240936756134, 0.05550699681043625, 0.009671571664512157, 0.001327461679466069];

/// a^2 / c as a sum of two floats, for c = 1 or 2 and a >= 0 that does not overflow.
fn square_over<E: Emitter>(e: &mut E, a: E::F, c: f64) -> (E::F, E::F) {
    let (high, low) = if e.fused() {
        let high = e.mul(a, a);
        let minus = e.neg(high);
        (high, e.fma(a, a, minus))
    } else {
        let mask = e.i(e.format().pick(-1 << 12, -1 << 27));
        let word = e.bits(a);
        let head = e.iand(word, mask);
        let head = e.with_bits(head);
        let (rest, sum) = (e.sub(a, head), e.add(a, head));
        (e.mul(head, head), e.mul(rest, sum))
    };
    if c == 1.0 { (high, low) } else { (mulc(e, high, 1.0 / c), mulc(e, low, 1.0 / c)) }
}

/// e^(-high - low) P(t) / (1 + 2u), the value of erfc(u) where high + low = u^2; u is clamped by
/// the caller.
fn erfc_from<E: Emitter>(e: &mut E, u: E::F, high: E::F, low: E::F) -> E::F {
    let k = e.format().pick(2.0, 4.0);
    let (above, below) = (addc(e, u, k), addc(e, u, -k));
    let t = e.div(below, above);
    let p = match e.format() {
        Format::F32 => horner(e, t, &ERFC_32),
        Format::F64 => horner(e, t, &ERFC_64),
    };
    let one = e.f(1.0);
    let bottom = fmac(e, u, 2.0, one);
    let p = e.div(p, bottom);
    let minus = e.neg(high);
    let (n, r) = reduce(e, minus, e.format().scale_offset());
    let r = e.sub(r, low);
    let power = exp_reduced(e, r);
    let p = e.mul(p, power);
    e.scale(p, n.value, n.shifted)
}

/// erfc(a) for a >= 0 or NaN.
fn erfc_nonnegative<E: Emitter>(e: &mut E, a: E::F) -> E::F {
    let a = at_most(e, a, e.format().pick(10.5, 27.5));
    let (high, low) = square_over(e, a, 1.0);
    erfc_from(e, a, high, low)
}

/// The complementary error function.
pub(super) fn erfc<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let a = e.abs(x);
    let y = erfc_nonnegative(e, a);
    let (zero, one, two) = (e.f(0.0), e.f(1.0), e.f(2.0));
    let other = e.sub(two, y);
    let negative = e.lt(x, zero);
    let y = e.select(negative, other, y);
    // Just below 1 the unit in the last place is half of that which the computation above works
    // with.
    let small = erf_small(e, x);
    let small = e.sub(one, small);
    let half = e.f(0.5);
    let near_zero = e.lt(a, half);
    e.select(near_zero, small, y)
}

/// erf(x) for |x| <= 1/2 (f32) or 1 (f64).
fn erf_small<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let square = e.mul(x, x);
    let p = match e.format() {
        Format::F32 => horner(e, square, &ERF_SMALL_32),
        Format::F64 => horner(e, square, &ERF_64),
    };
    e.fma(x, p, x)
}

/// The error function.
pub(super) fn erf<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let a = e.abs(x);
    let y = match e.format() {
        Format::F32 => {
            let a = at_most(e, a, 4.0);
            let p = horner(e, a, &ERF_32);
            let minus = e.neg(a);
            let t = e.mul(minus, p);
            let y = expm1_nonpositive(e, t);
            e.abs(y)
        }
        Format::F64 => {
            let small = erf_small(e, a);
            let one = e.f(1.0);
            let tail = erfc_nonnegative(e, a);
            let large = e.sub(one, tail);
            let is_small = e.lt(a, one);
            e.select(is_small, small, large)
        }
    };
    with_sign_of(e, y, x)
}

/// x Phi(x), where Phi is the normal distribution function: GELU without the tanh approximation.
///
/// As in a computation with erf, -Inf gives NaN.
pub(super) fn gelu_erf<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let zero = e.f(0.0);
    let minus_zero = e.f(-0.0);
    let negative = e.lt(x, zero);
    let positive_part = e.select(negative, minus_zero, x);
    let factor = at_most(e, x, e.format().pick(14.0, 39.0));
    let clamped = at_least(e, factor, e.format().pick(-14.0, -39.0));
    let (a, factor) = (e.abs(clamped), e.abs(factor));
    let phi = match e.format() {
        Format::F32 => {
            let q = horner(e, a, &GELU_32);
            let q = at_least(e, q, -127.0);
            let n = round_product(e, q, 1.0, e.format().bias());
            let r = e.sub(q, n.value);
            let p = horner(e, r, &EXP2_SHORT_32);
            let power = power_of_two(e, n.shifted);
            e.mul(p, power)
        }
        Format::F64 => {
            let (high, low) = square_over(e, a, 2.0);
            let u = mulc(e, a, std::f64::consts::FRAC_1_SQRT_2);
            let erfc = erfc_from(e, u, high, low);
            mulc(e, erfc, 0.5)
        }
    };
    let minus = e.neg(factor);
    e.fma(minus, phi, positive_part)
}
