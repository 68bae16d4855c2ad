//! Control flow, calls and fusion groups.
use super::*;

const ABS: &str = "%zero = constant dense<0.0> : tensor<f32>
    %p = compare LT, %x, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %r = if %p : (tensor<i1>) -> tensor<f32> then {
        %n = negate %x : tensor<f32>
        return %n : tensor<f32>
    } else {
        return %x : tensor<f32>
    }
    return %r : tensor<f32>";

pub(super) fn cases() -> Vec<Case> {
    let absolute = |x: f64| case("if", "(%x: tensor<f32>) -> tensor<f32>", ABS, &[("f32", &[x])], &[("f32", &[x.abs()])]);
    let power = |n: f64, wanted: f64| {
        case(
            "while",
            "(%n: tensor<i64>) -> tensor<i64>",
            "%one = constant dense<1> : tensor<i64>
             %two = constant dense<2> : tensor<i64>
             %i, %p = while %n, %one : (tensor<i64>, tensor<i64>) cond(%a: tensor<i64>, %b: tensor<i64>) {
                 %zero = constant dense<0> : tensor<i64>
                 %more = compare GT, %a, %zero : (tensor<i64>, tensor<i64>) -> tensor<i1>
                 return %more : tensor<i1>
             } do(%a: tensor<i64>, %b: tensor<i64>) {
                 %next = subtract %a, %one : tensor<i64>
                 %twice = multiply %b, %two : tensor<i64>
                 return %next, %twice : (tensor<i64>, tensor<i64>)
             }
             return %p : tensor<i64>",
            &[("i64", &[n])],
            &[("i64", &[wanted])],
        )
    };
    vec![absolute(-3.0), absolute(3.0), power(0.0, 1.0), power(10.0, 1024.0), call(), assertion(), fusion()]
}

fn call() -> Case {
    case(
        "call",
        "(%x: tensor<[B]xf32>) -> tensor<[B]xf32>",
        "%r = call @twice(%x) : (tensor<[B]xf32>) -> tensor<[B]xf32>\nreturn %r : tensor<[B]xf32>",
        &[("2xf32", &[1.0, 2.0])],
        &[("2xf32", &[2.0, 4.0])],
    )
    .after("func @twice(%x: tensor<[N]xf32>) -> tensor<[N]xf32> {\n%r = add %x, %x : tensor<[N]xf32>\nreturn %r : tensor<[N]xf32>\n}\n")
}

const ASSERT: &str = "%zero = constant dense<0> : tensor<i64>
    %p = compare GT, %n, %zero : (tensor<i64>, tensor<i64>) -> tensor<i1>
    assert %p, %n, message = \"n must be positive\" : (tensor<i1>, tensor<i64>)
    return %n : tensor<i64>";

fn assertion() -> Case {
    case("assert", "(%n: tensor<i64>) -> tensor<i64>", ASSERT, &[("i64", &[1.0])], &[("i64", &[1.0])])
}

fn fusion() -> Case {
    case(
        "fusion",
        "(%x: tensor<[B]xf32>) -> tensor<[B]xf32>",
        "%r = fusion %x, kind = pointwise : (tensor<[B]xf32>) -> tensor<[B]xf32> body(%a: tensor<[B]xf32>) {
             %e = multiply %a, %a : tensor<[B]xf32>
             %f = add %e, %a : tensor<[B]xf32>
             return %f : tensor<[B]xf32>
         }
         return %r : tensor<[B]xf32>",
        &[("2xf32", &[2.0, 3.0])],
        &[("2xf32", &[6.0, 12.0])],
    )
}

#[test]
fn an_assertion_that_does_not_hold_fails_with_its_values() {
    let text = format!("func @main(%n: tensor<i64>) -> tensor<i64> {{\n{ASSERT}\n}}");
    fails(&text, &[("i64", &[-4.0])], Code::E0604, "n must be positive");
    fails(&text, &[("i64", &[-4.0])], Code::E0604, "with values -4");
}
