//! Tests weights, prepared weights, and failures of allocation.
use super::run::{executable, lowered, parse, run};
use crate::entry_symbol;
use disc_codegen::target::Target;
use disc_ir::interp::Tensor;
use std::collections::BTreeMap;

fn floats(values: &[f32]) -> Tensor {
    Tensor::from_slice(&[values.len() as i64], values).unwrap()
}

#[test]
fn prepared_weights_are_made_once_and_read_at_every_call() {
    let module = parse(
        "weight @a : tensor<3xf32>
weight @b : tensor<3xf32>
weight @sum = prepared 0 : tensor<3xf32>
weight @product = prepared 1 : tensor<3xf32>
func @prepare() -> (tensor<3xf32>, tensor<3xf32>) {
  %a = weight @a : tensor<3xf32>
  %b = weight @b : tensor<3xf32>
  %s = add %a, %b : tensor<3xf32>
  %p = multiply %a, %b : tensor<3xf32>
  return %s, %p : (tensor<3xf32>, tensor<3xf32>)
}
func @main(%x: tensor<[B]x3xf32>) -> tensor<[B]x3xf32> {
  %p = weight @product : tensor<3xf32>
  %s = weight @sum : tensor<3xf32>
  %pb = broadcast_in_dim %p, dims = [1] : (tensor<3xf32>) -> tensor<[B]x3xf32>
  %sb = broadcast_in_dim %s, dims = [1] : (tensor<3xf32>) -> tensor<[B]x3xf32>
  %m = multiply %x, %pb : tensor<[B]x3xf32>
  %y = add %m, %sb : tensor<[B]x3xf32>
  return %y : tensor<[B]x3xf32>
}",
    );
    let target = Target::host().unwrap();
    let weights = [("a", floats(&[1.0, 2.0, 3.0])), ("b", floats(&[10.0, 20.0, 30.0]))];
    let weights: BTreeMap<String, Tensor> = weights.map(|(name, tensor)| (name.to_owned(), tensor)).into();
    let executable = executable(&lowered(module, &target), &target, &weights);
    for rows in [0, 1, 4] {
        let x = Tensor::from_slice(&[rows, 3], &vec![2.0_f32; 3 * rows as usize]).unwrap();
        let got = run(&executable, &[x]).unwrap()[0].to_f64s();
        assert_eq!(got, [31.0, 102.0, 213.0].repeat(rows as usize));
    }
}

/// Two sizes whose product is beyond any memory: neither the temporary value nor the output can be
/// allocated.
#[test]
fn memory_that_cannot_be_had_is_an_error_and_the_next_call_works() {
    let module = parse(
        "func @main(%x: tensor<[B]x[Z]xf32>, %y: tensor<[S]x[Z]xf32>) -> tensor<[B]x[S]xf32> {
  %z = constant dense<0.0> : tensor<f32>
  %d = dot_general %x, %y, lhs_contracting_dims = [1], rhs_contracting_dims = [1] : (tensor<[B]x[Z]xf32>, tensor<[S]x[Z]xf32>) -> tensor<[B]x[S]xf32>
  %c = cumulative %d, %z, dim = 1 : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]x[S]xf32> applies add
  return %c : tensor<[B]x[S]xf32>
}",
    );
    let target = Target::host().unwrap();
    let executable = executable(&lowered(module, &target), &target, &BTreeMap::new());
    let empty = |rows: i64| Tensor::from_slice::<f32>(&[rows, 0], &[]).unwrap();
    for (rows, columns) in [(1 << 31, 1 << 30), (1 << 31, 1 << 31), (1 << 60, 1 << 4), (1 << 60, 1 << 20), (1 << 32, 1 << 32)] {
        let error = run(&executable, &[empty(rows), empty(columns)]).unwrap_err();
        assert!(["E0605", "E0607"].contains(&&*error.code), "{rows} {columns}: {error}");
    }
    assert_eq!(run(&executable, &[empty(2), empty(3)]).unwrap()[0].to_f64s(), [0.0; 6]);
}

/// The size of the last input is the product of the others, modulo 2^64.
#[test]
fn sizes_do_not_wrap_in_checks() {
    let module = parse(
        "func @main(%x: tensor<[B]x[S]x[Z]xf32>, %y: tensor<[B*S]xf32>, %h: tensor<[(B*S)/4]xf32>) -> (tensor<[B*S]xf32>, tensor<[(B*S)/4]xf32>) {
  %a = add %y, %y : tensor<[B*S]xf32>
  %b = add %h, %h : tensor<[(B*S)/4]xf32>
  return %a, %b : (tensor<[B*S]xf32>, tensor<[(B*S)/4]xf32>)
}",
    );
    let target = Target::host().unwrap();
    let executable = executable(&lowered(module, &target), &target, &BTreeMap::new());
    let empty = |dims: &[i64]| Tensor::from_slice::<f32>(dims, &[]).unwrap();
    let error = run(&executable, &[empty(&[1 << 32, 1 << 32, 0]), empty(&[0]), empty(&[0])]).unwrap_err();
    assert_eq!(error.message, format!("dimension 0 of `y` has size 0, expected B*S = {}", i64::MAX));
    let good = [empty(&[2, 4, 0]), floats(&[1.0; 8]), floats(&[2.0; 2])];
    assert_eq!(run(&executable, &good).unwrap()[1].to_f64s(), [4.0; 2]);
}

#[test]
fn symbols_of_entries_are_identifiers_and_differ() {
    assert_eq!(entry_symbol("main"), "disc_entry_main");
    let names = ["a.b", "a_b", "a b", "größe", ""].map(entry_symbol);
    let is_identifier = |name: &String| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    assert!(names.iter().all(is_identifier), "{names:?}");
    assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len());
}
