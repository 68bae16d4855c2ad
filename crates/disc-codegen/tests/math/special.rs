//! Tests NaN, infinities, signed zeros, denormals and limits, in all four emitters, against the C
//! conventions.

use disc_codegen::math::{Emitter, MathFn, Scalar32, Scalar32NoFma, Scalar64, Scalar64NoFma};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// (function, operands, result); the values are exact in both formats.
const CASES: &[(MathFn, &[f64], f64)] = &[
    (MathFn::Exp, &[-INF], 0.0),
    (MathFn::Exp, &[INF], INF),
    (MathFn::Exp, &[0.0], 1.0),
    (MathFn::Exp, &[-0.0], 1.0),
    (MathFn::Exp, &[800.0], INF),
    (MathFn::Exp, &[-800.0], 0.0),
    (MathFn::Exp2, &[-INF], 0.0),
    (MathFn::Exp2, &[INF], INF),
    (MathFn::Exp2, &[10.0], 1024.0),
    (MathFn::Exp2, &[-126.0], 1.1754943508222875e-38),
    (MathFn::Exp2, &[2000.0], INF),
    (MathFn::Expm1, &[-INF], -1.0),
    (MathFn::Expm1, &[INF], INF),
    (MathFn::Expm1, &[-0.0], -0.0),
    (MathFn::Expm1, &[0.0], 0.0),
    (MathFn::ExpNonpositive, &[-INF], 0.0),
    (MathFn::ExpNonpositive, &[0.0], 1.0),
    (MathFn::ExpNonpositive, &[-0.0], 1.0),
    (MathFn::ExpNonpositive, &[-800.0], 0.0),
    (MathFn::SoftmaxExp, &[-INF], 0.0),
    (MathFn::SoftmaxExp, &[0.0], 1.0),
    (MathFn::SoftmaxExp, &[-0.0], 1.0),
    (MathFn::Logistic, &[-INF], 0.0),
    (MathFn::Logistic, &[INF], 1.0),
    (MathFn::Logistic, &[0.0], 0.5),
    (MathFn::Tanh, &[-INF], -1.0),
    (MathFn::Tanh, &[INF], 1.0),
    (MathFn::Tanh, &[-0.0], -0.0),
    (MathFn::Tanh, &[0.0], 0.0),
    (MathFn::Log, &[0.0], -INF),
    (MathFn::Log, &[-0.0], -INF),
    (MathFn::Log, &[-1.0], NAN),
    (MathFn::Log, &[-INF], NAN),
    (MathFn::Log, &[INF], INF),
    (MathFn::Log, &[1.0], 0.0),
    (MathFn::Log2, &[0.0], -INF),
    (MathFn::Log2, &[-1.0], NAN),
    (MathFn::Log2, &[INF], INF),
    (MathFn::Log2, &[1.0], 0.0),
    (MathFn::Log2, &[1024.0], 10.0),
    (MathFn::Log2, &[1.401298464324817e-45], -149.0),
    (MathFn::Log10, &[0.0], -INF),
    (MathFn::Log10, &[-1.0], NAN),
    (MathFn::Log10, &[INF], INF),
    (MathFn::Log10, &[1.0], 0.0),
    (MathFn::Log10, &[1000.0], 3.0),
    (MathFn::Log1p, &[-1.0], -INF),
    (MathFn::Log1p, &[-1.5], NAN),
    (MathFn::Log1p, &[-INF], NAN),
    (MathFn::Log1p, &[INF], INF),
    (MathFn::Log1p, &[0.0], 0.0),
    (MathFn::Log1p, &[-0.0], -0.0),
    (MathFn::Erf, &[-INF], -1.0),
    (MathFn::Erf, &[INF], 1.0),
    (MathFn::Erf, &[-0.0], -0.0),
    (MathFn::Erf, &[0.0], 0.0),
    (MathFn::Erfc, &[-INF], 2.0),
    (MathFn::Erfc, &[INF], 0.0),
    (MathFn::Erfc, &[0.0], 1.0),
    (MathFn::GeluErf, &[INF], INF),
    (MathFn::GeluErf, &[-INF], NAN),
    (MathFn::GeluErf, &[0.0], 0.0),
    (MathFn::GeluErf, &[-0.0], -0.0),
    (MathFn::Rsqrt, &[0.0], INF),
    (MathFn::Rsqrt, &[-0.0], -INF),
    (MathFn::Rsqrt, &[INF], 0.0),
    (MathFn::Rsqrt, &[-1.0], NAN),
    (MathFn::Rsqrt, &[4.0], 0.5),
    (MathFn::Sin, &[0.0], 0.0),
    (MathFn::Sin, &[-0.0], -0.0),
    (MathFn::Tan, &[0.0], 0.0),
    (MathFn::Tan, &[-0.0], -0.0),
    (MathFn::Sinh, &[0.0], 0.0),
    (MathFn::Sinh, &[-0.0], -0.0),
    (MathFn::Asinh, &[0.0], 0.0),
    (MathFn::Asinh, &[-0.0], -0.0),
    (MathFn::Atanh, &[0.0], 0.0),
    (MathFn::Atanh, &[-0.0], -0.0),
    (MathFn::Asin, &[0.0], 0.0),
    (MathFn::Asin, &[-0.0], -0.0),
    (MathFn::Atan, &[0.0], 0.0),
    (MathFn::Atan, &[-0.0], -0.0),
    (MathFn::Cbrt, &[0.0], 0.0),
    (MathFn::Cbrt, &[-0.0], -0.0),
    (MathFn::Sin, &[INF], NAN),
    (MathFn::Sin, &[-INF], NAN),
    (MathFn::Cos, &[INF], NAN),
    (MathFn::Cos, &[-INF], NAN),
    (MathFn::Tan, &[INF], NAN),
    (MathFn::Tan, &[-INF], NAN),
    (MathFn::Cos, &[0.0], 1.0),
    (MathFn::Cosh, &[-0.0], 1.0),
    (MathFn::Sinh, &[INF], INF),
    (MathFn::Sinh, &[-INF], -INF),
    (MathFn::Asinh, &[INF], INF),
    (MathFn::Asinh, &[-INF], -INF),
    (MathFn::Cbrt, &[INF], INF),
    (MathFn::Cbrt, &[-INF], -INF),
    (MathFn::Cosh, &[INF], INF),
    (MathFn::Cosh, &[-INF], INF),
    (MathFn::Cosh, &[800.0], INF),
    (MathFn::Sinh, &[-800.0], -INF),
    (MathFn::Acosh, &[INF], INF),
    (MathFn::Acosh, &[1.0], 0.0),
    (MathFn::Acosh, &[0.5], NAN),
    (MathFn::Acosh, &[-INF], NAN),
    (MathFn::Atanh, &[1.0], INF),
    (MathFn::Atanh, &[-1.0], -INF),
    (MathFn::Atanh, &[1.5], NAN),
    (MathFn::Atanh, &[-INF], NAN),
    (MathFn::Atanh, &[INF], NAN),
    (MathFn::Asin, &[1.5], NAN),
    (MathFn::Asin, &[-1.5], NAN),
    (MathFn::Asin, &[INF], NAN),
    (MathFn::Asin, &[-INF], NAN),
    (MathFn::Acos, &[1.5], NAN),
    (MathFn::Acos, &[-1.5], NAN),
    (MathFn::Acos, &[INF], NAN),
    (MathFn::Acos, &[-INF], NAN),
    (MathFn::Acos, &[1.0], 0.0),
    (MathFn::Cbrt, &[27.0], 3.0),
    (MathFn::Cbrt, &[-8.0], -2.0),
    (MathFn::Atan2, &[0.0, 0.0], 0.0),
    (MathFn::Atan2, &[-0.0, 0.0], -0.0),
    (MathFn::Atan2, &[0.0, 1.0], 0.0),
    (MathFn::Atan2, &[-0.0, 1.0], -0.0),
    (MathFn::Atan2, &[0.0, INF], 0.0),
    (MathFn::Atan2, &[-1.0, INF], -0.0),
    (MathFn::Atan2, &[NAN, 1.0], NAN),
    (MathFn::Atan2, &[1.0, NAN], NAN),
    (MathFn::Pow, &[2.0, 0.0], 1.0),
    (MathFn::Pow, &[NAN, 0.0], 1.0),
    (MathFn::Pow, &[NAN, -0.0], 1.0),
    (MathFn::Pow, &[INF, 0.0], 1.0),
    (MathFn::Pow, &[1.0, NAN], 1.0),
    (MathFn::Pow, &[1.0, -INF], 1.0),
    (MathFn::Pow, &[-1.0, INF], 1.0),
    (MathFn::Pow, &[-1.0, -INF], 1.0),
    (MathFn::Pow, &[NAN, 1.0], NAN),
    (MathFn::Pow, &[2.0, NAN], NAN),
    (MathFn::Pow, &[-1.0, NAN], NAN),
    (MathFn::Pow, &[0.0, 1.0], 0.0),
    (MathFn::Pow, &[-0.0, 3.0], -0.0),
    (MathFn::Pow, &[-0.0, 2.0], 0.0),
    (MathFn::Pow, &[-0.0, 0.5], 0.0),
    (MathFn::Pow, &[0.0, -1.0], INF),
    (MathFn::Pow, &[-0.0, -1.0], -INF),
    (MathFn::Pow, &[-0.0, -2.0], INF),
    (MathFn::Pow, &[-0.0, -0.5], INF),
    (MathFn::Pow, &[0.0, -INF], INF),
    (MathFn::Pow, &[-0.0, -INF], INF),
    (MathFn::Pow, &[0.0, INF], 0.0),
    (MathFn::Pow, &[0.5, INF], 0.0),
    (MathFn::Pow, &[0.5, -INF], INF),
    (MathFn::Pow, &[2.0, INF], INF),
    (MathFn::Pow, &[2.0, -INF], 0.0),
    (MathFn::Pow, &[-2.0, INF], INF),
    (MathFn::Pow, &[-0.5, -INF], INF),
    (MathFn::Pow, &[INF, 2.0], INF),
    (MathFn::Pow, &[INF, -2.0], 0.0),
    (MathFn::Pow, &[-INF, 3.0], -INF),
    (MathFn::Pow, &[-INF, 2.0], INF),
    (MathFn::Pow, &[-INF, 0.5], INF),
    (MathFn::Pow, &[-INF, -3.0], -0.0),
    (MathFn::Pow, &[-INF, -2.0], 0.0),
    (MathFn::Pow, &[-INF, -0.5], 0.0),
    (MathFn::Pow, &[-2.0, 3.0], -8.0),
    (MathFn::Pow, &[-2.0, 2.0], 4.0),
    (MathFn::Pow, &[-2.0, 0.5], NAN),
    (MathFn::Pow, &[-8.0, 0.3], NAN),
    (MathFn::Pow, &[2.0, 10.0], 1024.0),
    (MathFn::Pow, &[3.0, 2.0], 9.0),
    (MathFn::Pow, &[4.0, 0.5], 2.0),
    (MathFn::Pow, &[10.0, 400.0], INF),
    (MathFn::Pow, &[10.0, -400.0], 0.0),
    (MathFn::Pow, &[-10.0, 401.0], -INF),
    (MathFn::Pow, &[2.0, -126.0], 1.1754943508222875e-38),
    (MathFn::Fmod, &[5.0, 3.0], 2.0),
    (MathFn::Fmod, &[-5.0, 3.0], -2.0),
    (MathFn::Fmod, &[5.0, -3.0], 2.0),
    (MathFn::Fmod, &[6.0, 3.0], 0.0),
    (MathFn::Fmod, &[-6.0, 3.0], -0.0),
    (MathFn::Fmod, &[0.0, 3.0], 0.0),
    (MathFn::Fmod, &[-0.0, 3.0], -0.0),
    (MathFn::Fmod, &[1.0, 0.0], NAN),
    (MathFn::Fmod, &[INF, 2.0], NAN),
    (MathFn::Fmod, &[-INF, 2.0], NAN),
    (MathFn::Fmod, &[2.0, INF], 2.0),
    (MathFn::Fmod, &[-2.0, INF], -2.0),
    (MathFn::Fmod, &[INF, INF], NAN),
    (MathFn::Fmod, &[NAN, 1.0], NAN),
    (MathFn::Fmod, &[1.0, NAN], NAN),
    (MathFn::Fmod, &[0.0, 0.0], NAN),
    (MathFn::NextAfter, &[1.0, 1.0], 1.0),
    (MathFn::NextAfter, &[0.0, -0.0], -0.0),
    (MathFn::NextAfter, &[NAN, 1.0], NAN),
    (MathFn::NextAfter, &[1.0, NAN], NAN),
    (MathFn::NextAfter, &[INF, INF], INF),
    (MathFn::ErfInv, &[1.0], INF),
    (MathFn::ErfInv, &[-1.0], -INF),
    (MathFn::ErfInv, &[0.0], 0.0),
    (MathFn::ErfInv, &[-0.0], -0.0),
    (MathFn::ErfInv, &[1.5], NAN),
    (MathFn::ErfInv, &[-1.5], NAN),
    (MathFn::ErfInv, &[INF], NAN),
    (MathFn::Lgamma, &[1.0], 0.0),
    (MathFn::Lgamma, &[2.0], 0.0),
    (MathFn::Lgamma, &[0.0], INF),
    (MathFn::Lgamma, &[-0.0], INF),
    (MathFn::Lgamma, &[-1.0], INF),
    (MathFn::Lgamma, &[-3.0], INF),
    (MathFn::Lgamma, &[INF], INF),
    (MathFn::Lgamma, &[-INF], INF),
    (MathFn::Lgamma, &[-1e30], INF),
    (MathFn::Digamma, &[0.0], -INF),
    (MathFn::Digamma, &[-0.0], INF),
    (MathFn::Digamma, &[-1.0], NAN),
    (MathFn::Digamma, &[-5.0], NAN),
    (MathFn::Digamma, &[INF], INF),
    (MathFn::Digamma, &[-INF], NAN),
    (MathFn::Digamma, &[-1e30], NAN),
    (MathFn::BesselI1e, &[0.0], 0.0),
    (MathFn::BesselI1e, &[-0.0], -0.0),
    (MathFn::BesselI1e, &[INF], 0.0),
    (MathFn::BesselI1e, &[-INF], -0.0),
    (MathFn::Zeta, &[1.0, 2.0], INF),
    (MathFn::Zeta, &[0.5, 2.0], NAN),
    (MathFn::Zeta, &[-1.0, 2.0], NAN),
    (MathFn::Zeta, &[2.0, 0.0], INF),
    (MathFn::Zeta, &[2.0, -3.0], INF),
    (MathFn::Zeta, &[2.5, -3.5], NAN),
    (MathFn::Zeta, &[NAN, 2.0], NAN),
    (MathFn::Zeta, &[2.0, NAN], NAN),
    (MathFn::Zeta, &[2.0, INF], 0.0),
    (MathFn::Zeta, &[INF, 1.0], 1.0),
    (MathFn::Zeta, &[INF, 2.0], 0.0),
    (MathFn::Zeta, &[3.0, -2000.0], INF),
    (MathFn::Zeta, &[3.0, -2000.5], NAN),
    (MathFn::Polygamma, &[1.5, 2.0], NAN),
    (MathFn::Polygamma, &[-1.0, 2.0], NAN),
    (MathFn::Polygamma, &[NAN, 2.0], NAN),
    (MathFn::Polygamma, &[1.0, NAN], NAN),
    (MathFn::Polygamma, &[0.0, -1.0], NAN),
    (MathFn::Polygamma, &[1.0, 0.0], INF),
    (MathFn::Polygamma, &[1.0, -2.0], INF),
];

