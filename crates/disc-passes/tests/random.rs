//! Checks that random programs keep their meaning after each pass, and after all of them.
use disc_ir::{
    Module,
    generate::{inputs, program},
    interp::{self, Limits, Tensor},
    ops::Stage,
};
use disc_passes::{
    analysis::cost_model::NeutralModel, options::Options, pass::PassManager, pipeline, registry, rules::canonicalize,
};

const PROGRAMS: u64 = 10;
const LENGTH: usize = 40;

fn run(module: &Module, inputs: &[Tensor]) -> Vec<Tensor> {
    let limits = Limits { steps: 1 << 26, ..Limits::default() };
    interp::run_with(module, "main", inputs, &|_| None, limits).unwrap_or_else(|error| panic!("{error}\n{module}"))
}

/// Returns true if equal, or apart by the error of `power` and of sums in another order.
fn close(a: &Tensor, b: &Tensor) -> bool {
    let near = |(x, y): (f64, f64)| x == y || x.is_nan() && y.is_nan() || ((x - y) / x).abs() < 1e-5;
    let floats = || a.dtype().is_float() && a.to_f64s().into_iter().zip(b.to_f64s()).all(near);
    a.dims() == b.dims() && a.dtype() == b.dtype() && (a.bytes() == b.bytes() || floats())
}

fn check(seed: u64, what: &str, before: &Module, after: &Module) {
    for draw in 0..2 {
        let inputs = inputs(before, "main", seed * 10 + draw);
        let (wanted, got) = (run(before, &inputs), run(after, &inputs));
        let equal = wanted.len() == got.len() && wanted.iter().zip(&got).all(|(a, b)| close(a, b));
        assert!(equal, "seed {seed}, {what}, of {inputs:?}\nbefore: {wanted:?}\nafter: {got:?}\n{before}\n{after}");
    }
}

#[test]
fn each_pass_keeps_the_meaning() {
    for seed in 0..PROGRAMS {
        let before = program(seed, LENGTH);
        for pass in registry::PASSES.iter().filter(|pass| pass.stages == (Stage::Tensor, Stage::Tensor)) {
            let mut after = before.clone();
            let mut manager = PassManager::new(Options::of(NeutralModel::with_panels(8)));
            let changes = manager.run(&mut after, pass).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{before}"));
            if changes > 0 {
                check(seed, pass.name, &before, &after);
            }
        }
    }
}

#[test]
fn the_pipeline_keeps_the_meaning() {
    for seed in 1000..1000 + 2 * PROGRAMS {
        let before = program(seed, LENGTH);
        let mut after = before.clone();
        let mut manager = PassManager::new(Options::of(NeutralModel::with_panels(8)));
        let ran = pipeline::run(&mut after, Stage::Tensor, Stage::Placed, &mut manager);
        ran.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{before}"));
        check(seed, "the pipeline", &before, &after);
        let again = manager.run(&mut after, &canonicalize::PASS).unwrap();
        assert_eq!(again, 0, "seed {seed}: canonicalize finds more to do when it runs again\n{after}");
    }
}
