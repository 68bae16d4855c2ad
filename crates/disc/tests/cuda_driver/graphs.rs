//! Tests the graphs of calls that come again.
use crate::common::*;

/// Rows without their sums, added up: several launches.
pub(crate) const SEVERAL: &str = "func @main(%x: tensor<[N]x[M]xf32>) -> tensor<[M]xf32> {
  %zero = constant dense<0.0> : tensor<f32>
  %s = reduce %x, %zero, dims = [1] : (tensor<[N]x[M]xf32>, tensor<f32>) -> tensor<[N]xf32> applies add
  %b = broadcast_in_dim %s, dims = [0] : (tensor<[N]xf32>) -> tensor<[N]x[M]xf32>
  %d = subtract %x, %b : tensor<[N]x[M]xf32>
  %t = reduce %d, %zero, dims = [0] : (tensor<[N]x[M]xf32>, tensor<f32>) -> tensor<[M]xf32> applies add
  return %t : tensor<[M]xf32>
}";

#[test]
fn calls_that_come_again_start_as_a_graph() {
    let driver = driver();
    let executable = load(SEVERAL, "cuda:0").unwrap();
    let device = cuda(0);
    let mut session = new_session(0);
    let f32s = disc::ral::DType::F32;
    let mut call = |rows: usize, first: f32| {
        let elements: Vec<f32> = (0..rows * 3).map(|number| number as f32 + first).collect();
        let x = There::new(&device, &elements.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>());
        let y = There::new(&device, &[0; 12]);
        driver.fake.calls();
        executable.run(0, &mut session, &[x.tensor(f32s, &[rows as i64, 3])], &mut Into(&y)).unwrap();
        let calls = driver.fake.calls();
        session.synchronize().unwrap();
        let sums: Vec<f32> = elements.chunks(3).map(|row| row.iter().sum()).collect();
        let column = |column: usize| elements.chunks(3).zip(&sums).map(|(row, sum)| row[column] - sum).sum::<f32>();
        assert_eq!(y.values(), [column(0), column(1), column(2)]);
        let count = |name: &str| calls.iter().filter(|call| *call == name).count();
        ["cuLaunchKernel", "cuGraphInstantiateWithFlags", "cuGraphExecKernelNodeSetParams_v2", "cuGraphLaunch"].map(count)
    };
    let [launches, ..] = call(4, 0.0);
    assert!(launches >= 2, "{launches}");
    assert_eq!(call(5, 1.0), [launches, 0, 0, 0]);
    assert_eq!(call(4, 2.0), [launches, 0, 0, 0]);
    assert_eq!(call(4, 3.0), [0, 1, 0, 1]);
    assert_eq!(call(5, 4.0), [launches, 0, 0, 0]);
    for number in 0..3 {
        let [single, made, changed, started] = call(4, number as f32);
        // Nodes that name memory of the caller are changed, if it has moved.
        assert!((single, made, started) == (0, 0, 1) && changed <= 2, "{changed}");
    }
    assert_eq!(call(5, 5.0), [0, 1, 0, 1]);
    // Graphs are bounded.
    for rows in 6..20 {
        for _ in 0..3 {
            call(rows, 0.0);
        }
    }
    assert!(driver.fake.alive("graphs") <= 2 * 8);
    drop(session);
    assert_eq!(driver.fake.alive("graphs"), 0);
}

#[test]
fn functions_of_graphs_may_fail() {
    let driver = driver();
    let executable = load(SEVERAL, "cuda:0").unwrap();
    let functions = [
        "cuGraphCreate",
        "cuGraphAddKernelNode_v2",
        "cuGraphInstantiateWithFlags",
        "cuGraphExecKernelNodeSetParams_v2",
        "cuGraphLaunch",
    ];
    let device = cuda(0);
    let f32s = disc::ral::DType::F32;
    let bytes = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0].map(f32::to_le_bytes).concat();
    for function in functions {
        let mut session = new_session(0);
        // Memory that moves from call to call, so that nodes have to be changed.
        let places = [(); 2].map(|()| (There::new(&device, &bytes), There::new(&device, &[0; 12])));
        let mut failed = Vec::new();
        for number in 0..6 {
            if number == 2 {
                driver.fake.fail(function, 0, 999);
            }
            let (x, y) = &places[number % 2];
            match executable.run(0, &mut session, &[x.tensor(f32s, &[2, 3])], &mut Into(y)) {
                Ok(()) => {
                    session.synchronize().unwrap();
                    assert_eq!(y.values(), [-16.0, -14.0, -12.0], "{function}, call {number}");
                }
                Err(error) => {
                    assert!(error.to_string().contains(function), "{function}: {error}");
                    failed.push(number);
                }
            }
        }
        assert!(!driver.fake.forget(), "{function} was not called");
        // A graph that cannot be made is none: its launches are made one by one.
        let expected: &[usize] = match function {
            "cuGraphExecKernelNodeSetParams_v2" => &[3],
            "cuGraphLaunch" => &[2],
            _ => &[],
        };
        assert_eq!(failed, expected, "{function}");
        drop(session);
    }
    assert_eq!(driver.fake.alive("graphs"), 0);
}
