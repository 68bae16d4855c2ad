//! Ops that create or rearrange elements.
use super::*;

pub(super) fn cases() -> Vec<Case> {
    [making(), shapes(), padding()].into_iter().flatten().collect()
}

fn making() -> Vec<Case> {
    vec![
        case(
            "constant, iota, dim, size",
            "(%x: tensor<[B]x3xf32>) -> (tensor<2xi32>, tensor<2x[B]xi8>, tensor<i64>, tensor<i32>)",
            "%c = constant dense<[1, -2]> : tensor<2xi32>
             %i = iota dim = 1 : tensor<2x[B]xi8>
             %d = dim [2*B+1] : tensor<i64>
             %s = get_dimension_size %x, dimension = 0 : (tensor<[B]x3xf32>) -> tensor<i32>
             return %c, %i, %d, %s : (tensor<2xi32>, tensor<2x[B]xi8>, tensor<i64>, tensor<i32>)",
            &[("2x3xf32", &[0.0; 6])],
            &[("2xi32", &[1.0, -2.0]), ("2x2xi8", &[0.0, 1.0, 0.0, 1.0]), ("i64", &[5.0]), ("i32", &[2.0])],
        ),
        case(
            "weight of the module",
            "() -> tensor<2xf32>",
            "%w = weight @w : tensor<2xf32>\nreturn %w : tensor<2xf32>",
            &[],
            &[("2xf32", &[1.0, 2.0])],
        )
        .after("weight @w = dense<[1.0, 2.0]> : tensor<2xf32>\n"),
    ]
}

impl Case {
    /// With text before the function.
    pub(super) fn after(mut self, text: &str) -> Self {
        self.text.insert_str(0, text);
        self
    }
}

/// One op of one operand.
fn one(op: &str, from: &str, to: &str, input: (&'static str, &[f64]), output: (&'static str, &[f64])) -> Case {
    let (name, attrs) = op.split_once(' ').unwrap_or((op, ""));
    let line = format!("%r = {name} %x{attrs} : (tensor<{from}>) -> tensor<{to}>\nreturn %r : tensor<{to}>");
    case(op, &format!("(%x: tensor<{from}>) -> tensor<{to}>"), &line, &[input], &[output])
}

fn shapes() -> Vec<Case> {
    let six = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    vec![
        one("broadcast_in_dim , dims = [1]", "[B]xf32", "2x[B]xf32", ("2xf32", &[1.0, 2.0]), ("2x2xf32", &[1.0, 2.0, 1.0, 2.0])),
        one("broadcast_in_dim , dims = [0, 1]", "2x1xf32", "2x2xf32", ("2x1xf32", &[1.0, 2.0]), ("2x2xf32", &[1.0, 1.0, 2.0, 2.0])),
        one("broadcast_in_dim , dims = []", "f32", "0xf32", ("f32", &[1.0]), ("0xf32", &[])),
        one("broadcast_in_dim , dims = [1, 0]", "2x3xf32", "3x2xf32", ("2x3xf32", &six), ("3x2xf32", &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0])),
        one("reshape", "[B]x3xf32", "[3*B]xf32", ("2x3xf32", &six), ("6xf32", &six)),
        one("reshape", "1x1xf32", "f32", ("1x1xf32", &[7.0]), ("f32", &[7.0])),
        one("transpose , dims = [1, 0]", "2x3xf32", "3x2xf32", ("2x3xf32", &six), ("3x2xf32", &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0])),
        one("transpose , dims = [2, 0, 1]", "1x2x3xi1", "3x1x2xi1", ("1x2x3xi1", &[1.0, 0.0, 0.0, 0.0, 1.0, 1.0]), ("3x1x2xi1", &[1.0, 0.0, 0.0, 1.0, 0.0, 1.0])),
        one("reverse , dims = [1]", "2x3xf32", "2x3xf32", ("2x3xf32", &six), ("2x3xf32", &[3.0, 2.0, 1.0, 6.0, 5.0, 4.0])),
        one("reverse , dims = [0]", "0xf32", "0xf32", ("0xf32", &[]), ("0xf32", &[])),
        one("slice  [1:2, 0:3:2]", "2x3xf32", "1x2xf32", ("2x3xf32", &six), ("1x2xf32", &[4.0, 6.0])),
        one("slice  [1:B]", "[B]xf32", "[B-1]xf32", ("1xf32", &[1.0]), ("0xf32", &[])),
        case(
            "concatenate",
            "(%a: tensor<2x[M]xf32>, %b: tensor<2x[N]xf32>) -> tensor<2x[2*M+N]xf32>",
            "%r = concatenate %a, %b, %a, dim = 1 : (tensor<2x[M]xf32>, tensor<2x[N]xf32>, tensor<2x[M]xf32>) -> tensor<2x[2*M+N]xf32>
             return %r : tensor<2x[2*M+N]xf32>",
            &[("2x1xf32", &[1.0, 2.0]), ("2x2xf32", &[3.0, 4.0, 5.0, 6.0])],
            &[("2x4xf32", &[1.0, 3.0, 4.0, 1.0, 2.0, 5.0, 6.0, 2.0])],
        ),
    ]
}

fn pad(attrs: &str, from: &str, to: &str, input: (&'static str, &[f64]), output: (&'static str, &[f64])) -> Case {
    let line = format!("%r = pad %x, %z, {attrs} : (tensor<{from}>, tensor<i32>) -> tensor<{to}>\nreturn %r : tensor<{to}>");
    case("pad", &format!("(%x: tensor<{from}>, %z: tensor<i32>) -> tensor<{to}>"), &line, &[input, ("i32", &[0.0])], &[output])
}

fn padding() -> Vec<Case> {
    vec![
        pad(
            "low = [0, 1], high = [2, 1], interior = [1, 2]",
            "2x3xi32",
            "5x9xi32",
            ("2x3xi32", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            (
                "5x9xi32",
                &[[0., 1., 0., 0., 2., 0., 0., 3., 0.], [0.; 9], [0., 4., 0., 0., 5., 0., 0., 6., 0.], [0.; 9], [0.; 9]].concat(),
            ),
        ),
        pad("low = [-1], high = [-1]", "4xi32", "2xi32", ("4xi32", &[1.0, 2.0, 3.0, 4.0]), ("2xi32", &[2.0, 3.0])),
        pad("low = [-1], high = [0], interior = [1]", "2xi32", "2xi32", ("2xi32", &[1.0, 2.0]), ("2xi32", &[0.0, 2.0])),
        pad("low = [1], high = [1]", "0xi32", "2xi32", ("0xi32", &[]), ("2xi32", &[0.0, 0.0])),
    ]
}

#[test]
fn a_slice_outside_fails() {
    let text = "func @main(%x: tensor<[B]xf32>) -> tensor<2xf32> {\n%r = slice %x [0:2] : (tensor<[B]xf32>) -> tensor<2xf32>\nreturn %r : tensor<2xf32>\n}";
    fails(text, &[("1xf32", &[1.0])], Code::E0602, "it needs 2 <= B");
}
