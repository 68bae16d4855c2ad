//! Element-wise ops: generated programs of one op each.
use super::*;

/// One op on vectors of one element type.
fn row(op: &str, dtype: &'static str, operands: &[&[f64]], result: &'static str, wanted: &[f64]) -> Case {
    let n = wanted.len();
    let ty = |dtype: &str| format!("tensor<[N]x{dtype}>");
    let parameters: Vec<String> = (0..operands.len()).map(|i| format!("%x{i}: {}", ty(dtype))).collect();
    let names: Vec<String> = (0..operands.len()).map(|i| format!("%x{i}")).collect();
    let (op, attrs) = op.split_once(' ').unwrap_or((op, ""));
    let types: Vec<String> = operands.iter().map(|_| ty(dtype)).collect();
    let line = format!("{op} {attrs}{}: ({}) -> {}", names.join(", ") + " ", types.join(", "), ty(result));
    let text = format!("func @main({}) -> {} {{\n%r = {line}\nreturn %r : {}\n}}", parameters.join(", "), ty(result), ty(result));
    let sized = |dtype: &str| -> &'static str { format!("{n}x{dtype}").leak() };
    let inputs = operands.iter().map(|x| (sized(dtype), x.to_vec())).collect();
    Case { name: format!("{op} on {dtype}"), text, inputs, outputs: vec![(sized(result), wanted.to_vec())] }
}

fn unary(op: &str, dtype: &'static str, x: &[f64], wanted: &[f64]) -> Case {
    row(op, dtype, &[x], dtype, wanted)
}

fn binary(op: &str, dtype: &'static str, a: &[f64], b: &[f64], wanted: &[f64]) -> Case {
    row(op, dtype, &[a, b], dtype, wanted)
}

pub(super) fn cases() -> Vec<Case> {
    [functions(), rounding_and_signs(), arithmetic(), bits(), comparisons(), conversions(), sizes()]
        .into_iter()
        .flatten()
        .collect()
}

/// Functions at arguments with known exact values, and at the ends of their domains.
fn functions() -> Vec<Case> {
    use std::f64::consts::{E, FRAC_PI_2, LN_2, PI};
    vec![
        unary("acos", "f32", &[1.0, -1.0, 2.0, NAN], &[0.0, PI, NAN, NAN]),
        unary("acosh", "f32", &[1.0, 0.5, INF], &[0.0, NAN, INF]),
        unary("asin", "f64", &[0.0, 1.0, -1.5], &[0.0, FRAC_PI_2, NAN]),
        unary("asinh", "f32", &[0.0, -0.0, -INF], &[0.0, -0.0, -INF]),
        unary("atan", "f32", &[INF, -INF, 0.0], &[FRAC_PI_2, -FRAC_PI_2, 0.0]),
        unary("atanh", "f32", &[0.0, 1.0, -1.0, 2.0], &[0.0, INF, -INF, NAN]),
        unary("bessel_i1e", "f32", &[0.0, 1.0], &[0.0, 0.207_910_415_349_708_48]),
        unary("cbrt", "f32", &[27.0, -8.0, INF], &[3.0, -2.0, INF]),
        unary("cosh", "f32", &[0.0, -INF], &[1.0, INF]),
        unary("cosine", "f32", &[0.0, INF], &[1.0, NAN]),
        unary("digamma", "f32", &[1.0, 0.0, -1.0], &[-0.577_215_664_901_532_9, -INF, NAN]),
        unary("erf", "f32", &[0.0, INF, -INF, 1.0], &[0.0, 1.0, -1.0, 0.842_700_792_949_714_9]),
        unary("erf_inv", "f32", &[0.0, 1.0, -2.0], &[0.0, INF, NAN]),
        unary("erfc", "f32", &[0.0, INF, -INF], &[1.0, 0.0, 2.0]),
        unary("exponential", "f32", &[0.0, 1.0, -INF, INF, 100.0, NAN], &[1.0, E, 0.0, INF, INF, NAN]),
        unary("exponential", "f16", &[1.0, 12.0], &[E, INF]),
        unary("exponential_minus_one", "f32", &[0.0, 1e-10, -INF], &[0.0, 1e-10, -1.0]),
        unary("lgamma", "f32", &[1.0, 3.0, 0.0, INF], &[0.0, LN_2, INF, INF]),
        unary("log", "f32", &[1.0, 2.0, 0.0, -1.0], &[0.0, LN_2, -INF, NAN]),
        unary("log_plus_one", "f32", &[0.0, 1e-10, -1.0], &[0.0, 1e-10, -INF]),
        unary("logistic", "f32", &[0.0, INF, -INF, NAN], &[0.5, 1.0, 0.0, NAN]),
        unary("rsqrt", "f32", &[4.0, 0.0, -1.0, INF], &[0.5, INF, NAN, 0.0]),
        unary("sine", "f32", &[0.0, INF], &[0.0, NAN]),
        unary("sinh", "f32", &[0.0, -INF], &[0.0, -INF]),
        unary("sqrt", "bf16", &[4.0, 2.0, -1.0], &[2.0, 1.414_062_5, NAN]),
        unary("tan", "f32", &[0.0, INF], &[0.0, NAN]),
        unary("tanh", "f32", &[0.0, INF, -INF], &[0.0, 1.0, -1.0]),
        binary("atan2", "f32", &[0.0, 1.0, 0.0, -0.0], &[1.0, 0.0, -1.0, -1.0], &[0.0, FRAC_PI_2, PI, -PI]),
        binary("polygamma", "f32", &[0.0, 1.0, 1.5], &[1.0, 1.0, 1.0], &[-0.577_215_664_901_532_9, PI * PI / 6.0, NAN]),
        binary("zeta", "f32", &[2.0, 1.0, 0.5], &[1.0, 1.0, 1.0], &[PI * PI / 6.0, INF, NAN]),
    ]
}

