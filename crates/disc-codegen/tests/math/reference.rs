//! Makes operands for the math functions, and measures errors of f32.
//!
//! f32 results are compared with [`MathFn::exact`] in f64, whose own error, below 2^-45 relative,
//! does not show in the figures.

use disc_codegen::math::MathFn;
use disc_ir::ops::Domain;

/// Operands on which the function is tried, made of arbitrary ones: small orders and exponents.
pub(crate) fn shaped(function: MathFn, [x, y]: [f32; 2]) -> [f32; 2] {
    let small = |n: u32| (x.to_bits() >> 7) % n;
    let x = match function.drawn()[0] {
        Domain::All => x,
        Domain::Orders => small(8) as f32,
        Domain::AboveOne => 1.0 + small(4096) as f32 / 256.0,
    };
    [x, y]
}

/// The unit in the last place of f32 at a magnitude.
fn f32_ulp(magnitude: f64) -> f64 {
    let exponent = ((magnitude.to_bits() >> 52) as i64 - 1023).clamp(-126, 127);
    f64::from_bits(((exponent - 23 + 1023) as u64) << 52)
}

/// The error of an f32 result in units in the last place; infinite where NaN, infinity or the sign
/// of zero is wrong.
pub(crate) fn f32_error(function: MathFn, args: &[f64], got: f32, expected: f64) -> f64 {
    if expected.is_nan() || got.is_nan() {
        return if expected.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if expected == 0.0 && got == 0.0 && expected.is_sign_negative() != got.is_sign_negative() {
        return f64::INFINITY;
    }
    // Infinity counts as the first power of two that is not representable.
    let limit = 2f64.powi(128);
    let expected = expected.clamp(-limit, limit);
    let got = f64::from(got).clamp(-limit, limit);
    (got - expected).abs() / f32_ulp((function.bound().unit)(args, expected))
}
