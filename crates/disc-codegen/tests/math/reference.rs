//! Provides the references of the math functions, and measures errors.
//!
//! - f32 results are compared with an f64 computation: its own error, below 2^-45 relative, does
//!   not show in the figures.
//! - That computation is Rust's f64 method (the C library's) if there is one, otherwise this
//!   crate's f64 version, which scripts/fit/check_f64.py compares with MPFR or mpmath, and
//!   tests/math/f64.rs with a table made by it.

use disc_codegen::math::{MathFn, Scalar64};

/// The f64 reference of an f32 function.
pub(crate) fn reference(function: MathFn, args: &[f64]) -> f64 {
    let x = args[0];
    match function {
        MathFn::Exp | MathFn::ExpNonpositive => x.exp(),
        MathFn::Exp2 => x.exp2(),
        MathFn::Expm1 => x.exp_m1(),
        MathFn::Logistic if x < 0.0 => x.exp() / (1.0 + x.exp()),
        MathFn::Logistic => 1.0 / (1.0 + (-x).exp()),
        MathFn::SoftmaxExp if x > -87.0 || x.is_nan() => x.exp(),
        MathFn::SoftmaxExp if x < -87.7 => 0.0,
        MathFn::Tanh => x.tanh(),
        MathFn::Log => x.ln(),
        MathFn::Log2 => x.log2(),
        MathFn::Log10 => x.log10(),
        MathFn::Log1p => x.ln_1p(),
        MathFn::Rsqrt => 1.0 / x.sqrt(),
        MathFn::Sinh => x.sinh(),
        MathFn::Cosh => x.cosh(),
        // Rust computes the inverse hyperbolic functions itself, less accurately near zero than the
        // formulas with ln_1p.
        MathFn::Asinh if x.abs() < 0.5 => {
            let square = x * x;
            (x.abs() + square / (1.0 + (1.0 + square).sqrt())).ln_1p().copysign(x)
        }
        MathFn::Asinh => x.asinh(),
        MathFn::Acosh if (1.0..1.5).contains(&x) => {
            let t = x - 1.0;
            (t + (2.0 * t + t * t).sqrt()).ln_1p()
        }
        MathFn::Acosh => x.acosh(),
        MathFn::Atanh => 0.5 * (2.0 * x / (1.0 - x)).ln_1p(),
        MathFn::Sin => x.sin(),
        MathFn::Cos => x.cos(),
        MathFn::Tan => x.tan(),
        MathFn::Asin => x.asin(),
        MathFn::Acos => x.acos(),
        MathFn::Atan => x.atan(),
        MathFn::Atan2 => x.atan2(args[1]),
        MathFn::Cbrt => x.cbrt(),
        MathFn::Pow => x.powf(args[1]),
        MathFn::Fmod => x % args[1],
        MathFn::NextAfter => f64::from(next_after(x as f32, args[1] as f32)),
        other => other.emit(&mut Scalar64::new(), args),
    }
}

/// The neighbour of x towards y, by Rust's own steps.
fn next_after(x: f32, y: f32) -> f32 {
    match x.partial_cmp(&y) {
        None => f32::NAN,
        Some(std::cmp::Ordering::Equal) => y,
        Some(std::cmp::Ordering::Less) if x == 0.0 => f32::from_bits(1),
        Some(std::cmp::Ordering::Greater) if x == 0.0 => -f32::from_bits(1),
        Some(std::cmp::Ordering::Less) => x.next_up(),
        Some(std::cmp::Ordering::Greater) => x.next_down(),
    }
}

/// Operands that are meaningful for the function, made of arbitrary ones: small orders and
/// exponents.
pub(crate) fn shaped(function: MathFn, args: [f32; 2]) -> [f32; 2] {
    let small = |x: f32, n: u32| (x.to_bits() >> 7) % n;
    match function {
        MathFn::Polygamma => [small(args[0], 8) as f32, args[1]],
        MathFn::Zeta => [1.0 + small(args[0], 4096) as f32 / 256.0, args[1]],
        _ => args,
    }
}

/// Returns true if the function is defined there for the measurement; elsewhere its contract makes
/// no claim.
pub(crate) fn in_domain(function: MathFn, args: &[f64]) -> bool {
    match function {
        // The factor zeta(n + 1, x) must be a normal number.
        MathFn::Polygamma => args[0] == 0.0 || in_domain(MathFn::Zeta, args) && reference(function, args).abs() >= 1e-33,
        // Terms of both signs cancel for negative operands; the poles there are exact.
        MathFn::Zeta => args[1] > 0.0 || args[1].floor() == args[1],
        MathFn::SoftmaxExp => args[0] <= 0.0 && !(-87.7..=-87.0).contains(&args[0]) || args[0].is_nan(),
        MathFn::ExpNonpositive => args[0] <= 0.0 || args[0].is_nan(),
        _ => true,
    }
}

/// The magnitude in whose unit in the last place the error is measured, at least the result's.
pub(crate) fn scale(function: MathFn, args: &[f64], expected: f64) -> f64 {
    match function {
        MathFn::GeluErf => expected.abs().max(args[0].abs() / 2.0),
        // The terms of the reflection, which cancel at the zeros between the poles.
        MathFn::Lgamma if args[0] < 0.0 => expected.abs().max(reference(function, &[-args[0]]).abs()).max(1.0),
        MathFn::Digamma if args[0] < 0.0 => expected.abs().max(reference(function, &[-args[0]]).abs()).max(1.0),
        MathFn::Digamma => expected.abs().max(1.0),
        MathFn::Polygamma if args[0] == 0.0 => scale(MathFn::Digamma, &args[1..], expected),
        _ => expected.abs(),
    }
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
    (got - expected).abs() / f32_ulp(scale(function, args, expected))
}
