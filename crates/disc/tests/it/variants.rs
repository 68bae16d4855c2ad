//! Tests the variant that an entry runs, by the names of the kernels that a call launches, against
//! the interpreter's results.
use disc::{
    Executable, Options, VariantReport, compile, parse,
    ral::{HostOutput, HostOutputs, HostTensor},
};
use disc_ir::interp::{self, Tensor};

/// Rotates the halves of two tensors by one table of positions.
const TURNS: &str = "
func @main(%q: tensor<[B]x[H]x[N]xf32>, %k: tensor<[C]x[K]x[N]xf32>, %w: tensor<[N]xf32>) -> (tensor<[B]x[H]x[N]xf32>, tensor<[C]x[K]x[N]xf32>) {
  %q2 = slice %q [0:B, 0:H, N/2:N] : (tensor<[B]x[H]x[N]xf32>) -> tensor<[B]x[H]x[N-N/2]xf32>
  %q1 = slice %q [0:B, 0:H, 0:N/2] : (tensor<[B]x[H]x[N]xf32>) -> tensor<[B]x[H]x[N/2]xf32>
  %nq = negate %q2 : tensor<[B]x[H]x[N-N/2]xf32>
  %tq = concatenate %nq, %q1, dim = 2 : (tensor<[B]x[H]x[N-N/2]xf32>, tensor<[B]x[H]x[N/2]xf32>) -> tensor<[B]x[H]x[N]xf32>
  %wq = broadcast_in_dim %w, dims = [2] : (tensor<[N]xf32>) -> tensor<[B]x[H]x[N]xf32>
  %rq = multiply %tq, %wq : tensor<[B]x[H]x[N]xf32>
  %k2 = slice %k [0:C, 0:K, N/2:N] : (tensor<[C]x[K]x[N]xf32>) -> tensor<[C]x[K]x[N-N/2]xf32>
  %k1 = slice %k [0:C, 0:K, 0:N/2] : (tensor<[C]x[K]x[N]xf32>) -> tensor<[C]x[K]x[N/2]xf32>
  %nk = negate %k2 : tensor<[C]x[K]x[N-N/2]xf32>
  %tk = concatenate %nk, %k1, dim = 2 : (tensor<[C]x[K]x[N-N/2]xf32>, tensor<[C]x[K]x[N/2]xf32>) -> tensor<[C]x[K]x[N]xf32>
  %wk = broadcast_in_dim %w, dims = [2] : (tensor<[N]xf32>) -> tensor<[C]x[K]x[N]xf32>
  %rk = multiply %tk, %wk : tensor<[C]x[K]x[N]xf32>
  return %rq, %rk : tensor<[B]x[H]x[N]xf32>, tensor<[C]x[K]x[N]xf32>
}";

/// Two parts of one size without a remainder; a variant for a divisibility would change nothing
/// here.
const GATE: &str = "
func @main(%x: tensor<[B]x[N]xf32>) -> tensor<[B]x[N/2]xf32> {
  %a = slice %x [0:B, 0:N/2] : (tensor<[B]x[N]xf32>) -> tensor<[B]x[N/2]xf32>
  %b = slice %x [0:B, N/2:N/2*2] : (tensor<[B]x[N]xf32>) -> tensor<[B]x[N/2]xf32>
  %y = multiply %a, %b : tensor<[B]x[N/2]xf32>
  return %y : tensor<[B]x[N/2]xf32>
}";

fn load(program: &str) -> Executable {
    let options = Options { threads: Some(1), ..Options::default() };
    compile(parse(program).unwrap(), &options).unwrap().load(Vec::new(), &options).unwrap()
}

/// Returns the kernels that a call launches; asserts that its results are those of the interpreter.
fn launched(executable: &Executable, program: &str, sizes: &[Vec<i64>]) -> Vec<String> {
    let values = |dims: &Vec<i64>| (0..dims.iter().product::<i64>()).map(|i| (i * 7919 % 997) as f32 - 400.5).collect::<Vec<_>>();
    let inputs: Vec<HostTensor> = sizes.iter().map(|dims| HostTensor::new(dims, &values(dims)).unwrap()).collect();
    let inputs: Vec<_> = inputs.iter().map(HostTensor::as_input).collect();
    let mut outputs = HostOutputs::new();
    let launches = executable.with_session(|session| {
        session.start_profile();
        executable.run(0, session, &inputs, &mut outputs).unwrap();
        session.take_profile()
    });
    let tensors: Vec<Tensor> = sizes.iter().map(|dims| Tensor::from_slice(dims, &values(dims)).unwrap()).collect();
    let expected = interp::run(&parse(program).unwrap(), "main", &tensors).unwrap();
    for (output, expected) in outputs.take().into_iter().zip(expected) {
        let Some(HostOutput::Fresh(found)) = output else { panic!("an output has memory of its own") };
        assert_eq!(found.elements::<f32>().unwrap(), expected.to_vec::<f32>().unwrap(), "{sizes:?}");
    }
    launches.iter().map(|launch| launch.name.as_deref().expect("code has names").to_owned()).collect()
}

