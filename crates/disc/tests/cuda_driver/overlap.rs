//! Tests launches that may begin while the ones before run.
use crate::{
    child::{in_child, is_child},
    common::*,
    graphs::SEVERAL,
    start::in_child_lacking,
};
use disc::{Executable, ral::SessionState};

const F32S: disc::ral::DType = disc::ral::DType::F32;
const WANTED: (&str, &str) = ("DISC_CUDA_PDL", "1");
const NO_GRAPHS: (&str, &str) = ("DISC_CUDA_GRAPHS", "0");

/// Calls a program of several launches. Returns how each was launched: true for one that may begin
/// early.
fn launches(driver: &Driver, executable: &Executable, session: &mut SessionState) -> Vec<bool> {
    let device = cuda(0);
    let elements = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0].map(f32::to_le_bytes).concat();
    let (x, y) = (There::new(&device, &elements), There::new(&device, &[0; 12]));
    driver.fake.calls();
    executable.run(0, session, &[x.tensor(F32S, &[2, 3])], &mut Into(&y)).unwrap();
    let calls = driver.fake.calls();
    session.synchronize().unwrap();
    assert_eq!(y.values(), [-16.0, -14.0, -12.0]);
    let launches = calls.iter().filter(|call| call.starts_with("cuLaunchKernel"));
    launches.map(|call| call == "cuLaunchKernelEx").collect()
}

#[test]
fn launches_overlap_where_it_is_asked_for() {
    if !is_child() {
        return in_child("overlap::launches_overlap_where_it_is_asked_for", &[WANTED, NO_GRAPHS]);
    }
    let driver = driver();
    let executable = load(SEVERAL, "cuda:0").unwrap();
    let mut session = new_session(0);
    for _ in 0..4 {
        let found = launches(&driver, &executable, &mut session);
        // Of others the first launch of a call knows nothing.
        assert!(found.len() >= 2 && !found[0] && found[1..].iter().all(|early| *early), "{found:?}");
    }
    // No launch begins early after one that failed.
    driver.fake.fail("cuLaunchKernelEx", 0, 999);
    let device = cuda(0);
    let (x, y) = (There::new(&device, &[0; 24]), There::new(&device, &[0; 12]));
    let error = executable.run(0, &mut session, &[x.tensor(F32S, &[2, 3])], &mut Into(&y)).unwrap_err();
    assert!(error.to_string().contains("cuLaunchKernelEx"), "{error}");
    assert!(launches(&driver, &executable, &mut session).len() >= 2);
}

#[test]
fn copies_and_graphs_are_in_front_of_no_early_launch() {
    if !is_child() {
        return in_child("overlap::copies_and_graphs_are_in_front_of_no_early_launch", &[WANTED]);
    }
    let driver = driver();
    let executable = load(SEVERAL, "cuda:0").unwrap();
    let mut session = new_session(0);
    let counts: Vec<usize> = (0..5).map(|_| launches(&driver, &executable, &mut session).len()).collect();
    // From the third call on the launches are those of a graph.
    assert!(counts[0] >= 2 && counts[1] == counts[0] && counts[2..] == [0; 3], "{counts:?}");
    // The fake driver refuses an early launch after a copy: sizes that are fetched are copied.
    let text = "func @main(%x: tensor<[N]xf32>) -> tensor<[M]xi64> where M <= N {
  %zero = constant dense<0.0> : tensor<f32>
  %b = broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<[N]xf32>
  %p = compare GT, %x, %b : (tensor<[N]xf32>, tensor<[N]xf32>) -> tensor<[N]xi1>
  %none = constant dense<0> : tensor<i64>
  %ones = convert %p : (tensor<[N]xi1>) -> tensor<[N]xi64>
  %m = reduce %ones, %none, dims = [0] : (tensor<[N]xi64>, tensor<i64>) -> tensor<i64> applies add
  bind_dim %m, dim = [M] : tensor<i64>
  %y = nonzero %p : (tensor<[N]xi1>) -> tensor<[M]xi64>
  %r = add %y, %y : tensor<[M]xi64>
  return %r : tensor<[M]xi64>
}";
    let executable = load(text, "cuda:0").unwrap();
    for _ in 0..3 {
        let mut outputs = disc::ral::HostOutputs::new();
        let input = floats(&[1.0, -1.0, 2.0, 3.0]);
        executable.run(0, &mut session, &[input.as_input()], &mut outputs).unwrap();
        let Some(disc::ral::HostOutput::Fresh(found)) = outputs.get(0) else { panic!("an output of its own") };
        assert_eq!(found.elements::<i64>().unwrap(), [0, 4, 6]);
    }
}

#[test]
fn launches_do_not_overlap_otherwise() {
    const TEST: &str = "overlap::launches_do_not_overlap_otherwise";
    if !is_child() {
        in_child(TEST, &[NO_GRAPHS]);
        in_child(TEST, &[NO_GRAPHS, ("DISC_CUDA_PDL", "0")]);
        // A chip without the instruction, and a driver without the function.
        in_child(TEST, &[NO_GRAPHS, WANTED, ("FAKE_CUDA_CHIP", "89")]);
        return in_child_lacking("cuLaunchKernelEx", TEST, &[NO_GRAPHS, WANTED]);
    }
    let driver = driver();
    let executable = load(SEVERAL, "cuda:0").unwrap();
    let found = launches(&driver, &executable, &mut new_session(0));
    assert!(found.len() >= 2 && found.iter().all(|early| !early), "{found:?}");
}
