//! Measures the cost of a host program, next to the kernels that it launches.
use super::run::{compiled, executable, host_tensor, lowered, parse};
use disc_codegen::target::Target;
use disc_ir::interp::Tensor;
use disc_ral::HostOutputs;
use std::{collections::BTreeMap, fmt::Write, time::Instant};

/// Builds as many launches as steps: a cumulative sum is never fused with another.
fn chain(steps: usize) -> String {
    let mut text = "func @main(%x0: tensor<[B]xf32>) -> tensor<[B]xf32> {\n  %z = constant dense<0.0> : tensor<f32>\n".to_owned();
    for i in 0..steps {
        let step = format!(
            "  %x{} = cumulative %x{i}, %z, dim = 0 : (tensor<[B]xf32>, tensor<f32>) -> tensor<[B]xf32> applies add",
            i + 1
        );
        writeln!(text, "{step}").unwrap();
    }
    write!(text, "  return %x{steps} : tensor<[B]xf32>\n}}").unwrap();
    text
}

/// Prints times; asserts only bounds that hold on a busy machine without optimisation.
#[test]
fn a_hundred_launches() {
    let target = Target::host().unwrap();
    let program = lowered(parse(&chain(100)), &target);
    let launches: usize = program.launches[0].1.values().sum();
    assert_eq!(launches, 100);
    let start = Instant::now();
    let timings = compiled(&program, &target).timings;
    println!("compiled in {:?}: {timings:?}", start.elapsed());

    let executable = executable(&program, &target, &BTreeMap::new());
    let x = host_tensor(&Tensor::from_slice(&[1], &[1.0_f32]).unwrap());
    let mut session = executable.session();
    let mut outputs = HostOutputs::new();
    let mut best = f64::MAX;
    for _ in 0..200 {
        let start = Instant::now();
        executable.run(0, &mut session, &[x.as_input()], &mut outputs).unwrap();
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{:.2} us a call of {launches} launches", best * 1e6);
    assert!(best < 1e-3, "{best} s");
}
