//! Compares compiled code with the interpreter, through the whole pipeline, for every CPU level of
//! this machine.
//!
//! The programs are those of disc-codegen's stage tests, each run over a table of sizes that has 0
//! and 1.
use crate::samples::{Numbers, programs};
use disc::{
    Options, Target,
    ir::{
        DType, Dim, FunctionKind, Module, Symbol,
        interp::{Limits, Tensor, run_with},
    },
    ral::{HostOutputs, HostTensor, Weight},
};
use std::collections::BTreeMap;

const SIZES: [i64; 8] = [0, 1, 2, 3, 5, 17, 40, 100];

fn host(tensor: &Tensor) -> HostTensor {
    let dtype = disc::ral::DType::ALL.into_iter().find(|d| d.name() == tensor.dtype().name()).expect("the same types");
    let mut made = HostTensor::zeros(dtype, tensor.dims()).expect("memory");
    made.bytes_mut().copy_from_slice(tensor.bytes());
    made
}

fn close(expected: &Tensor, got: &HostTensor) -> Result<(), String> {
    if expected.dims() != got.sizes() || expected.dtype().name() != got.dtype().name() {
        return Err(format!("{:?} and {:?}", expected.dims(), got.sizes()));
    }
    let got = Tensor::new(expected.dtype(), got.sizes().to_vec(), got.bytes().to_vec()).expect("as large as its type");
    if !expected.dtype().is_float() {
        return if expected.bytes() == got.bytes() {
            Ok(())
        } else {
            Err(format!("{:?}\n{:?}", expected.to_i64s(), got.to_i64s()))
        };
    }
    let bound = match expected.dtype() {
        DType::F64 => 1e-11,
        DType::F32 => 1e-5,
        DType::F16 => 4e-3,
        _ => 4e-2,
    };
    for (i, (x, y)) in expected.to_f64s().into_iter().zip(got.to_f64s()).enumerate() {
        let same = x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= bound * (1.0 + x.abs().max(y.abs()));
        if !same {
            return Err(format!("element {i} is {x}, compiled {y}"));
        }
    }
    Ok(())
}

fn check(name: &str, text: &str, target: &str) {
    let module: Module = disc::parse(text).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
    let options = Options { target: Some(target.into()), threads: Some(2), ..Options::default() };
    let artifact = disc::compile(module.clone(), &options).unwrap_or_else(|e| panic!("{name} for {target}: {e}"));
    let entry = module.functions.iter().find(|f| f.kind == FunctionKind::Func && &*f.name == "main").expect("@main");
    let symbols = entry.bound_symbols();
    let mut numbers = Numbers(7);
    let weights: BTreeMap<String, Tensor> = module
        .weights
        .iter()
        .map(|w| (w.name.to_string(), numbers.tensor(w.ty.dtype, &w.ty.static_dims().expect("static"))))
        .collect();
    let given = weights.iter().map(|(name, tensor)| (name.clone(), Weight::from(host(tensor)))).collect();
    let executable = artifact.load(given, &options).unwrap_or_else(|e| panic!("{name} for {target}: {e}"));
    let rows = if symbols.is_empty() { 1 } else { SIZES.len() };
    for row in 0..rows {
        let sizes: BTreeMap<Symbol, i64> =
            symbols.iter().enumerate().map(|(i, s)| (s.clone(), SIZES[(row + 3 * i) % SIZES.len()])).collect();
        let inputs: Vec<Tensor> = entry
            .parameters()
            .iter()
            .map(|&p| {
                let ty = entry.ty(p).as_tensor().expect("a tensor");
                let size = |d: &Dim| d.eval(&|s| sizes.get(s).copied()).expect("bound");
                numbers.tensor(ty.dtype, &ty.dims.iter().map(size).collect::<Vec<_>>())
            })
            .collect();
        let expected = run_with(&module, "main", &inputs, &|name| weights.get(name).cloned(), Limits::default())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let held: Vec<HostTensor> = inputs.iter().map(host).collect();
        let references: Vec<_> = held.iter().map(HostTensor::as_input).collect();
        let mut outputs = HostOutputs::new();
        executable
            .with_session(|session| executable.run(0, session, &references, &mut outputs))
            .unwrap_or_else(|e| panic!("{name} for {target} at {sizes:?}: {e}"));
        for (i, tensor) in expected.iter().enumerate() {
            let got = outputs.tensor(i).unwrap_or_else(|| panic!("{name}: output {i} is missing"));
            close(tensor, got).unwrap_or_else(|e| panic!("{name} for {target} at {sizes:?}, output {i}: {e}"));
        }
    }
}

/// Returns the levels that this machine can run.
fn targets() -> Vec<&'static str> {
    let runs = |name: &&str| name.parse::<Target>().expect("a target").check_host().is_ok();
    ["x86-64-v2", "x86-64-v3", "x86-64-v4"].into_iter().filter(runs).collect()
}

fn check_all(text: &str) {
    for target in targets() {
        for (name, program) in programs(text) {
            println!("{target} {name}");
            check(&name, &program, target);
        }
    }
}

#[test]
fn element_wise_and_movement() {
    check_all(include_str!("../../../disc-codegen/tests/stages/movement.disc"));
}

#[test]
fn reductions() {
    check_all(include_str!("../../../disc-codegen/tests/stages/reductions.disc"));
}

#[test]
fn contractions() {
    check_all(include_str!("../../../disc-codegen/tests/stages/contractions.disc"));
}

#[test]
fn ops_with_schedules_of_their_own() {
    check_all(include_str!("../../../disc-codegen/tests/stages/single.disc"));
}

#[test]
fn control_flow() {
    check_all(include_str!("../../../disc-codegen/tests/stages/control.disc"));
}
