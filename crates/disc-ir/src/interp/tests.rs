//! Tests programs against outputs that were computed by hand.
//!
//! Each family has its file of [`Case`]s. Numbers are exact: a case passes if every element is
//! equal, NaN to NaN.
use super::*;
use crate::{
    ops::OPS,
    text::parse,
    types::{DType, TensorType},
};
use std::collections::HashSet;

mod contraction;
mod control;
mod elementwise;
mod grid;
mod index;
mod kernel;
mod limits;
mod movement;
mod random;
mod reduce;
mod sizes;
mod sort;
mod window;

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

/// A tensor: its type as in the text (`2x3xf32`) and its elements.
type Data = (&'static str, Vec<f64>);

struct Case {
    name: String,
    text: String,
    inputs: Vec<Data>,
    outputs: Vec<Data>,
}

/// A program `@main`, given by its parameters and results and its ops.
fn case(name: &str, signature: &str, ops: &str, inputs: &[(&'static str, &[f64])], outputs: &[(&'static str, &[f64])]) -> Case {
    let owned = |data: &[(&'static str, &[f64])]| data.iter().map(|(ty, elements)| (*ty, elements.to_vec())).collect();
    let text = format!("func @main{signature} {{\n{ops}\n}}");
    Case { name: name.into(), text, inputs: owned(inputs), outputs: owned(outputs) }
}

fn module(text: &str) -> Module {
    parse(text).unwrap_or_else(|errors| panic!("{text}\n{}", errors[0]))
}

fn tensor((ty, elements): &Data) -> Tensor {
    let (sizes, dtype) = ty.rsplit_once('x').map_or((None, *ty), |(sizes, dtype)| (Some(sizes), dtype));
    let dims: Vec<i64> = sizes.iter().flat_map(|s| s.split('x')).map(|size| size.parse().expect("a size")).collect();
    Tensor::from_f64s(DType::from_name(dtype).expect("an element type"), &dims, elements).expect("as many elements as sizes say")
}

fn run_text(text: &str, inputs: &[Data]) -> Result<Vec<Tensor>, Diagnostic> {
    run(&module(text), "main", &inputs.iter().map(tensor).collect::<Vec<_>>())
}

/// Returns true if type, sizes and elements are equal; zeros of both signs differ, NaNs do not.
fn same(a: &Tensor, b: &Tensor) -> bool {
    let equal = |(x, y): (f64, f64)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
    a.dtype() == b.dtype() && a.dims() == b.dims() && a.to_f64s().into_iter().zip(b.to_f64s()).all(equal)
}

impl Case {
    fn check(&self) {
        let found = run_text(&self.text, &self.inputs).unwrap_or_else(|e| panic!("{}: {e}\n{}", self.name, self.text));
        let wanted: Vec<Tensor> = self.outputs.iter().map(tensor).collect();
        let agree = found.len() == wanted.len() && found.iter().zip(&wanted).all(|(a, b)| same(a, b));
        assert!(agree, "{}\n{}\nfound  {found:?}\nwanted {wanted:?}", self.name, self.text);
    }
}

#[track_caller]
fn fails(text: &str, inputs: &[(&'static str, &[f64])], code: Code, words: &str) {
    let inputs: Vec<Data> = inputs.iter().map(|(ty, elements)| (*ty, elements.to_vec())).collect();
    let error = run_text(text, &inputs).expect_err("the program fails");
    assert!(error.code == code && error.to_string().contains(words), "{error}");
}

fn all_cases() -> Vec<Case> {
    let families = [
        elementwise::cases,
        movement::cases,
        index::cases,
        reduce::cases,
        window::cases,
        contraction::cases,
        sizes::cases,
        sort::cases,
        random::cases,
        control::cases,
        kernel::cases,
        grid::cases,
    ];
    families.into_iter().flat_map(|cases| cases()).collect()
}

#[test]
fn every_case_gives_its_outputs() {
    all_cases().iter().for_each(Case::check);
}

#[test]
fn every_op_is_run_by_a_case() {
    let mut seen = HashSet::new();
    for case in all_cases() {
        for function in &module(&case.text).functions {
            seen.extend(function.walk(function.body).into_iter().map(|inst| function.kind_of(inst)));
        }
    }
    let missing: Vec<&str> = OPS.iter().filter(|def| !seen.contains(&def.kind)).map(|def| def.name).collect();
    assert!(missing.is_empty(), "no case of interp/tests runs {missing:?}");
}

#[test]
fn every_element_type_is_stored_and_read_back() {
    for dtype in DType::ALL {
        let tensor = Tensor::from_f64s(dtype, &[2], &[0.0, 1.0]).unwrap();
        assert_eq!((tensor.to_f64s(), tensor.to_i64s()), (vec![0.0, 1.0], vec![0, 1]));
        assert_eq!(tensor.bytes().len(), 2 * dtype.size());
    }
    assert_eq!(Tensor::from_slice(&[2], &[1.5f32, 2.0]).unwrap().to_vec::<f32>(), Some(vec![1.5, 2.0]));
    assert_eq!(Tensor::scalar(true).to_vec::<u8>(), None);
    assert!(Tensor::from_slice(&[3], &[1u8]).is_err() && Tensor::new(DType::F32, vec![-1], vec![]).is_err());
}

#[test]
fn weights_come_from_the_caller_or_the_module() {
    let text = "weight @w : tensor<2xf32>\nweight @c = dense<[3, 4]> : tensor<2xi64>\n\
        func @main() -> (tensor<2xf32>, tensor<2xi64>) {\n  %w = weight @w : tensor<2xf32>\n\
        %c = weight @c : tensor<2xi64>\n  return %w, %c : (tensor<2xf32>, tensor<2xi64>)\n}";
    let module = module(text);
    assert_eq!(run(&module, "main", &[]).unwrap_err().code, Code::E0601);
    let weights = |name: &str| (name == "w").then(|| Tensor::from_slice(&[2], &[1f32, 2.0]).unwrap());
    let found = run_with(&module, "main", &[], &weights, Limits::default()).unwrap();
    assert_eq!([found[0].to_f64s(), found[1].to_f64s()], [[1.0, 2.0], [3.0, 4.0]]);
    let wrong = |_: &str| Some(Tensor::scalar(1f32));
    assert_eq!(run_with(&module, "main", &[], &wrong, Limits::default()).unwrap_err().code, Code::E0601);
    assert_eq!(module.weight("w").map(|w| &w.ty), Some(&TensorType::new([2.into()], DType::F32)));
}

#[test]
fn inputs_of_different_sizes_are_refused() {
    let text = "func @main(%x: tensor<[N]xf32>, %y: tensor<[N]xf32>) -> tensor<[N]xf32> {\n%r = add %x, %y : tensor<[N]xf32>\nreturn %r : tensor<[N]xf32>\n}";
    fails(text, &[("2xf32", &[1.0; 2]), ("3xf32", &[1.0; 3])], Code::E0602, "dimension 0 of input 1 (%y)");
    fails(text, &[("2xf32", &[1.0; 2]), ("2xi32", &[1.0; 2])], Code::E0601, "got i32 of rank 1");
    fails(text, &[("2xf32", &[1.0; 2])], Code::E0601, "takes 2 inputs, 1 were given");
}

#[test]
fn facts_are_checked_at_entry() {
    let mut module = module("func @main(%x: tensor<[N]x[M]xf32>) -> tensor<[N]x[M]xf32> {\nreturn %x : tensor<[N]x[M]xf32>\n}");
    module.functions[0].facts = crate::Facts::parse("N % 4 == 0, M <= N").unwrap();
    let run = |n: i64, m: i64| run(&module, "main", &[Tensor::zeros(DType::F32, vec![n, m])]);
    assert!(run(6, 1).unwrap_err().to_string().contains("needs N % 4 == 0, got N = 6"));
    assert!(run(4, 5).unwrap_err().to_string().contains("M = 5"));
    assert!(run(0, 0).is_ok() && run(8, 8).is_ok());
}
