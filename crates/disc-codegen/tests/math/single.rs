//! Tests f32: a stratified sample of every function against f64, with and without fused
//! multiply-add.
//!
//! The full sweep is `cargo run --release -p disc-codegen --example ulp -- NAME`.

use crate::reference::{f32_error, shaped};
use disc_codegen::math::{Emitter, MathFn, Scalar32, Scalar32NoFma};
use disc_ir::ops::Domain;

/// The words that step through all exponents of both signs, and the neighbours of round numbers.
fn sample() -> Vec<f32> {
    let mut xs: Vec<f32> = (0..15_000u32).map(|i| f32::from_bits(i.wrapping_mul(286_331))).collect();
    xs.extend((-4_000i32..=4_000).map(|i| i as f32 * 0.0078125 + i as f32 * 1e-5));
    for center in [0.0f32, 1.0, 0.5, 2.0, 3.0, 88.72284, -87.33655, -103.97208, 128.0, -126.0, -149.0, 1e-38, 3.9, 10.05] {
        xs.extend((-8i32..=8).map(|d| f32::from_bits((center.to_bits() as i32).saturating_add(d) as u32)));
    }
    xs
}

fn check<E: Emitter<F = f32>>(e: &mut E, function: MathFn, bound: f64, args: &[f32], failures: &mut Vec<String>) {
    let shaped = if let [x, y] = *args { shaped(function, [x, y]).to_vec() } else { args.to_vec() };
    let args = shaped.as_slice();
    let wide: Vec<f64> = args.iter().map(|&a| f64::from(a)).collect();
    if !(function.bound().holds)(&wide) {
        return;
    }
    let (got, expected) = (function.emit(e, args), function.exact(&wide));
    let error = f32_error(function, &wide, got, expected);
    if error > bound {
        failures
            .push(format!("{}({args:?}) = {got:e}, exact {expected:e}: {error:.2} ULP, the bound is {bound}", function.name()));
    }
}

#[test]
fn unary_functions_keep_their_bounds() {
    let (xs, mut failures) = (sample(), Vec::new());
    for &function in MathFn::ALL.iter().filter(|f| f.arity() == 1) {
        let bound = function.bound();
        for &x in &xs {
            check(&mut Scalar32::new(), function, bound.f32, &[x], &mut failures);
            check(&mut Scalar32NoFma::new(), function, bound.f32_no_fma, &[x], &mut failures);
        }
    }
    assert!(failures.is_empty(), "{} failures, the first:\n{}", failures.len(), failures[..failures.len().min(20)].join("\n"));
}

#[test]
fn binary_functions_keep_their_bounds() {
    let mut failures = Vec::new();
    let round: Vec<f32> =
        [0.0, 1e-45, 1e-38, 0.1, 0.5, 0.999_999_94, 1.0, 1.000_000_1, 1.5, 2.0, 3.0, 10.0, 127.5, 1e6, 16_777_217.0, 1e20, 3e38]
            .into_iter()
            .chain([f32::INFINITY, f32::NAN])
            .flat_map(|x: f32| [x, -x])
            .collect();
    let sparse: Vec<f32> = sample().into_iter().step_by(331).collect();
    for &function in MathFn::ALL.iter().filter(|f| f.arity() == 2) {
        let bound = function.bound();
        // Functions with an order are sums of ten powers: fewer operands are tried.
        let step = if function.drawn()[0] == Domain::All { 1 } else { 5 };
        for (xs, ys) in [(&round, &round), (&round, &sparse), (&sparse, &round), (&sparse, &sparse)] {
            for &x in xs {
                for &y in ys.iter().step_by(step) {
                    check(&mut Scalar32::new(), function, bound.f32, &[x, y], &mut failures);
                    check(&mut Scalar32NoFma::new(), function, bound.f32_no_fma, &[x, y], &mut failures);
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures, the first:\n{}", failures.len(), failures[..failures.len().min(20)].join("\n"));
}
