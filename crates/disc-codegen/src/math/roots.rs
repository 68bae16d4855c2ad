//! Computes rsqrt and cbrt.
//!
//! - rsqrt uses the target's square root and division, which are correctly rounded.
//! - cbrt, after fdlibm (s_cbrt.c): a third of the word is a start with 5 bits; Halley steps
//!   follow, the last one from a start that is cut to half of the bits, so that its square is
//!   exact.

use super::arith::{mulc, small_to_float, small_to_int, with_sign_of};
use super::emitter::{Emitter, Format};

/// 1 / sqrt(x): infinity of x's sign at zero, NaN below.
pub(super) fn rsqrt<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let one = e.f(1.0);
    let root = e.sqrt(x);
    e.div(one, root)
}

/// The cube root.
pub(super) fn cbrt<E: Emitter>(e: &mut E, x: E::F) -> E::F {
    let format = e.format();
    let size = e.abs(x);
    let limit = e.f(format.min_normal());
    let small = e.lt(size, limit);
    let scaled = mulc(e, size, format.pick(16777216.0, 18014398509481984.0));
    let a = e.select(small, scaled, size);
    let mut t = cbrt_start(e, a);
    for _ in 0..format.pick(1, 2) {
        t = halley(e, t, a);
    }
    let mask = e.i(format.pick(-1 << 12, -1 << 27));
    let word = e.bits(t);
    let word = e.iand(word, mask);
    let t = e.with_bits(word);
    // t + t (r - t) / (2t + r) with r = a / t^2.
    let square = e.mul(t, t);
    let r = e.div(a, square);
    let (top, doubled) = (e.sub(r, t), e.add(t, t));
    let bottom = e.add(doubled, r);
    let step = e.div(top, bottom);
    let y = e.fma(t, step, t);
    let lowered = mulc(e, y, format.pick(0.00390625, 3.814697265625e-06));
    let y = e.select(small, lowered, y);
    let y = with_sign_of(e, y, x);
    // Zero, infinity and NaN are their own roots.
    let (zero, inf) = (e.f(0.0), e.f(f64::INFINITY));
    let (positive, finite) = (e.lt(zero, size), e.lt(size, inf));
    let regular = e.and(positive, finite);
    e.select(regular, y, x)
}

/// A cube root to 5 bits, by dividing the exponent and mantissa as one number by three.
fn cbrt_start<E: Emitter>(e: &mut E, a: E::F) -> E::F {
    let word = e.bits(a);
    match e.format() {
        Format::F32 => {
            let n = e.to_float(word);
            let n = mulc(e, n, 1.0 / 3.0);
            let n = e.to_int(n);
            let base = e.i(709_958_130);
            let word = e.iadd(n, base);
            e.with_bits(word)
        }
        Format::F64 => {
            let n = e.lshr(word, 32);
            let n = small_to_float(e, n);
            let n = mulc(e, n, 1.0 / 3.0);
            let n = small_to_int(e, n);
            let base = e.i(715_094_163);
            let word = e.iadd(n, base);
            let word = e.shl(word, 32);
            e.with_bits(word)
        }
    }
}

/// t (t^3 + 2a) / (2 t^3 + a): three times as many bits.
fn halley<E: Emitter>(e: &mut E, t: E::F, a: E::F) -> E::F {
    // In terms of r = a / t^3, so that the powers do not overflow: t (1 + 2r) / (2 + r).
    let square = e.mul(t, t);
    let r = e.div(a, square);
    let r = e.div(r, t);
    let (one, two) = (e.f(1.0), e.f(2.0));
    let top = e.fma(r, two, one);
    let bottom = e.add(r, two);
    let ratio = e.div(top, bottom);
    e.mul(t, ratio)
}
