//! Computes sums and products in two parts, the rounded result and its error, and does arithmetic
//! on such pairs.
//!
//! Without fused multiply-add the products split their factors by masking low bits (Dekker with
//! truncation), which cannot overflow and leaves an error of one unit in the last place of the low
//! part at most. Values near the format's limits are the caller's concern.
//!
//! Source: T. Dekker, "A floating-point technique for extending the available precision"; D. Knuth,
//! TAOCP 2, 4.2.2.

use super::emitter::Emitter;

/// An unevaluated sum; the high part is the sum rounded.
#[derive(Clone, Copy)]
pub(super) struct Pair<F> {
    pub(super) high: F,
    pub(super) low: F,
}

/// A constant in two parts.
pub(super) fn constant<E: Emitter>(e: &mut E, high: f64, low: f64) -> Pair<E::F> {
    Pair { high: e.f(high), low: e.f(low) }
}

/// a + b, exact.
pub(super) fn two_sum<E: Emitter>(e: &mut E, a: E::F, b: E::F) -> Pair<E::F> {
    let high = e.add(a, b);
    let b_part = e.sub(high, a);
    let a_part = e.sub(high, b_part);
    let (a_lost, b_lost) = (e.sub(a, a_part), e.sub(b, b_part));
    Pair { high, low: e.add(a_lost, b_lost) }
}

/// a + b, exact where |a| >= |b| or a is zero.
pub(super) fn fast_two_sum<E: Emitter>(e: &mut E, a: E::F, b: E::F) -> Pair<E::F> {
    let high = e.add(a, b);
    let b_part = e.sub(high, a);
    Pair { high, low: e.sub(b, b_part) }
}

/// x in two parts of half the bits.
pub(super) fn halves<E: Emitter>(e: &mut E, x: E::F) -> Pair<E::F> {
    let mask = e.i(e.format().pick(-1 << 12, -1 << 27));
    let word = e.bits(x);
    let word = e.iand(word, mask);
    let high = e.with_bits(word);
    Pair { high, low: e.sub(x, high) }
}

/// a * b, exact (see the file's comment).
pub(super) fn two_product<E: Emitter>(e: &mut E, a: E::F, b: E::F) -> Pair<E::F> {
    let high = e.mul(a, b);
    let minus = e.neg(high);
    if e.fused() {
        return Pair { high, low: e.fma(a, b, minus) };
    }
    let (x, y) = (halves(e, a), halves(e, b));
    let low = e.fma(x.high, y.high, minus);
    let low = e.fma(x.high, y.low, low);
    let low = e.fma(x.low, y.high, low);
    Pair { high, low: e.fma(x.low, y.low, low) }
}

/// a * b of a pair and a number.
pub(super) fn scale<E: Emitter>(e: &mut E, a: Pair<E::F>, b: E::F) -> Pair<E::F> {
    let p = two_product(e, a.high, b);
    let low = e.fma(a.low, b, p.low);
    fast_two_sum(e, p.high, low)
}

/// a * b of two pairs.
pub(super) fn product<E: Emitter>(e: &mut E, a: Pair<E::F>, b: Pair<E::F>) -> Pair<E::F> {
    let p = two_product(e, a.high, b.high);
    let low = e.fma(a.high, b.low, p.low);
    let low = e.fma(a.low, b.high, low);
    fast_two_sum(e, p.high, low)
}

/// a + b of two pairs where |a| >= |b| or the signs agree.
pub(super) fn sum<E: Emitter>(e: &mut E, a: Pair<E::F>, b: Pair<E::F>) -> Pair<E::F> {
    let s = two_sum(e, a.high, b.high);
    let low = e.add(a.low, b.low);
    let low = e.add(s.low, low);
    fast_two_sum(e, s.high, low)
}
