//! Computes sinh, cosh, tanh and their inverses, on expm1 and log1p.
//!
//! - sinh and cosh work with (e^|x| - 1) / 2 and e^|x| / 2, which do not overflow where the result
//!   does not.
//! - The inverses reduce to log1p of an expression that is small where the result is; above 2^30
//!   (2^60) asinh and acosh are log(x) + log 2.

use super::arith::{addc, at_most, mulc, with_sign_of};
use super::emitter::Emitter;
use super::exp::{exp_reduced, expm1_nonpositive, half_expm1, reduce};
use super::log::{log_specials, log1p_above};

/// tanh x = -t / (2 + t) with t = e^(-2|x|) - 1.
pub(super) fn tanh<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let size = e.abs(x);
    let doubled = mulc(e, size, -2.0);
    let t = expm1_nonpositive(e, doubled);
    let bottom = addc(e, t, 2.0);
    let t = e.abs(t);
    let y = e.div(t, bottom);
    with_sign_of(e, y, x)
}

/// The hyperbolic sine: h + h / (2h + 1) with h = (e^|x| - 1) / 2.
pub(super) fn sinh<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let size = e.abs(x);
    let size = at_most(e, size, e.format().pick(90.0, 711.0));
    let h = half_expm1_wide(e, size);
    // Beyond this the quotient is 1/2, and 2h + 1 could overflow.
    let bounded = at_most(e, h, e.format().pick(1e30, 1e300));
    let doubled = e.add(bounded, bounded);
    let bottom = addc(e, doubled, 1.0);
    let quotient = e.div(bounded, bottom);
    let sum = e.add(h, quotient);
    // Halving loses the last bit of a denormal.
    let tiny = e.f(e.format().pick(1e-30, 1e-300));
    let tiny = e.lt(size, tiny);
    let y = e.select(tiny, size, sum);
    with_sign_of(e, y, x)
}

/// (e^x - 1) / 2 for 0 <= x, to infinity where that is above the format.
fn half_expm1_wide<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let limit = e.f(e.format().pick(88.0, 709.0));
    let far = e.lt(limit, x);
    let near = half_expm1(e, x);
    let large = half_exp(e, x);
    e.select(far, large, near)
}

/// e^x / 2 for x >= -1, to infinity where that is above the format.
fn half_exp<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let (n, r) = reduce(e, x, e.format().scale_offset() - 1);
    let p = exp_reduced(e, r);
    let less = addc(e, n.value, -1.0);
    e.scale(p, less, n.shifted)
}

/// The hyperbolic cosine: h + 1 / (4h) with h = e^|x| / 2.
pub(super) fn cosh<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let size = e.abs(x);
    let size = at_most(e, size, e.format().pick(90.0, 711.0));
    let h = half_exp(e, size);
    let quarter = e.f(0.25);
    let other = e.div(quarter, h);
    e.add(h, other)
}

/// log1p(small) or, where x is large, log(x) + log 2; infinity and NaN of x are kept.
fn log_of_sum<E: Emitter>(e: &mut E, x: E::F, small: E::F) -> E::F {
    let limit = e.f(e.format().pick(1e9, 1e18));
    let large = e.lt(limit, x);
    let u = e.select(large, x, small);
    let y = log1p_above(e, u);
    let (zero, ln2) = (e.f(0.0), e.f(std::f64::consts::LN_2));
    let more = e.select(large, ln2, zero);
    let y = e.add(y, more);
    let inf = e.f(f64::INFINITY);
    let finite = e.lt(x, inf);
    e.select(finite, y, x)
}

/// asinh x = log1p(|x| + x^2 / (1 + sqrt(1 + x^2))).
pub(super) fn asinh<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let size = e.abs(x);
    let square = e.mul(x, x);
    let root = addc(e, square, 1.0);
    let root = e.sqrt(root);
    let bottom = addc(e, root, 1.0);
    let more = e.div(square, bottom);
    let u = e.add(size, more);
    let y = log_of_sum(e, size, u);
    with_sign_of(e, y, x)
}

/// acosh x = log1p(t + sqrt(2t + t^2)), t = x - 1; NaN below 1.
pub(super) fn acosh<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let t = addc(e, x, -1.0);
    let doubled = e.add(t, t);
    let square = e.fma(t, t, doubled);
    let root = e.sqrt(square);
    let u = e.add(t, root);
    let y = log_of_sum(e, x, u);
    let (one, nan) = (e.f(1.0), e.f(f64::NAN));
    let below = e.lt(x, one);
    e.select(below, nan, y)
}

/// atanh x = log1p(2x / (1 - x)) / 2; NaN outside [-1, 1], infinity at its ends.
pub(super) fn atanh<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let size = e.abs(x);
    let one = e.f(1.0);
    let bottom = e.sub(one, size);
    let doubled = e.add(size, size);
    let u = e.div(doubled, bottom);
    let y = log1p_above(e, u);
    let y = mulc(e, y, 0.5);
    // 1 - |x| decides: it is zero at 1, negative above; but log's result at zero is -infinity.
    let special = log_specials(e, bottom, y);
    let special = e.abs(special);
    // Doubling and halving preserve denormals, but log1p's polynomial does not for the smallest.
    let tiny = e.f(e.format().pick(1e-18, 1e-30));
    let tiny = e.lt(size, tiny);
    let y = e.select(tiny, size, special);
    with_sign_of(e, y, x)
}