/// Functions f with f(x) = x, or nearly, for the smallest x: denormals must be preserved.
const NEAR_IDENTITY: &[MathFn] = &[
    MathFn::Expm1,
    MathFn::Tanh,
    MathFn::Log1p,
    MathFn::Sin,
    MathFn::Tan,
    MathFn::Asin,
    MathFn::Atan,
    MathFn::Sinh,
    MathFn::Asinh,
    MathFn::Atanh,
];

fn same(got: f64, expected: f64) -> bool {
    if expected.is_nan() { got.is_nan() } else { got == expected && got.is_sign_negative() == expected.is_sign_negative() }
}

fn check<E: Emitter>(e: &mut E, widen: fn(E::F) -> f64, denormals: &[f64]) {
    let mut failures = Vec::new();
    let mut expect = |e: &mut E, function: MathFn, args: &[f64], expected: f64| {
        let operands: Vec<E::F> = args.iter().map(|&a| e.f(a)).collect();
        let got = widen(function.emit(e, &operands));
        if !same(got, expected) {
            failures.push(format!("{}({args:?}) = {got:e}, not {expected:e}", function.name()));
        }
    };
    for &(function, args, expected) in CASES {
        expect(e, function, args, expected);
    }
    for &function in MathFn::ALL.iter().filter(|f| f.arity() == 1) {
        expect(e, function, &[NAN], NAN);
        expect(e, function, &[-NAN], NAN);
    }
    for &function in NEAR_IDENTITY {
        for &x in denormals {
            expect(e, function, &[x], x);
            expect(e, function, &[-x], -x);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

const DENORMALS_32: [f64; 3] = [1.401298464324817e-45, 4.203895392974451e-45, 1.1754942106924411e-38];
const DENORMALS_64: [f64; 3] = [5e-324, 1.5e-323, 2.225073858507201e-308];

#[test]
fn special_values_f32() {
    check(&mut Scalar32::new(), f64::from, &DENORMALS_32);
}

#[test]
fn special_values_f32_without_fused_multiply_add() {
    check(&mut Scalar32NoFma::new(), f64::from, &DENORMALS_32);
}

#[test]
fn special_values_f64() {
    check(&mut Scalar64::new(), |y| y, &DENORMALS_64);
}

#[test]
fn special_values_f64_without_fused_multiply_add() {
    check(&mut Scalar64NoFma::new(), |y| y, &DENORMALS_64);
}
