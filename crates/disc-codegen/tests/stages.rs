//! Every stage means the same: programs run in the interpreter as tensors, as groups on buffers, and as kernels with a host program.
//!
//! The programs are the functions of `stages/*.disc`, each run over a table of sizes that always has 0 and 1.
use disc_codegen::{lower::lower, target::Target};
use disc_ir::{
    DType, Dim, FunctionKind, Module, Symbol,
    interp::{Limits, Tensor, run_with},
};
use disc_passes::{buffers, convolutions, fusion, pass::PassCx};
use std::collections::BTreeMap;

/// Sizes that each symbol takes, one row after the other.
const SIZES: [i64; 8] = [0, 1, 2, 3, 8, 5, 17, 40];

/// A small generator of numbers that repeats itself exactly.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn tensor(&mut self, dtype: DType, dims: &[i64]) -> Tensor {
        let count = dims.iter().product::<i64>() as usize;
        if dtype.is_float() {
            let values: Vec<f64> = (0..count).map(|_| (self.next() % 4001) as f64 / 1000.0 - 2.0).collect();
            return Tensor::from_f64s(dtype, dims, &values).expect("as many values as elements");
        }
        let range = if dtype == DType::I1 { 2 } else { 4 };
        let values: Vec<i64> = (0..count).map(|_| (self.next() % range) as i64).collect();
        Tensor::from_i64s(dtype, dims, &values).expect("as many values as elements")
    }
}

fn close(a: &Tensor, b: &Tensor) -> Result<(), String> {
    if a.dtype() != b.dtype() || a.dims() != b.dims() {
        return Err(format!("{:?}{:?} and {:?}{:?}", a.dtype(), a.dims(), b.dtype(), b.dims()));
    }
    if !a.dtype().is_float() {
        return if a.bytes() == b.bytes() { Ok(()) } else { Err(format!("{:?}\n{:?}", a.to_i64s(), b.to_i64s())) };
    }
    let bound = match a.dtype() {
        DType::F64 => 1e-11,
        DType::F32 => 1e-5,
        DType::F16 => 4e-3,
        _ => 4e-2,
    };
    for (i, (x, y)) in a.to_f64s().into_iter().zip(b.to_f64s()).enumerate() {
        let same = x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= bound * (1.0 + x.abs().max(y.abs()));
        if !same {
            return Err(format!("element {i} is {x} and {y}"));
        }
    }
    Ok(())
}

fn check(text: &str, target: &Target) {
    let tensors = disc_ir::text::parse(text).unwrap_or_else(|e| panic!("{}\n{text}", e[0]));
    let mut cx = PassCx::default();
    let mut fused = tensors.clone();
    (convolutions::PASS.run)(&mut fused, &mut cx).expect("products");
    (fusion::PASS.run)(&mut fused, &mut cx).expect("fusion");
    (fusion::attention::PASS.run)(&mut fused, &mut cx).expect("attention");
    let mut buffers = fused.clone();
    (buffers::PASS.run)(&mut buffers, &mut cx).expect("buffers");
    let program = lower(buffers.clone(), target).expect("kernels");
    for module in [&fused, &buffers, &program.module] {
        let printed = module.to_string();
        let again = disc_ir::text::parse(&printed).unwrap_or_else(|e| panic!("{}\n{printed}", e[0])).to_string();
        assert_eq!(printed, again, "text round trip");
    }
    let entry = tensors.functions.iter().find(|f| f.kind == FunctionKind::Func && &*f.name == "main").expect("@main");
    let symbols = entry.bound_symbols();
    let rows = if symbols.is_empty() { 1 } else { SIZES.len() };
    for row in 0..rows {
        let sizes: BTreeMap<Symbol, i64> =
            symbols.iter().enumerate().map(|(i, s)| (s.clone(), SIZES[(row + 3 * i) % SIZES.len()])).collect();
        let mut numbers = Numbers(row as u64 + 1);
        let inputs: Vec<Tensor> = entry
            .parameters()
            .iter()
            .map(|&p| {
                let ty = entry.ty(p).as_tensor().expect("a tensor");
                let size = |d: &Dim| d.eval(&|s| sizes.get(s).copied()).expect("bound");
                numbers.tensor(ty.dtype, &ty.dims.iter().map(size).collect::<Vec<_>>())
            })
            .collect();
        let weights: BTreeMap<String, Tensor> = tensors
            .weights
            .iter()
            .map(|w| (w.name.to_string(), numbers.tensor(w.ty.dtype, &w.ty.static_dims().expect("static"))))
            .collect();
        let run = |module: &Module| run_with(module, "main", &inputs, &|name| weights.get(name).cloned(), Limits::default());
        let expected = run(&tensors).unwrap_or_else(|e| panic!("{e}\n{sizes:?}\n{text}"));
        for (stage, module) in [("fused", &fused), ("buffer", &buffers), ("kernel", &program.module)] {
            let got = run(module).unwrap_or_else(|e| panic!("{stage}: {e}\n{sizes:?}\n{module}"));
            assert_eq!(expected.len(), got.len());
            for (a, b) in expected.iter().zip(&got) {
                close(a, b).unwrap_or_else(|e| panic!("{stage}: {e}\n{sizes:?}\n{module}"));
            }
        }
    }
}

/// Each program starts with a line `// name`.
fn programs(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("// ") {
            Some(name) => found.push((name.into(), String::new())),
            None => {
                if let Some((_, program)) = found.last_mut() {
                    program.push_str(line);
                    program.push('\n');
                }
            }
        }
    }
    found
}

fn check_all(text: &str) {
    check_on(&["x86-64-v2", "x86-64-v3", "x86-64-v4"], text);
}

fn check_on(targets: &[&str], text: &str) {
    for target in targets {
        let target: Target = target.parse().expect("a target");
        for (name, program) in programs(text) {
            println!("{target} {name}");
            check(&program, &target);
        }
    }
}

#[test]
fn element_wise_and_movement() {
    check_all(include_str!("stages/movement.disc"));
}

#[test]
fn reductions() {
    check_all(include_str!("stages/reductions.disc"));
}

#[test]
fn what_is_fused() {
    check_all(include_str!("stages/fusion.disc"));
}

#[test]
fn contractions() {
    check_all(include_str!("stages/contractions.disc"));
}

#[test]
fn convolutions_as_products() {
    check_on(&["x86-64-v3"], include_str!("stages/convolutions.disc"));
}

#[test]
fn attention() {
    check_all(include_str!("stages/attention.disc"));
}

#[test]
fn ops_with_schedules_of_their_own() {
    check_all(include_str!("stages/single.disc"));
}

#[test]
fn sizes_that_depend_on_data() {
    check_all(include_str!("stages/sizes.disc"));
}

#[test]
fn control_flow() {
    check_all(include_str!("stages/control.disc"));
}
