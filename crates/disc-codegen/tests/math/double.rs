//! Tests f64 against a table of exact results made with MPFR and mpmath by
//! scripts/fit/check_f64.py, with and without fused multiply-add.

use disc_codegen::math::{Emitter, MathFn, Scalar64, Scalar64NoFma};

const TABLE: &str = include_str!("f64.txt");

fn word(text: &str) -> f64 {
    f64::from_bits(u64::from_str_radix(text, 16).expect("the table holds hexadecimal words"))
}

fn f64_ulp(y: f64) -> f64 {
    let exponent = ((y.abs().to_bits() >> 52) as i64 - 1023).clamp(-1022, 1022) - 52;
    if exponent < -1022 { f64::from_bits(1 << (exponent + 1074)) } else { f64::from_bits(((exponent + 1023) as u64) << 52) }
}

/// The error in units in the last place of a magnitude; `residual` is exact minus `rounded` in
/// units of `rounded`.
fn error(got: f64, rounded: f64, residual: f64, magnitude: f64) -> f64 {
    if rounded.is_nan() || got.is_nan() {
        return if rounded.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got == rounded {
        return if rounded == 0.0 && got.is_sign_negative() != rounded.is_sign_negative() {
            f64::INFINITY
        } else {
            residual.abs()
        };
    }
    let unit = f64_ulp(rounded);
    ((got - rounded) / unit - residual).abs() * (unit / f64_ulp(magnitude))
}

fn check<E: Emitter<F = f64>>(e: &mut E, bound_of: fn(MathFn) -> f64) {
    let (mut failures, mut seen) = (Vec::new(), Vec::new());
    for line in TABLE.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let function = MathFn::from_name(fields[0]).expect("the table names functions");
        let args: Vec<f64> = fields[1..=function.arity()].iter().map(|f| word(f)).collect();
        let rounded = if fields[function.arity() + 1] == "nan" { f64::NAN } else { word(fields[function.arity() + 1]) };
        let residual: f64 = fields[function.arity() + 2].parse().expect("the residual is a number");
        let got = function.emit(e, &args);
        let error = error(got, rounded, residual, (function.bound().unit)(&args, rounded));
        if error > bound_of(function) {
            failures.push(format!("{}({args:?}) = {got:e}, exact {rounded:e}: {error:.2} ULP", function.name()));
        }
        if !seen.contains(&function) {
            seen.push(function);
        }
    }
    assert!(failures.is_empty(), "{} failures, the first:\n{}", failures.len(), failures[..failures.len().min(20)].join("\n"));
    let missing: Vec<&str> = MathFn::ALL.iter().filter(|function| !seen.contains(function)).map(|f| f.name()).collect();
    assert!(missing.is_empty(), "f64.txt has no results of {missing:?}");
}

#[test]
fn functions_keep_their_bounds() {
    check(&mut Scalar64::new(), |f| f.bound().f64);
}

#[test]
fn functions_keep_their_bounds_without_fused_multiply_add() {
    check(&mut Scalar64NoFma::new(), |f| f.bound().f64_no_fma);
}
