//! Ops that order elements.
use super::*;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case(
            "sort, two inputs, stable",
            "(%x: tensor<[M]x[N]xi32>, %y: tensor<[M]x[N]xi32>) -> (tensor<[M]x[N]xi32>, tensor<[M]x[N]xi32>)",
            "%a, %b = sort %x, %y, dimension = 1, is_stable = true
                 : (tensor<[M]x[N]xi32>, tensor<[M]x[N]xi32>) -> (tensor<[M]x[N]xi32>, tensor<[M]x[N]xi32>)
                 comparator(%p: tensor<i32>, %q: tensor<i32>, %p1: tensor<i32>, %q1: tensor<i32>) {
                     %lt = compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
                     return %lt : tensor<i1>
                 }
             return %a, %b : (tensor<[M]x[N]xi32>, tensor<[M]x[N]xi32>)",
            &[("2x4xi32", &[3.0, 1.0, 3.0, 1.0, 0.0, -1.0, -2.0, -3.0]), ("2x4xi32", &[0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0])],
            &[("2x4xi32", &[1.0, 1.0, 3.0, 3.0, -3.0, -2.0, -1.0, 0.0]), ("2x4xi32", &[1.0, 3.0, 0.0, 2.0, 3.0, 2.0, 1.0, 0.0])],
        ),
        sort("0", ("2x2xf32", &[3.0, 1.0, 2.0, 5.0]), &[3.0, 5.0, 2.0, 1.0]),
        sort("1", ("2x0xf32", &[]), &[]),
        sort("0", ("1x2xf32", &[1.0, 2.0]), &[1.0, 2.0]),
        top_k("k = 2", "2", ("1x4xf32", &[1.0, NAN, 3.0, 3.0]), &[NAN, 3.0], &[1.0, 2.0]),
        top_k("k = 3, largest = false", "3", ("1x4xf32", &[1.0, NAN, -INF, 1.0]), &[-INF, 1.0, 1.0], &[2.0, 0.0, 3.0]),
        top_k("k = 2, skip = 1", "2", ("1x4xf32", &[1.0, NAN, 3.0, 3.0]), &[3.0, 3.0], &[2.0, 3.0]),
        top_k("k = 1, largest = false, skip = [N/2]", "1", ("1x4xf32", &[4.0, -INF, 1.0, 1.0]), &[1.0], &[3.0]),
        top_k("k = 0", "0", ("1x4xf32", &[0.0; 4]), &[], &[]),
        top_k("k = [N]", "[N]", ("1x1xf32", &[7.0]), &[7.0], &[0.0]),
    ]
}

/// Descending, by one input.
fn sort(dimension: &str, input: (&'static str, &[f64]), wanted: &[f64]) -> Case {
    let ty = "tensor<[M]x[N]xf32>";
    let ops = format!(
        "%r = sort %x, dimension = {dimension} : {ty} comparator(%p: tensor<f32>, %q: tensor<f32>) {{
             %gt = compare GT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
             return %gt : tensor<i1>
         }}
         return %r : {ty}"
    );
    case("sort", &format!("(%x: {ty}) -> {ty}"), &ops, &[input], &[(input.0, wanted)])
}

fn top_k(attrs: &str, k: &str, input: (&'static str, &[f64]), values: &[f64], indices: &[f64]) -> Case {
    let (v, i) = (format!("tensor<[M]x{k}xf32>"), format!("tensor<[M]x{k}xi64>"));
    let ops = format!(
        "%v, %i = top_k %x, {attrs}, index_dtype = i64 : (tensor<[M]x[N]xf32>) -> ({v}, {i})\nreturn %v, %i : ({v}, {i})"
    );
    let sized = |dtype: &str| -> &'static str { format!("1x{}x{dtype}", values.len()).leak() };
    let outputs = [(sized("f32"), values), (sized("i64"), indices)];
    case("top_k", &format!("(%x: tensor<[M]x[N]xf32>) -> ({v}, {i})"), &ops, &[input], &outputs)
}

#[test]
fn more_elements_than_there_are_fail() {
    let case = top_k("k = 3", "3", ("1x1xf32", &[0.0]), &[], &[]);
    fails(&case.text, &[("1x2xf32", &[1.0, 2.0])], Code::E0602, "it needs 3 <= N");
}
