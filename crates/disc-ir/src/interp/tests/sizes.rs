//! Sizes that depend on data.
use super::*;

const CHOOSE: &str = "%zero = constant dense<0> : tensor<i64>
    %ones = convert %x : (tensor<[N]xi1>) -> tensor<[N]xi64>
    %n = reduce %ones, %zero, dims = [0] : (tensor<[N]xi64>, tensor<i64>) -> tensor<i64> applies add
    bind_dim %n, dim = [K] : tensor<i64>
    %p = nonzero %x : (tensor<[N]xi1>) -> tensor<[K]xi64>
    return %p : tensor<[K]xi64>";

/// Two rounds; the dim has another value in each.
const ROUNDS: &str = "%zero = constant dense<0> : tensor<i64>
    %one = constant dense<1> : tensor<i64>
    %i, %sum = while %x, %zero : (tensor<i64>, tensor<i64>) cond(%a: tensor<i64>, %b: tensor<i64>) {
        %more = compare GT, %a, %zero : (tensor<i64>, tensor<i64>) -> tensor<i1>
        return %more : tensor<i1>
    } do(%a: tensor<i64>, %b: tensor<i64>) {
        bind_dim %a, dim = [K] : tensor<i64>
        %counted = iota dim = 0 : tensor<[K]xi64>
        %s = reduce %counted, %b, dims = [0] : (tensor<[K]xi64>, tensor<i64>) -> tensor<i64> applies add
        %next = subtract %a, %one : tensor<i64>
        return %next, %s : (tensor<i64>, tensor<i64>)
    }
    return %sum : tensor<i64>";

/// Memory that is used again by the next value.
const FRAMES: &str = "kernel @double(%x: buffer<[N]xi64>, %y: buffer<[N]xi64>, %begin: i64, %end: i64) {
    %one = constant dense<1> : i64
    for %begin, %end, %one : (i64, i64, i64) -> () do(%u: i64) {
        %v = load %x[%u] : (buffer<[N]xi64>, i64) -> i64
        %w = add %v, %v : i64
        store %y[%u], %w : (buffer<[N]xi64>, i64, i64)
        return
    }
    return
}
host @main(%x: buffer<[N]xi64>) -> tensor<[N]xi64> {
    %mark = mark : i64
    layout_arena dims = [at0, at1, end], sizes = [N, N], meets = [0, 1, 0]
    %a = arena bytes = [8*end] : buffer<[8*end]xu8>
    %t = alloc %a, offset = [8*at1], bytes = [8*N] : (buffer<[8*end]xu8>) -> buffer<[N]xi64>
    %y = alloc_output index = 0 : buffer<[N]xi64>
    launch %x, %t, kernel = @double, units = [N], cost = [N], scratch = [0] : (buffer<[N]xi64>, buffer<[N]xi64>)
    release %mark : (i64)
    launch %x, %y, kernel = @double, units = [N], cost = [N], scratch = [0] : (buffer<[N]xi64>, buffer<[N]xi64>)
    return
}";

pub(super) fn cases() -> Vec<Case> {
    let choose = |mask: &'static [f64], ty: &'static str, wanted: &'static [f64], out: &'static str| {
        case("nonzero", "(%x: tensor<[N]xi1>) -> tensor<[K]xi64>", CHOOSE, &[(ty, mask)], &[(out, wanted)])
    };
    let text = "%p = nonzero %x : (tensor<3xi1>) -> tensor<4xi64>\nreturn %p : tensor<4xi64>";
    vec![
        choose(&[1.0, 0.0, 0.0, 1.0, 1.0], "5xi1", &[0.0, 3.0, 4.0], "3xi64"),
        choose(&[0.0, 0.0], "2xi1", &[], "0xi64"),
        choose(&[], "0xi1", &[], "0xi64"),
        case(
            "more room",
            "(%x: tensor<3xi1>) -> tensor<4xi64>",
            text,
            &[("3xi1", &[0.0, 1.0, 1.0])],
            &[("4xi64", &[1.0, 2.0, -1.0, -1.0])],
        ),
        case("rounds", "(%x: tensor<i64>) -> tensor<i64>", ROUNDS, &[("i64", &[4.0])], &[("i64", &[10.0])]),
        Case {
            name: "frames".into(),
            text: FRAMES.into(),
            inputs: vec![("2xi64", vec![3.0, 4.0])],
            outputs: vec![("2xi64", vec![6.0, 8.0])],
        },
    ]
}

#[test]
fn a_size_that_cannot_be_or_violates_a_fact_fails() {
    let text = "func @main(%n: tensor<i64>) -> tensor<[K]xi64> where K <= 5 {
        bind_dim %n, dim = [K] : tensor<i64>
        %i = iota dim = 0 : tensor<[K]xi64>
        return %i : tensor<[K]xi64>
    }";
    fails(text, &[("i64", &[-1.0])], Code::E0602, "dim K is -1, expected 0 or more");
    fails(text, &[("i64", &[6.0])], Code::E0602, "K <= 5");
}

#[test]
fn what_was_released_is_not_read() {
    let text = FRAMES.replace("    launch %x, %y", "    launch %t, %y");
    fails(&text, &[("2xi64", &[3.0, 4.0])], Code::E0211, "");
}
