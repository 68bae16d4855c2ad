//! Pooling, and patches.
use super::*;

fn pool(body: &str, init: f64, attrs: &str, to: &str, input: (&'static str, &[f64]), output: (&'static str, &[f64])) -> Case {
    let from = "[M]x[N]xf32";
    let signature = format!("(%x: tensor<{from}>, %z: tensor<f32>) -> tensor<{to}>");
    let ops = format!(
        "%r = reduce_window %x, %z, {attrs} : (tensor<{from}>, tensor<f32>) -> tensor<{to}> {body}\nreturn %r : tensor<{to}>"
    );
    case("reduce_window", &signature, &ops, &[input, ("f32", &[init])], &[output])
}

pub(super) fn cases() -> Vec<Case> {
    let grid: (&str, &[f64]) = ("2x4xf32", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    vec![
        case(
            "the example of the specification",
            "(%x: tensor<3x2xi64>, %z: tensor<i64>) -> tensor<2x2xi64>",
            "%r = reduce_window %x, %z, window_dimensions = [2, 1], window_strides = [4, 1], base_dilations = [2, 1],
                 window_dilations = [3, 1], padding_low = [2, 0], padding_high = [1, 0]
                 : (tensor<3x2xi64>, tensor<i64>) -> tensor<2x2xi64> applies add
             return %r : tensor<2x2xi64>",
            &[("3x2xi64", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), ("i64", &[0.0])],
            &[("2x2xi64", &[0.0, 0.0, 3.0, 4.0])],
        ),
        pool(
            "applies maximum",
            -INF,
            "window_dimensions = [2, 2], window_strides = [2, 2]",
            "[max(M/2, 0)]x[max(N/2, 0)]xf32",
            grid,
            ("1x2xf32", &[6.0, 8.0]),
        ),
        pool(
            "applies add",
            0.0,
            "window_dimensions = [1, 3], padding_low = [0, 1], padding_high = [0, 1]",
            "[max(M, 0)]x[max(N, 0)]xf32",
            grid,
            ("2x4xf32", &[3.0, 6.0, 9.0, 7.0, 11.0, 18.0, 21.0, 15.0]),
        ),
        pool(
            "applies add",
            0.0,
            "window_dimensions = [2, 1]",
            "[max(M-1, 0)]x[max(N, 0)]xf32",
            ("1x2xf32", &[1.0, 2.0]),
            ("0x2xf32", &[]),
        ),
        pool(
            "applies add",
            0.0,
            "window_dimensions = [1, N]",
            "[max(M, 0)]x1xf32",
            ("2x2xf32", &[1.0, 2.0, NAN, 4.0]),
            ("2x1xf32", &[3.0, NAN]),
        ),
        case(
            "what Winograd's method computes is the product",
            "(%p: tensor<1x1x1x2xf32>, %x: tensor<1x1x1x2xf32>, %k: tensor<0x36x1x1xf32>) -> tensor<1x1x1x2xf32>",
            "%r = winograd %p, %x, %k, padding_low = [1, 1]
                 : (tensor<1x1x1x2xf32>, tensor<1x1x1x2xf32>, tensor<0x36x1x1xf32>) -> tensor<1x1x1x2xf32>
             return %r : tensor<1x1x1x2xf32>",
            &[("1x1x1x2xf32", &[1.0, NAN]), ("1x1x1x2xf32", &[3.0, 4.0]), ("0x36x1x1xf32", &[])],
            &[("1x1x1x2xf32", &[1.0, NAN])],
        ),
        case(
            "patches of two dimensions",
            "(%x: tensor<1x2x2xf32>) -> tensor<1x2x1x1x3xf32>",
            "%r = im2col %x, window_dimensions = [2, 1], padding_low = [0, 1] : (tensor<1x2x2xf32>) -> tensor<1x2x1x1x3xf32>
             return %r : tensor<1x2x1x1x3xf32>",
            &[("1x2x2xf32", &[1.0, 2.0, 3.0, 4.0])],
            &[("1x2x1x1x3xf32", &[0.0, 1.0, 2.0, 0.0, 3.0, 4.0])],
        ),
        case(
            "patches that lie apart, of elements that do",
            "(%x: tensor<3xi64>) -> tensor<2x4xi64>",
            "%r = im2col %x, window_dimensions = [2], window_strides = [2], window_dilations = [2], base_dilations = [2],
                 padding_low = [2], padding_high = [2] : (tensor<3xi64>) -> tensor<2x4xi64>
             return %r : tensor<2x4xi64>",
            &[("3xi64", &[1.0, 2.0, 3.0])],
            &[("2x4xi64", &[0.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 0.0])],
        ),
    ]
}
