//! NaN, infinities, signed zeros, denormals and limits, in all four emitters, against the C conventions.

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
];

/// Functions f with f(x) = x, or nearly, for the smallest x: denormals must come through.
const NEAR_IDENTITY: &[MathFn] = &[MathFn::Expm1, MathFn::Tanh, MathFn::Log1p];

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