fn rounding_and_signs() -> Vec<Case> {
    let halves = [-2.5, -1.5, -0.5, 0.5, 1.5, NAN];
    vec![
        unary("abs", "f32", &[-1.0, -0.0, -INF], &[1.0, 0.0, INF]),
        unary("abs", "i8", &[-1.0, -128.0], &[1.0, -128.0]),
        unary("ceil", "f32", &halves, &[-2.0, -1.0, -0.0, 1.0, 2.0, NAN]),
        unary("floor", "f32", &halves, &[-3.0, -2.0, -1.0, 0.0, 1.0, NAN]),
        unary("round_nearest_afz", "f32", &halves, &[-3.0, -2.0, -1.0, 1.0, 2.0, NAN]),
        unary("round_nearest_even", "f32", &halves, &[-2.0, -2.0, -0.0, 0.0, 2.0, NAN]),
        unary("negate", "f32", &[0.0, -1.0], &[-0.0, 1.0]),
        unary("negate", "i8", &[-128.0, 5.0], &[-128.0, -5.0]),
        unary("negate", "u8", &[1.0], &[255.0]),
        unary("sign", "f32", &[-3.0, -0.0, NAN, INF], &[-1.0, -0.0, NAN, 1.0]),
        unary("sign", "i32", &[-3.0, 0.0, 3.0], &[-1.0, 0.0, 1.0]),
        binary(
            "next_after",
            "f32",
            &[1.0, 1.0, 0.0, NAN],
            &[2.0, 1.0, -1.0, 1.0],
            &[1.0 + 2f64.powi(-23), 1.0, -(2f64.powi(-149)), NAN],
        ),
        binary("next_after", "f64", &[1.0], &[0.0], &[1.0 - 2f64.powi(-53)]),
    ]
}

fn arithmetic() -> Vec<Case> {
    vec![
        binary("add", "f32", &[1.0, INF, 16_777_216.0], &[2.0, -INF, 1.0], &[3.0, NAN, 16_777_216.0]),
        binary("add", "f16", &[2048.0, 65504.0], &[1.0, 65504.0], &[2048.0, INF]),
        binary("add", "i8", &[127.0], &[1.0], &[-128.0]),
        binary("subtract", "u8", &[0.0], &[1.0], &[255.0]),
        binary("subtract", "f32", &[1.0], &[0.1f32.into()], &[(1.0f32 - 0.1).into()]),
        binary("multiply", "bf16", &[1.5, INF], &[1.5, 0.0], &[2.25, NAN]),
        binary("multiply", "i32", &[65536.0], &[65536.0], &[0.0]),
        binary("divide", "f32", &[1.0, 1.0, 0.0], &[3.0, 0.0, 0.0], &[(1f32 / 3.0).into(), INF, NAN]),
        binary("divide", "i8", &[-7.0, 7.0, -128.0], &[2.0, 0.0, -1.0], &[-3.0, 0.0, -128.0]),
        binary("remainder", "f32", &[-7.0, 7.0, 1.0], &[2.0, INF, 0.0], &[-1.0, 7.0, NAN]),
        binary("remainder", "i32", &[-7.0, 7.0], &[2.0, 0.0], &[-1.0, 7.0]),
        binary("power", "f32", &[2.0, -2.0, -8.0, 0.0, NAN], &[10.0, 3.0, 0.5, 0.0, 0.0], &[1024.0, -8.0, NAN, 1.0, 1.0]),
        binary("power", "i32", &[2.0, 2.0, -1.0], &[10.0, -1.0, -3.0], &[1024.0, 0.0, -1.0]),
        binary("maximum", "f32", &[1.0, NAN, -0.0], &[2.0, 1.0, 0.0], &[2.0, NAN, -0.0]),
        binary("minimum", "f32", &[1.0, 1.0, 0.0], &[2.0, NAN, -0.0], &[1.0, NAN, 0.0]),
        binary("maximum", "u8", &[200.0], &[100.0], &[200.0]),
        binary("minimum", "i1", &[1.0, 1.0], &[1.0, 0.0], &[1.0, 0.0]),
    ]
}

