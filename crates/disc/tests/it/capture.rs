//! Replays captured calls, and reduces failing ones.
use disc::{
    Options, WeightForm,
    capture::{CallFacts, Capture, Output, reduce, replay},
};
use disc_ir::{DType, OpKind, interp::Tensor};

const PROGRAM: &str = "
weight @w : tensor<4x4xf32>
func @main(%x: tensor<[B]x[S]x4xf32>, %y: tensor<[B]x4xf32>) -> tensor<[B]x[S]x4xf32> where S <= 512 {
  %w = weight @w : tensor<4x4xf32>
  %a = dot_general %x, %w, contracting_dims = [2] x [0] : (tensor<[B]x[S]x4xf32>, tensor<4x4xf32>) -> tensor<[B]x[S]x4xf32>
  %b = exponential %a : tensor<[B]x[S]x4xf32>
  %c = broadcast_in_dim %y, dims = [0, 2] : (tensor<[B]x4xf32>) -> tensor<[B]x[S]x4xf32>
  %d = multiply %b, %c : tensor<[B]x[S]x4xf32>
  %e = tanh %d : tensor<[B]x[S]x4xf32>
  %f = add %e, %x : tensor<[B]x[S]x4xf32>
  %g = negate %f : tensor<[B]x[S]x4xf32>
  return %g : tensor<[B]x[S]x4xf32>
}";

fn values(dims: &[i64]) -> Tensor {
    let count = dims.iter().product::<i64>();
    let elements: Vec<f64> = (0..count).map(|i| (i as f64 * 0.37).sin()).collect();
    Tensor::from_f64s(DType::F32, dims, &elements).unwrap()
}

fn capture() -> Capture {
    let inputs = vec![values(&[3, 5, 4]), values(&[3, 4])];
    let weights = vec![("w".to_owned(), values(&[4, 4]))];
    let facts = CallFacts { threads: Some(1), ..CallFacts::default() };
    Capture { module: disc::parse(PROGRAM).unwrap(), entry: "main".into(), inputs, weights, facts }
}

#[test]
fn a_call_is_computed_again_bit_by_bit() {
    let mut captured = capture();
    let first = replay(&captured, &Options::default()).compiled.unwrap();
    captured.facts.outputs = first.iter().map(Output::of).collect();
    let again = replay(&captured, &Options::default());
    assert_eq!(again.differing_bits, Some(Vec::new()));
    assert_eq!(again.expected.unwrap()[0].dims(), [3, 5, 4]);
    captured.facts.outputs[0].blake3 = "0".repeat(64);
    assert_eq!(replay(&captured, &Options::default()).differing_bits, Some(vec![0]));
}

#[test]
fn narrow_weights_are_compared_with_weights_of_the_same_width() {
    let program = "
weight @w : tensor<64x40xf32>
func @main(%x: tensor<[B]x64xf32>) -> tensor<[B]x40xf32> {
  %w = weight @w : tensor<64x40xf32>
  %y = dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<[B]x64xf32>, tensor<64x40xf32>) -> tensor<[B]x40xf32>
  return %y : tensor<[B]x40xf32>
}";
    let facts = CallFacts { threads: Some(1), ..CallFacts::default() };
    let (inputs, weights) = (vec![values(&[5, 64])], vec![("w".to_owned(), values(&[64, 40]))]);
    let captured = Capture { module: disc::parse(program).unwrap(), entry: "main".into(), inputs, weights, facts };
    let outputs = |weights| {
        let again = replay(&captured, &Options { weights, ..Options::default() });
        (again.compiled.unwrap()[0].to_f64s(), again.expected.unwrap()[0].to_f64s())
    };
    let error = |(a, b): (&[f64], &[f64])| a.iter().zip(b).fold(0.0_f64, |most, (a, b)| most.max((a - b).abs()));
    let exact = outputs(WeightForm::Exact).1;
    for weights in [WeightForm::Bf16, WeightForm::Int8, WeightForm::Int4] {
        let (compiled, expected) = outputs(weights);
        assert!(error((&compiled, &expected)) < 1e-5, "{weights:?}");
        assert!(error((&compiled, &exact)) > 1e-4, "{weights:?}");
    }
}

/// Fails as code would in which one kind of op is wrong.
fn has(kind: OpKind) -> impl FnMut(&Capture) -> bool {
    move |capture| {
        let function = capture.module.function("main").unwrap();
        let is_there = function.walk(function.body).into_iter().any(|inst| function.kind_of(inst) == kind);
        is_there && replay(capture, &Options::default()).compiled.is_ok()
    }
}

#[test]
fn a_failing_call_is_reduced_to_the_op_at_fault() {
    for kind in [OpKind::Tanh, OpKind::DotGeneral, OpKind::BroadcastInDim] {
        let reduced = reduce(&capture(), &mut has(kind)).unwrap().unwrap();
        // A broadcast needs an op that binds the dim that it broadcasts to.
        assert!(reduced.ops <= 1 + usize::from(kind == OpKind::BroadcastInDim), "{}", reduced.capture.module);
        let sizes: Vec<&[i64]> = reduced.capture.inputs.iter().map(Tensor::dims).collect();
        assert!(sizes.iter().all(|dims| dims.iter().all(|&size| size == 1 || size == 4)), "{sizes:?}");
        assert!(reduced.capture.module.function("main").unwrap().facts.is_empty());
        assert_eq!(reduced.capture.weights.len(), usize::from(kind == OpKind::DotGeneral));
    }
}

#[test]
fn a_fault_of_two_ops_keeps_both() {
    let mut fails = |capture: &Capture| has(OpKind::Exponential)(capture) && has(OpKind::Tanh)(capture);
    let reduced = reduce(&capture(), &mut fails).unwrap().unwrap();
    assert!(reduced.ops <= 3, "{}", reduced.capture.module);
    assert!(reduce(&capture(), &mut |_| false).unwrap().is_none());
}
