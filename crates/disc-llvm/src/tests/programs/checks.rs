//! Checks the inputs that an entry refuses: sizes, facts, strides, and failures inside of control
//! flow. After each, the next call works.
use super::run::{executable, host_tensor, lowered, parse, run};
use disc_codegen::target::Target;
use disc_ir::interp::Tensor;
use disc_ral::{Error, Executable, HostOutputs};
use std::collections::BTreeMap;

fn load(text: &str) -> Executable {
    let target = Target::host().unwrap();
    executable(&lowered(parse(text), &target), &target, &BTreeMap::new())
}

fn ones(dims: &[i64]) -> Tensor {
    Tensor::from_f64s(disc_ir::DType::F32, dims, &vec![1.0; dims.iter().product::<i64>() as usize]).unwrap()
}

fn refused(executable: &Executable, inputs: &[Tensor], code: &str, message: &str) {
    let error: Error = run(executable, inputs).unwrap_err();
    assert_eq!((&*error.code, error.message.as_str()), (code, message));
}

#[test]
fn sizes_are_compared_with_the_signature() {
    let add = load(
        "func @main(%x: tensor<[B]x3xf32>, %y: tensor<[B]x3xf32>, %z: tensor<[2*B+1]xf32>) -> (tensor<[B]x3xf32>, tensor<[2*B+1]xf32>) {
  %a = add %x, %y : tensor<[B]x3xf32>
  %b = add %z, %z : tensor<[2*B+1]xf32>
  return %a, %b : (tensor<[B]x3xf32>, tensor<[2*B+1]xf32>)
}",
    );
    let good = [ones(&[4, 3]), ones(&[4, 3]), ones(&[9])];
    assert_eq!(run(&add, &good).unwrap()[0].to_f64s(), [2.0; 12]);
    let with = |at: usize, tensor: Tensor| {
        let mut inputs = good.to_vec();
        inputs[at] = tensor;
        inputs
    };
    refused(&add, &with(1, ones(&[5, 3])), "E0602", "dimension 0 of `y` has size 5, expected B = 4");
    refused(&add, &with(0, ones(&[4, 2])), "E0602", "dimension 1 of `x` has size 2, expected 3 = 3");
    refused(&add, &with(2, ones(&[8])), "E0602", "dimension 0 of `z` has size 8, expected 2*B+1 = 9");
    assert_eq!(run(&add, &good).unwrap()[1].to_f64s(), [2.0; 9]);
}

#[test]
fn facts_are_checked_before_anything_is_made() {
    let add = load(
        "func @main(%x: tensor<[B]x[S]xf32>, %y: tensor<[N]xf32>) -> (tensor<[B]x[S]xf32>, tensor<[N]xf32>) where 2 <= S <= 512, S % 4 == 0, B*S == 8*N, N >= 1, B likely [3] {
  %a = add %x, %x : tensor<[B]x[S]xf32>
  %b = add %y, %y : tensor<[N]xf32>
  return %a, %b : (tensor<[B]x[S]xf32>, tensor<[N]xf32>)
}",
    );
    assert_eq!(run(&add, &[ones(&[2, 8]), ones(&[2])]).unwrap()[1].to_f64s(), [2.0; 2]);
    let bad = |x: [i64; 2], n: i64, message: &str| refused(&add, &[ones(&x), ones(&[n])], "E0602", message);
    bad([1, 516], 1, "dim B*S is 516 and dim 8*N is 8, expected B*S == 8*N");
    bad([4, 514], 257, "dim S is 514, expected 2 <= S <= 512");
    bad([4, 6], 3, "dim S is 6, expected S % 4 == 0");
    bad([0, 8], 0, "dim N is 0, expected N >= 1");
    assert!(run(&add, &[ones(&[8, 512]), ones(&[512])]).is_ok());
}

#[test]
fn strides_are_refused() {
    let add = load(
        "func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[B]x[S]xf32> {
  %a = add %x, %x : tensor<[B]x[S]xf32>
  return %a : tensor<[B]x[S]xf32>
}",
    );
    let x = host_tensor(&ones(&[4, 6]));
    let mut outputs = HostOutputs::new();
    let mut session = add.session();
    let error = add.run(0, &mut session, &[x.as_input().strides(&[1, 4])], &mut outputs).unwrap_err();
    assert_eq!(error.message, "input 0 has strides, expected contiguous memory in row-major order");
    assert_eq!(error.code, "E0601");
    add.run(0, &mut session, &[x.as_input().strides(&[6, 1])], &mut outputs).unwrap();
}

/// The assertion is in a branch inside of a loop, and so is a kernel that checks its indices.
#[test]
fn failures_in_nested_control_flow_end_the_entry() {
    let looks_up = load(
        "func @main(%n: tensor<i64>, %t: tensor<5xf32>, %ids: tensor<[B]x1xi64>) -> tensor<[B]xf32> {
  %z = constant dense<0> : tensor<i64>
  %f = constant dense<0.0> : tensor<[B]xf32>
  %i, %r = while %z, %f : (tensor<i64>, tensor<[B]xf32>) -> (tensor<i64>, tensor<[B]xf32>) cond(%j: tensor<i64>, %c: tensor<[B]xf32>) {
    %more = compare LT, %j, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
    return %more : tensor<i1>
  } do(%j: tensor<i64>, %c: tensor<[B]xf32>) {
    %one = constant dense<1> : tensor<i64>
    %k = add %j, %one : tensor<i64>
    %three = constant dense<3> : tensor<i64>
    %few = compare LT, %j, %three : (tensor<i64>, tensor<i64>) -> tensor<i1>
    assert %few, message = \"at most three rounds\" : tensor<i1>
    %late = compare EQ, %j, %one : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %e = if %late : (tensor<i1>) -> tensor<[B]xf32> then {
      %g = gather %t, %ids, offset_dims = [], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1, slice_sizes = [1], bounds = check : (tensor<5xf32>, tensor<[B]x1xi64>) -> tensor<[B]xf32>
      return %g : tensor<[B]xf32>
    } else {
      return %c : tensor<[B]xf32>
    }
    return %k, %e : (tensor<i64>, tensor<[B]xf32>)
  }
  return %r : tensor<[B]xf32>
}",
    );
    let ids = |ids: &[i64]| Tensor::from_slice(&[ids.len() as i64, 1], ids).unwrap();
    let table = Tensor::from_slice(&[5], &[0.0_f32, 10.0, 20.0, 30.0, 40.0]).unwrap();
    let inputs = |rounds: i64, wanted: &[i64]| [Tensor::scalar(rounds), table.clone(), ids(wanted)];
    assert_eq!(run(&looks_up, &inputs(3, &[4, 2])).unwrap()[0].to_f64s(), [40.0, 20.0]);
    assert_eq!(run(&looks_up, &inputs(1, &[9, 9])).unwrap()[0].to_f64s(), [0.0, 0.0]);
    let error = run(&looks_up, &inputs(2, &[4, 9])).unwrap_err();
    assert_eq!(error.code, "E0603", "{error}");
    assert!(error.values.contains(&9), "{error:?}");
    refused(&looks_up, &inputs(4, &[0, 1]), "E0604", "at most three rounds");
    assert_eq!(run(&looks_up, &inputs(2, &[3, 3])).unwrap()[0].to_f64s(), [30.0, 30.0]);
}