#[test]
fn a_variant_runs_where_what_it_states_holds() {
    let executable = load(TURNS);
    let variant = |when: &str, kernels| VariantReport { when: when.into(), kernels };
    let report = executable.report().unwrap();
    assert_eq!(report.variants, [variant("B == C, H == K, N % 2 == 0", 1), variant("N % 2 == 0", 2)]);
    assert_eq!(report.kernels, 2, "kernels of a call that runs no variant");
    for ([b, h, c, k, n], kernels, is_variant) in [
        ([2, 3, 2, 3, 64], 1, true),
        ([2, 3, 2, 3, 2], 1, true),
        ([1, 1, 1, 1, 48], 1, true),
        ([2, 4, 2, 1, 64], 2, true),
        ([2, 3, 3, 2, 6], 2, true),
        ([2, 3, 2, 3, 65], 2, false),
        ([2, 3, 2, 1, 33], 2, false),
        ([2, 3, 2, 3, 1], 2, false),
    ] {
        let names = launched(&executable, TURNS, &[vec![b, h, n], vec![c, k, n], vec![n]]);
        assert_eq!(names.len(), kernels, "{b} x {h}, {c} x {k}, {n}: {names:?}");
        assert!(names.iter().all(|name| name.contains("_variant_") == is_variant), "{n}: {names:?}");
    }
    for [b, h, c, k, n] in [[0, 3, 0, 3, 8], [0, 3, 1, 3, 8], [2, 3, 0, 3, 5], [2, 3, 2, 3, 0]] {
        launched(&executable, TURNS, &[vec![b, h, n], vec![c, k, n], vec![n]]);
    }
}

#[test]
fn what_does_not_fit_is_said_before_a_variant_is_chosen() {
    let executable = load(TURNS);
    let inputs = [[2, 3, 8], [2, 3, 6]].map(|dims| HostTensor::zeros(disc::ral::DType::F32, &dims).unwrap());
    let row = HostTensor::zeros(disc::ral::DType::F32, &[8]).unwrap();
    let inputs = [inputs[0].as_input(), inputs[1].as_input(), row.as_input()];
    let error = executable.with_session(|session| executable.run(0, session, &inputs, &mut HostOutputs::new())).unwrap_err();
    assert!(error.to_string().contains("dimension 2 of `k` has size 6, expected N = 8"), "{error}");
}

#[test]
fn a_variant_whose_kernels_are_those_of_the_entry_is_none() {
    let executable = load(GATE);
    assert!(executable.report().unwrap().variants.is_empty(), "{:?}", executable.report().unwrap().variants);
    let names = launched(&executable, GATE, &[vec![3, 64]]);
    assert!(names.iter().all(|name| !name.contains("variant_")), "{names:?}");
}

#[test]
fn programs_of_many_groups_have_one_variant() {
    // Each sort is a group: there are more than a variant may have.
    let sorts = |count: usize| {
        let sort = |i: usize| {
            let from = if i == 0 { "q".to_owned() } else { format!("s{i}") };
            format!(
                "  %s{}, %i{i} = top_k %{from}, k = [N] : (tensor<[B]x[H]x[N]xf32>) -> (tensor<[B]x[H]x[N]xf32>, tensor<[B]x[H]x[N]xi32>)\n",
                i + 1
            )
        };
        let sorts: String = (0..count).map(sort).collect();
        TURNS.replacen("slice %q ", &format!("slice %s{count} "), 2).replacen(" {\n", &format!(" {{\n{sorts}"), 1)
    };
    let variants = |count| load(&sorts(count)).report().unwrap().variants.len();
    assert_eq!([1, 7].map(variants), [2, 0]);
}
