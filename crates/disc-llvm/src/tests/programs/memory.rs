//! Weights and prepared weights.
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

#[test]
fn symbols_of_entries_are_identifiers_and_differ() {
    assert_eq!(entry_symbol("main"), "disc_entry_main");
    let names = ["a.b", "a_b", "a b", "größe", ""].map(entry_symbol);
    let is_identifier = |name: &String| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    assert!(names.iter().all(is_identifier), "{names:?}");
    assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len());
}
