//! Provides the building blocks of several math functions: polynomials, clamps, signs, rounding to
//! integers. No function of the table is here.
//!
//! - All of them propagate NaN unless they say otherwise.

use super::emitter::Emitter;

/// Evaluates the polynomial with these coefficients, lowest power first, by Horner's rule.
pub(super) fn horner<E: Emitter>(e: &mut E, x: E::F, coefs: &[f64]) -> E::F {
    let (&last, rest) = coefs.split_last().expect("a polynomial has a coefficient");
    let mut sum = e.f(last);
    for &c in rest.iter().rev() {
        let c = e.f(c);
        sum = e.fma(sum, x, c);
    }
    sum
}

/// The greater of x and a constant; NaN is kept.
pub(super) fn at_least<E: Emitter>(e: &mut E, x: E::F, c: f64) -> E::F {
    let c = e.f(c);
    let below = e.lt(x, c);
    e.select(below, c, x)
}

/// The lesser of x and a constant; NaN is kept.
pub(super) fn at_most<E: Emitter>(e: &mut E, x: E::F, c: f64) -> E::F {
    let c = e.f(c);
    let above = e.lt(c, x);
    e.select(above, c, x)
}

/// The sign bit of x, other bits zero.
pub(super) fn sign_of<E: Emitter>(e: &mut E, x: E::F) -> E::I {
    let bits = e.bits(x);
    let sign = e.i(e.format().sign_bit());
    e.iand(bits, sign)
}

/// The magnitude of `x` (which is not negative) with the sign of `of`.
pub(super) fn with_sign_of<E: Emitter>(e: &mut E, x: E::F, of: E::F) -> E::F {
    let sign = sign_of(e, of);
    let bits = e.bits(x);
    let bits = e.ior(bits, sign);
    e.with_bits(bits)
}

/// x * c for a constant.
pub(super) fn mulc<E: Emitter>(e: &mut E, x: E::F, c: f64) -> E::F {
    let c = e.f(c);
    e.mul(x, c)
}

/// x + c for a constant.
pub(super) fn addc<E: Emitter>(e: &mut E, x: E::F, c: f64) -> E::F {
    let c = e.f(c);
    e.add(x, c)
}

/// x * c + y for a constant c.
pub(super) fn fmac<E: Emitter>(e: &mut E, x: E::F, c: f64, y: E::F) -> E::F {
    let c = e.f(c);
    e.fma(x, c, y)
}

/// A small integer in two forms.
#[derive(Clone, Copy)]
pub(super) struct Rounded<F> {
    /// Its value.
    pub(super) value: F,
    /// Its value plus an offset plus the format's shifter: the low bits of the word are the integer
    /// plus the offset.
    pub(super) shifted: F,
}

/// Rounds x * c to an integer, which must stay below 2^22 in magnitude (2^51 in f64). Ties and the
/// last bit of the product may go either way.
pub(super) fn round_product<E: Emitter>(e: &mut E, x: E::F, c: f64, offset: i64) -> Rounded<E::F> {
    let shifter = e.f(e.format().shifter() + offset as f64);
    let shifted = fmac(e, x, c, shifter);
    let value = e.sub(shifted, shifter);
    Rounded { value, shifted }
}

/// Converts an integer of magnitude below 2^22 (2^51 in f64) to a float, without a conversion
/// instruction in f64.
pub(super) fn small_to_float<E: Emitter>(e: &mut E, n: E::I) -> E::F {
    let shifter = e.f(e.format().shifter());
    let base = e.bits(shifter);
    let word = e.iadd(base, n);
    let shifted = e.with_bits(word);
    e.sub(shifted, shifter)
}

/// Flips the sign of x where the given word has the sign bit set; the word has no other bits.
pub(super) fn flip_sign<E: Emitter>(e: &mut E, x: E::F, sign: E::I) -> E::F {
    let bits = e.bits(x);
    let bits = e.ixor(bits, sign);
    e.with_bits(bits)
}

/// The lanes where x is NaN.
pub(super) fn is_nan<E: Emitter>(e: &mut E, x: E::F) -> E::M {
    let number = e.eq(x, x);
    e.not(number)
}

/// Converts an integral float of magnitude below 2^22 (2^51 in f64) to an integer, without a
/// conversion instruction in f64.
pub(super) fn small_to_int<E: Emitter>(e: &mut E, x: E::F) -> E::I {
    let shifter = e.f(e.format().shifter());
    let shifted = e.add(x, shifter);
    let (word, base) = (e.bits(shifted), e.bits(shifter));
    e.isub(word, base)
}
