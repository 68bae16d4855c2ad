//! Matmuls and convolutions.
use super::*;

fn dot(attrs: &str, types: [&str; 3], inputs: [(&'static str, &[f64]); 2], output: (&'static str, &[f64])) -> Case {
    let [a, b, r] = types.map(|ty| format!("tensor<{ty}>"));
    let ops = format!("%r = dot_general %a, %b, {attrs} : ({a}, {b}) -> {r}\nreturn %r : {r}");
    case("dot_general", &format!("(%a: {a}, %b: {b}) -> {r}"), &ops, &inputs, &[output])
}

fn matrices(dtype: &str, to: &str, attrs: &str, inputs: [(&'static str, &[f64]); 2], output: (&'static str, &[f64])) -> Case {
    let attrs = format!("lhs_contracting_dims = [1], rhs_contracting_dims = [0]{attrs}");
    dot(&attrs, [&format!("[M]x[K]x{dtype}"), &format!("[K]x[N]x{dtype}"), &format!("[M]x[N]x{to}")], inputs, output)
}

pub(super) fn cases() -> Vec<Case> {
    [products(), convolutions()].into_iter().flatten().collect()
}

fn products() -> Vec<Case> {
    let a: (&str, &[f64]) = ("2x2xf32", &[1.0, 2.0, 3.0, 4.0]);
    vec![
        matrices("f32", "f32", "", [a, ("2x1xf32", &[5.0, 6.0])], ("2x1xf32", &[17.0, 39.0])),
        matrices("f32", "f32", "", [("2x0xf32", &[]), ("0x2xf32", &[])], ("2x2xf32", &[0.0; 4])),
        matrices("f32", "f32", "", [("0x2xf32", &[]), ("2x1xf32", &[1.0, 2.0])], ("0x1xf32", &[])),
        matrices("f32", "f32", "", [("1x2xf32", &[INF, 1.0]), ("2x1xf32", &[0.0, 1.0])], ("1x1xf32", &[NAN])),
        matrices(
            "i8",
            "i32",
            ", dtype = i32",
            [("1x2xi8", &[100.0, 100.0]), ("2x1xi8", &[100.0, 100.0])],
            ("1x1xi32", &[20000.0]),
        ),
        // Three columns in two panels of two; padding after the last column is not read.
        dot(
            "lhs_contracting_dims = [1], rhs_contracting_dims = [1], packed_columns = [3]",
            ["[M]x2xf32", "2x2x2xf32", "[M]x3xf32"],
            [a, ("2x2x2xf32", &[1., 2., 3., 4., 5., NAN, 6., NAN])],
            ("2x3xf32", &[7., 10., 17., 15., 22., 39.]),
        ),
        // Three rows, two to a word.
        dot(
            "lhs_contracting_dims = [1], rhs_contracting_dims = [1], packed_columns = [2], dtype = i32",
            ["[M]x3xi8", "1x2x2x2xi8", "[M]x2xi32"],
            [("1x3xi8", &[1., 2., 3.]), ("1x2x2x2xi8", &[1., 2., 3., 4., 5., 100., 6., 100.])],
            ("1x2xi32", &[20., 29.]),
        ),
        // 0x...8_7F1: steps 1, -1, 7 and -8, then zeros.
        case(
            "unpack_int4",
            "(%w: tensor<1x1x1x2xi32>, %s: tensor<1x1x2xf32>) -> tensor<1x1x2x8xf32>",
            "%r = unpack_int4 %w, %s : (tensor<1x1x1x2xi32>, tensor<1x1x2xf32>) -> tensor<1x1x2x8xf32>\nreturn %r : tensor<1x1x2x8xf32>",
            &[("1x1x1x2xi32", &[f64::from(0x87F1), -1.0]), ("1x1x2xf32", &[0.5, 2.0])],
            &[("1x1x2x8xf32", &[0.5, -0.5, 3.5, -4., 0., 0., 0., 0., -2., -2., -2., -2., -2., -2., -2., -2.])],
        ),
        matrices("i8", "i8", "", [("1x2xi8", &[100.0, 100.0]), ("2x1xi8", &[100.0, 100.0])], ("1x1xi8", &[32.0])),
        matrices("f16", "f16", "", [("1x3xf16", &[2048.0, 1.0, 1.0]), ("3x1xf16", &[1.0; 3])], ("1x1xf16", &[2050.0])),
        dot(
            "lhs_batching_dims = [0], rhs_batching_dims = [1], lhs_contracting_dims = [1], rhs_contracting_dims = [2]",
            ["[B]x2x2xf32", "3x[B]x2xf32", "[B]x2x3xf32"],
            [("2x2x2xf32", &[1., 2., 3., 4., 5., 6., 7., 8.]), ("3x2x2xf32", &[1., 0., 0., 1., 0., 1., 1., 0., 1., 1., 1., 1.])],
            ("2x2x3xf32", &[1., 3., 4., 2., 4., 6., 7., 5., 12., 8., 6., 14.]),
        ),
        dot(
            "lhs_contracting_dims = [], rhs_contracting_dims = []",
            ["2xf32", "2xf32", "2x2xf32"],
            [("2xf32", &[1.0, 2.0]), ("2xf32", &[3.0, 4.0])],
            ("2x2xf32", &[3.0, 4.0, 6.0, 8.0]),
        ),
    ]
}

const CHANNELS_LAST: &str = "input_batch_dimension = 0, input_feature_dimension = 3, input_spatial_dimensions = [1, 2],
    kernel_input_feature_dimension = 2, kernel_output_feature_dimension = 3, kernel_spatial_dimensions = [0, 1],
    output_batch_dimension = 0, output_feature_dimension = 3, output_spatial_dimensions = [1, 2]";
const CHANNELS_FIRST: &str = "input_batch_dimension = 0, input_feature_dimension = 1, input_spatial_dimensions = [2],
    kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 0, kernel_spatial_dimensions = [2],
    output_batch_dimension = 0, output_feature_dimension = 1, output_spatial_dimensions = [2]";

fn convolve(
    layout: &str,
    attrs: &str,
    types: [&str; 3],
    inputs: [(&'static str, &[f64]); 2],
    output: (&'static str, &[f64]),
) -> Case {
    let [a, b, r] = types.map(|ty| format!("tensor<{ty}>"));
    let ops = format!("%r = convolution %a, %b, {layout}{attrs} : ({a}, {b}) -> {r}\nreturn %r : {r}");
    case("convolution", &format!("(%a: {a}, %b: {b}) -> {r}"), &ops, &inputs, &[output])
}

/// A convolution of `[batch, feature, length]`.
fn line(attrs: &str, types: [&str; 3], inputs: [(&'static str, &[f64]); 2], output: (&'static str, &[f64])) -> Case {
    convolve(CHANNELS_FIRST, attrs, types, inputs, output)
}

fn convolutions() -> Vec<Case> {
    let image = [1., 2., 5., 6., 3., 4., 7., 8., 10., 11., 14., 15., 12., 13., 16., 17.];
    let four: (&str, &[f64]) = ("1x1x4xf32", &[1.0, 2.0, 3.0, 4.0]);
    let two: (&str, &[f64]) = ("1x1x2xf32", &[1.0, 10.0]);
    vec![
        convolve(
            CHANNELS_LAST,
            ", window_strides = [4, 4], lhs_dilation = [2, 2]",
            ["1x4x4x1xi64", "3x3x1x1xi64", "1x2x2x1xi64"],
            [("1x4x4x1xi64", &image), ("3x3x1x1xi64", &[1.0; 9])],
            ("1x2x2x1xi64", &[10.0, 26.0, 46.0, 62.0]),
        ),
        line("", ["1x1x[N]xf32", "1x1x2xf32", "1x1x[max(N-1, 0)]xf32"], [four, two], ("1x1x3xf32", &[21.0, 32.0, 43.0])),
        line("", ["1x1x[N]xf32", "1x1x2xf32", "1x1x[max(N-1, 0)]xf32"], [("1x1x1xf32", &[1.0]), two], ("1x1x0xf32", &[])),
        line(", window_reversal = [1]", ["1x1x4xf32", "1x1x2xf32", "1x1x3xf32"], [four, two], ("1x1x3xf32", &[12.0, 23.0, 34.0])),
        line(
            ", padding_low = [1], padding_high = [-1]",
            ["1x1x4xf32", "1x1x2xf32", "1x1x3xf32"],
            [four, two],
            ("1x1x3xf32", &[10.0, 21.0, 32.0]),
        ),
        line(", rhs_dilation = [2]", ["1x1x4xf32", "1x1x2xf32", "1x1x2xf32"], [four, two], ("1x1x2xf32", &[31.0, 42.0])),
        line(
            ", feature_group_count = 2",
            ["1x2x2xf32", "2x1x1xf32", "1x2x2xf32"],
            [("1x2x2xf32", &[1.0, 2.0, 3.0, 4.0]), ("2x1x1xf32", &[10.0, 100.0])],
            ("1x2x2xf32", &[10.0, 20.0, 300.0, 400.0]),
        ),
        line(
            ", batch_group_count = 2",
            ["2x1x2xf32", "2x1x1xf32", "1x2x2xf32"],
            [("2x1x2xf32", &[1.0, 2.0, 3.0, 4.0]), ("2x1x1xf32", &[10.0, 100.0])],
            ("1x2x2xf32", &[10.0, 20.0, 300.0, 400.0]),
        ),
    ]
}
