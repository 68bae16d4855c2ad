//! Programs that exceed the limits, and entries that do not exist.
use super::*;

fn run_within(text: &str, inputs: &[Data], limits: Limits) -> Code {
    let inputs: Vec<Tensor> = inputs.iter().map(tensor).collect();
    run_with(&module(text), "main", &inputs, &|_| None, limits).expect_err("the limit is exceeded").code
}

#[test]
fn an_endless_loop_ends() {
    let text = "func @main() -> tensor<i1> {\n%t = constant dense<true> : tensor<i1>\n\
        %r = while %t : (tensor<i1>) -> tensor<i1> cond(%a: tensor<i1>) { return %a : tensor<i1> } \
        do(%a: tensor<i1>) { return %a : tensor<i1> }\nreturn %r : tensor<i1>\n}";
    assert_eq!(run_within(text, &[], Limits { steps: 1000, ..Limits::default() }), Code::E0606);
}

#[test]
fn endless_recursion_ends() {
    let text = "func @main(%x: tensor<f32>) -> tensor<f32> {\n%r = call @main(%x) : (tensor<f32>) -> tensor<f32>\nreturn %r : tensor<f32>\n}";
    assert_eq!(run_within(text, &[("f32", vec![1.0])], Limits::default()), Code::E0606);
}

const GROW: &str = "func @main(%x: tensor<[N]xf32>) -> tensor<[N*N]xf32> {\n%z = constant dense<0.0> : tensor<f32>\n\
    %r = broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<[N*N]xf32>\nreturn %r : tensor<[N*N]xf32>\n}";

#[test]
fn a_value_too_large_is_never_made() {
    let steps = 1 << 62;
    assert_eq!(run_within(GROW, &[("100xf32", vec![0.0; 100])], Limits { bytes: 1000, steps, ..Limits::default() }), Code::E0606);
    assert_eq!(run_within(GROW, &[("100000xf32", vec![0.0; 100_000])], Limits { steps, ..Limits::default() }), Code::E0606);
}

#[test]
fn a_loop_does_not_accumulate_memory() {
    let text = "func @main(%n: tensor<i64>) -> tensor<i64> {\n%r = while %n : (tensor<i64>) -> tensor<i64> cond(%a: tensor<i64>) {\n\
        %z = constant dense<0> : tensor<i64>\n%p = compare GT, %a, %z : (tensor<i64>, tensor<i64>) -> tensor<i1>\nreturn %p : tensor<i1>\n\
        } do(%a: tensor<i64>) {\n%o = constant dense<1> : tensor<i64>\n%b = subtract %a, %o : tensor<i64>\nreturn %b : tensor<i64>\n}\n\
        return %r : tensor<i64>\n}";
    let count = Tensor::from_slice(&[], &[1000i64]).unwrap();
    let found = run_with(&module(text), "main", &[count], &|_| None, Limits { bytes: 200, ..Limits::default() });
    assert_eq!(found.unwrap()[0].to_i64s(), [0]);
}

#[test]
fn what_is_no_entry_is_refused() {
    let module = module("kernel @main(%begin: i64, %end: i64) {\nreturn\n}");
    assert_eq!(run(&module, "main", &[]).unwrap_err().code, Code::E0601);
    assert_eq!(run(&module, "other", &[]).unwrap_err().code, Code::E0103);
}