fn bits() -> Vec<Case> {
    vec![
        binary("and", "i1", &[0.0, 1.0], &[1.0, 1.0], &[0.0, 1.0]),
        binary("or", "u8", &[12.0], &[10.0], &[14.0]),
        binary("xor", "i8", &[-1.0, 5.0], &[5.0, 5.0], &[-6.0, 0.0]),
        unary("not", "i1", &[0.0, 1.0], &[1.0, 0.0]),
        unary("not", "u8", &[1.0], &[254.0]),
        unary("not", "i32", &[0.0], &[-1.0]),
        unary("popcnt", "i8", &[-1.0, 5.0], &[8.0, 2.0]),
        unary("count_leading_zeros", "u16", &[0.0, 1.0, 65535.0], &[16.0, 15.0, 0.0]),
        binary("shift_left", "i8", &[1.0, 1.0, 1.0], &[3.0, 7.0, 8.0], &[8.0, -128.0, 0.0]),
        binary("shift_right_arithmetic", "i8", &[-8.0, -8.0], &[1.0, 9.0], &[-4.0, -1.0]),
        binary("shift_right_logical", "i8", &[-8.0, -8.0], &[1.0, 8.0], &[124.0, 0.0]),
    ]
}

fn comparisons() -> Vec<Case> {
    let (a, b) = ([1.0, 2.0, NAN, -0.0], [2.0, 2.0, NAN, 0.0]);
    let compare = |direction: &str, wanted: &[f64]| row(&format!("compare {direction}, "), "f32", &[&a, &b], "i1", wanted);
    vec![
        compare("EQ", &[0.0, 1.0, 0.0, 1.0]),
        compare("NE", &[1.0, 0.0, 1.0, 0.0]),
        compare("LT", &[1.0, 0.0, 0.0, 0.0]),
        compare("LE", &[1.0, 1.0, 0.0, 1.0]),
        compare("GT", &[0.0, 0.0, 0.0, 0.0]),
        compare("GE", &[0.0, 1.0, 0.0, 1.0]),
        row("compare LT, ", "u64", &[&[1.0], &[18446744073709549568.0]], "i1", &[1.0]),
        row("is_finite", "f32", &[&[1.0, INF, NAN]], "i1", &[1.0, 0.0, 0.0]),
        row("is_inf", "f32", &[&[1.0, -INF, NAN]], "i1", &[0.0, 1.0, 0.0]),
        row("is_nan", "f16", &[&[1.0, INF, NAN]], "i1", &[0.0, 0.0, 1.0]),
        row("clamp", "f32", &[&[0.0, 0.0, NAN], &[-1.0, NAN, 1.0], &[1.0, 1.0, 1.0]], "f32", &[0.0, NAN, NAN]),
        row("clamp", "i8", &[&[3.0, 0.0], &[5.0, 5.0], &[1.0, 9.0]], "i8", &[1.0, 5.0]),
        case(
            "select",
            "(%p: tensor<[N]xi1>, %a: tensor<[N]xf32>, %b: tensor<[N]xf32>) -> tensor<[N]xf32>",
            "%r = select %p, %a, %b : (tensor<[N]xi1>, tensor<[N]xf32>, tensor<[N]xf32>) -> tensor<[N]xf32>\nreturn %r : tensor<[N]xf32>",
            &[("2xi1", &[1.0, 0.0]), ("2xf32", &[1.0, 2.0]), ("2xf32", &[NAN, NAN])],
            &[("2xf32", &[1.0, NAN])],
        ),
    ]
}

fn conversions() -> Vec<Case> {
    let convert = |from, to, x: &[f64], wanted: &[f64]| row("convert", from, &[x], to, wanted);
    vec![
        convert("f32", "i8", &[1.9, -1.9, 200.0, -INF, NAN], &[1.0, -1.0, 127.0, -128.0, 0.0]),
        convert("f32", "u8", &[-1.0, 300.0, NAN], &[0.0, 255.0, 0.0]),
        convert("f64", "i64", &[1e300, -1e300], &[9223372036854775807.0, -9223372036854775808.0]),
        convert("f32", "i1", &[0.0, -0.0, 0.5, NAN], &[0.0, 0.0, 1.0, 1.0]),
        convert("i32", "i8", &[300.0, -1.0], &[44.0, -1.0]),
        convert("i8", "u32", &[-1.0], &[4294967295.0]),
        convert("i1", "f32", &[0.0, 1.0], &[0.0, 1.0]),
        convert("i32", "f32", &[16_777_217.0], &[16_777_216.0]),
        convert("f64", "f32", &[1e300, 1e-300], &[INF, 0.0]),
        convert("f32", "bf16", &[1.003_906_25, 1.011_718_75], &[1.0, 1.015_625]),
        row("bitcast_convert", "f32", &[&[1.0, -0.0]], "i32", &[1_065_353_216.0, -2_147_483_648.0]),
        row("bitcast_convert", "i8", &[&[-1.0]], "u8", &[255.0]),
    ]
}

fn sizes() -> Vec<Case> {
    vec![
        binary("add", "f32", &[], &[], &[]),
        case(
            "add of scalars",
            "(%a: tensor<f32>) -> tensor<f32>",
            "%r = add %a, %a : tensor<f32>\nreturn %r : tensor<f32>",
            &[("f32", &[2.0])],
            &[("f32", &[4.0])],
        ),
    ]
}
