//! Reductions and scans.
use super::*;

/// A reduction of a matrix of one element type.
fn matrix(body: &str, dtype: &str, dims: &str, init: f64, input: (&'static str, &[f64]), output: (&'static str, &[f64])) -> Case {
    let kept = match dims {
        "[0]" => "[N]x",
        "[1]" => "[M]x",
        "[]" => "[M]x[N]x",
        _ => "",
    };
    let types = format!("(tensor<[M]x[N]x{dtype}>, tensor<{dtype}>) -> tensor<{kept}{dtype}>");
    let signature = format!("(%x: tensor<[M]x[N]x{dtype}>, %z: tensor<{dtype}>) -> tensor<{kept}{dtype}>");
    let ops = format!("%r = reduce %x, %z, dims = {dims} : {types} {body}\nreturn %r : tensor<{kept}{dtype}>");
    case(body, &signature, &ops, &[input, (dtype.to_owned().leak(), &[init])], &[output])
}

pub(super) fn cases() -> Vec<Case> {
    [sums(), others(), arguments(), scans()].into_iter().flatten().collect()
}

fn sums() -> Vec<Case> {
    let six: (&str, &[f64]) = ("2x3xf32", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let add = |dims, output| matrix("applies add", "f32", dims, 0.0, six, output);
    vec![
        add("[0]", ("3xf32", &[5.0, 7.0, 9.0])),
        add("[1]", ("2xf32", &[6.0, 15.0])),
        add("[1, 0]", ("f32", &[21.0])),
        add("[]", six),
        matrix("applies add", "f32", "[1]", 10.0, ("2x0xf32", &[]), ("2xf32", &[10.0, 10.0])),
        matrix("applies add", "f32", "[0]", 0.0, ("0x2xf32", &[]), ("2xf32", &[0.0, 0.0])),
        matrix("applies add", "f32", "[0]", 0.0, ("2x0xf32", &[]), ("0xf32", &[])),
        matrix("applies add", "f32", "[0, 1]", 0.0, ("1x1xf32", &[NAN]), ("f32", &[NAN])),
        // In f32 the large terms would swallow the 1, in f16 the sum would stop at 2048.
        matrix("applies add", "f32", "[1]", 0.0, ("1x3xf32", &[1e9, 1.0, -1e9]), ("1xf32", &[1.0])),
        matrix("applies add", "f16", "[1]", 2048.0, ("1x4xf16", &[1.0; 4]), ("1xf16", &[2052.0])),
        matrix("applies add", "i8", "[1]", 0.0, ("1x3xi8", &[100.0, 100.0, 100.0]), ("1xi8", &[44.0])),
    ]
}

fn others() -> Vec<Case> {
    vec![
        matrix("applies maximum", "f32", "[1]", -INF, ("2x2xf32", &[1.0, 3.0, NAN, 2.0]), ("2xf32", &[3.0, NAN])),
        matrix("applies minimum", "i32", "[0]", 9.0, ("2x2xi32", &[1.0, 30.0, -5.0, 20.0]), ("2xi32", &[-5.0, 9.0])),
        matrix("applies multiply", "f32", "[1]", 1.0, ("1x3xf32", &[2.0, 3.0, -4.0]), ("1xf32", &[-24.0])),
        matrix("applies and", "i1", "[1]", 1.0, ("2x2xi1", &[1.0, 1.0, 1.0, 0.0]), ("2xi1", &[1.0, 0.0])),
        matrix("applies or", "i1", "[0]", 0.0, ("2x2xi1", &[0.0, 0.0, 1.0, 0.0]), ("2xi1", &[1.0, 0.0])),
        matrix(
            "body(%a: tensor<i32>, %b: tensor<i32>) {
                 %m = multiply %a, %b : tensor<i32>
                 %n = negate %m : tensor<i32>
                 return %n : tensor<i32>
             }",
            "i32",
            "[1]",
            1.0,
            ("1x3xi32", &[2.0, 3.0, 5.0]),
            ("1xi32", &[-30.0]),
        ),
    ]
}

/// The first place of the largest element of each row; NaN is the largest.
const ARGMAX: &str = "body(%a: tensor<f32>, %i: tensor<i64>, %b: tensor<f32>, %j: tensor<i64>) {
    %gt = compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %nan = compare NE, %a, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %w = or %gt, %nan : tensor<i1>
    %eq = compare EQ, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %lt = compare LT, %i, %j : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %tie = and %eq, %lt : tensor<i1>
    %t = or %w, %tie : tensor<i1>
    %v = select %w, %a, %b : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %k = select %t, %i, %j : (tensor<i1>, tensor<i64>, tensor<i64>) -> tensor<i64>
    return %v, %k : (tensor<f32>, tensor<i64>)
}";

fn arguments() -> Vec<Case> {
    let ops = format!(
        "%place = iota dim = 1 : tensor<[M]x[N]xi64>
         %low = constant dense<-inf> : tensor<f32>
         %zero = constant dense<0> : tensor<i64>
         %v, %k = reduce %x, %place, %low, %zero, dims = [1]
             : (tensor<[M]x[N]xf32>, tensor<[M]x[N]xi64>, tensor<f32>, tensor<i64>) -> (tensor<[M]xf32>, tensor<[M]xi64>) {ARGMAX}
         return %v, %k : (tensor<[M]xf32>, tensor<[M]xi64>)"
    );
    vec![case(
        "argmax",
        "(%x: tensor<[M]x[N]xf32>) -> (tensor<[M]xf32>, tensor<[M]xi64>)",
        &ops,
        &[("4x3xf32", &[1.0, 3.0, 3.0, NAN, 9.0, NAN, -INF, -INF, -INF, 5.0, 4.0, 3.0])],
        &[("4xf32", &[3.0, NAN, -INF, 5.0]), ("4xi64", &[1.0, 0.0, 0.0, 0.0])],
    )]
}

fn scan(attrs: &str, body: &str, input: (&'static str, &[f64]), wanted: &[f64]) -> Case {
    let ops = format!(
        "%z = constant dense<0.0> : tensor<f32>
         %r = cumulative %x, %z, {attrs} : (tensor<[M]x[N]xf32>, tensor<f32>) -> tensor<[M]x[N]xf32> {body}
         return %r : tensor<[M]x[N]xf32>"
    );
    case("cumulative", "(%x: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32>", &ops, &[input], &[(input.0, wanted)])
}

fn scans() -> Vec<Case> {
    let six: (&str, &[f64]) = ("2x3xf32", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    vec![
        scan("dim = 1", "applies add", six, &[1.0, 3.0, 6.0, 4.0, 9.0, 15.0]),
        scan("dim = 0", "applies add", six, &[1.0, 2.0, 3.0, 5.0, 7.0, 9.0]),
        scan("dim = 1, reverse = true", "applies add", six, &[6.0, 5.0, 3.0, 15.0, 11.0, 6.0]),
        scan("dim = 0", "applies maximum", ("3x1xf32", &[-1.0, NAN, 5.0]), &[0.0, NAN, NAN]),
        scan("dim = 1", "applies add", ("2x0xf32", &[]), &[]),
        scan("dim = 1", "applies add", ("1x4xf32", &[1e9, 1.0, -1e9, 1.0]), &[1e9, 1e9, 1.0, 2.0]),
    ]
}
