//! Ops that read or write at data-dependent indices.
use super::*;

const TABLE: (&str, &[f64]) = ("3x2xf32", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);

/// Rows of a table.
fn rows(bounds: &str, indices: (&'static str, &[f64]), shape: &str) -> (String, String, [(&'static str, Vec<f64>); 2]) {
    let attrs = format!(
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1, slice_sizes = [1, 2]{bounds}"
    );
    let signature = format!("(%x: tensor<[V]x2xf32>, %i: tensor<{shape}xi64>) -> tensor<{shape}x2xf32>");
    let ops = format!(
        "%r = gather %x, %i, {attrs} : (tensor<[V]x2xf32>, tensor<{shape}xi64>) -> tensor<{shape}x2xf32>\nreturn %r : tensor<{shape}x2xf32>"
    );
    (signature, ops, [(TABLE.0, TABLE.1.to_vec()), (indices.0, indices.1.to_vec())])
}

fn gather_rows(bounds: &str, indices: (&'static str, &[f64]), wanted: (&'static str, &[f64])) -> Case {
    let (signature, ops, inputs) = rows(bounds, indices, "[N]");
    let inputs: Vec<(&'static str, &[f64])> = inputs.iter().map(|(ty, x)| (*ty, &x[..])).collect();
    case("gather", &signature, &ops, &inputs, &[wanted])
}

/// The batched example of the StableHLO specification.
fn batched() -> (Vec<f64>, Vec<f64>) {
    let operand = (1..=48).map(f64::from).collect();
    let indices = [[0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 0, 9], [0, 0, 2, 1, 2, 2, 1, 2, 0, 1, 1, 0]];
    (operand, indices.concat().into_iter().map(f64::from).collect())
}

pub(super) fn cases() -> Vec<Case> {
    let (operand, indices) = batched();
    vec![
        gather_rows("", ("3xi64", &[2.0, 0.0, 2.0]), ("3x2xf32", &[5.0, 6.0, 1.0, 2.0, 5.0, 6.0])),
        gather_rows("", ("2xi64", &[-1.0, 3.0]), ("2x2xf32", &[1.0, 2.0, 5.0, 6.0])),
        gather_rows(", bounds = check", ("1xi64", &[1.0]), ("1x2xf32", &[3.0, 4.0])),
        gather_rows(", bounds = check", ("0xi64", &[]), ("0x2xf32", &[])),
        case(
            "gather with batching",
            "(%x: tensor<2x3x4x2xi32>, %i: tensor<2x2x3x2xi64>) -> tensor<2x2x3x2x2xi32>",
            "%r = gather %x, %i, offset_dims = [3, 4], collapsed_slice_dims = [1], operand_batching_dims = [0],
                 start_indices_batching_dims = [1], start_index_map = [2, 1], index_vector_dim = 3, slice_sizes = [1, 1, 2, 2]
                 : (tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>) -> tensor<2x2x3x2x2xi32>
             return %r : tensor<2x2x3x2x2xi32>",
            &[("2x3x4x2xi32", &operand), ("2x2x3x2xi64", &indices)],
            &[(
                "2x2x3x2x2xi32",
                &[
                    1., 2., 3., 4., 3., 4., 5., 6., 13., 14., 15., 16., 33., 34., 35., 36., 35., 36., 37., 38., 41., 42., 43., 44., 1.,
                    2., 3., 4., 13., 14., 15., 16., 21., 22., 23., 24., 43., 44., 45., 46., 33., 34., 35., 36., 27., 28., 29., 30.,
                ],
            )],
        ),
        scatter("applies add", "", ("3xi64", &[2.0, 0.0, 2.0]), ("3x2xf32", &[1.0; 6]), &[2.0, 3.0, 3.0, 4.0, 7.0, 8.0]),
        scatter("applies add", "", ("2xi64", &[-1.0, 3.0]), ("2x2xf32", &[1.0; 4]), TABLE.1),
        scatter("applies add", "", ("0xi64", &[]), ("0x2xf32", &[]), TABLE.1),
        scatter(
            "body(%a: tensor<f32>, %b: tensor<f32>) { return %b : tensor<f32> }",
            ", bounds = check",
            ("2xi64", &[1.0, 1.0]),
            ("2x2xf32", &[7.0, 8.0, 9.0, NAN]),
            &[1.0, 2.0, 9.0, NAN, 5.0, 6.0],
        ),
        dynamic_slice("", &[-1.0, 3.0], &[1.0, 1.0, 1.0, 1.0]),
        dynamic_slice(", bounds = check", &[1.0, 1.0], &[0.0, 1.0, 0.0, 0.0]),
        case(
            "dynamic_update_slice",
            "(%x: tensor<2x2xi32>, %u: tensor<1x[N]xi32>, %i: tensor<i64>) -> tensor<2x2xi32>",
            "%r = dynamic_update_slice %x, %u, %i, %i : (tensor<2x2xi32>, tensor<1x[N]xi32>, tensor<i64>, tensor<i64>) -> tensor<2x2xi32>
             return %r : tensor<2x2xi32>",
            &[("2x2xi32", &[1.0, 2.0, 3.0, 4.0]), ("1x1xi32", &[9.0]), ("i64", &[5.0])],
            &[("2x2xi32", &[1.0, 2.0, 3.0, 9.0])],
        ),
    ]
}

fn scatter(body: &str, bounds: &str, indices: (&'static str, &[f64]), updates: (&'static str, &[f64]), wanted: &[f64]) -> Case {
    let types = "(tensor<3x2xf32>, tensor<[N]xi64>, tensor<[N]x2xf32>) -> tensor<3x2xf32>";
    let ops = format!(
        "%r = scatter %x, %i, %u, update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
            index_vector_dim = 1{bounds} : {types} {body}\nreturn %r : tensor<3x2xf32>"
    );
    let signature = "(%x: tensor<3x2xf32>, %i: tensor<[N]xi64>, %u: tensor<[N]x2xf32>) -> tensor<3x2xf32>";
    case("scatter", signature, &ops, &[TABLE, indices, updates], &[("3x2xf32", wanted)])
}

/// A 2x2 part of the example of the StableHLO specification.
fn dynamic_slice(bounds: &str, start: &[f64; 2], wanted: &[f64]) -> Case {
    let whole = [0., 0., 1., 1., 0., 0., 1., 1., 0., 0., 0., 0., 0., 0., 0., 0.];
    case(
        "dynamic_slice",
        "(%x: tensor<4x4xi32>, %i: tensor<i64>, %j: tensor<i64>) -> tensor<2x2xi32>",
        &format!(
            "%r = dynamic_slice %x, %i, %j, sizes = [2, 2]{bounds} : (tensor<4x4xi32>, tensor<i64>, tensor<i64>) -> tensor<2x2xi32>
             return %r : tensor<2x2xi32>"
        ),
        &[("4x4xi32", &whole), ("i64", &start[..1]), ("i64", &start[1..])],
        &[("2x2xi32", wanted)],
    )
}

#[test]
fn checked_indices_out_of_range_fail() {
    for index in [-1.0, 3.0] {
        let (signature, ops, inputs) = rows(", bounds = check", ("1xi64", &[index]), "[N]");
        let inputs: Vec<(&'static str, &[f64])> = inputs.iter().map(|(ty, x)| (*ty, &x[..])).collect();
        fails(&format!("func @main{signature} {{\n{ops}\n}}"), &inputs, Code::E0603, &format!("index {index}"));
    }
    let slice = dynamic_slice(", bounds = check", &[3.0, 0.0], &[]);
    fails(&slice.text, &[("4x4xi32", &[0.0; 16]), ("i64", &[3.0]), ("i64", &[0.0])], Code::E0603, "index 3");
    let scatter = scatter("applies add", ", bounds = check", ("1xi64", &[3.0]), ("1x2xf32", &[1.0; 2]), &[]);
    fails(&scatter.text, &[TABLE, ("1xi64", &[3.0]), ("1x2xf32", &[1.0; 2])], Code::E0603, "[3, 0]");
}

#[test]
fn a_slice_of_an_empty_table_fails_whatever_the_bounds() {
    let (signature, ops, _) = rows("", ("1xi64", &[0.0]), "[N]");
    fails(
        &format!("func @main{signature} {{\n{ops}\n}}"),
        &[("0x2xf32", &[]), ("1xi64", &[0.0])],
        Code::E0602,
        "it needs 1 <= V",
    );
}
