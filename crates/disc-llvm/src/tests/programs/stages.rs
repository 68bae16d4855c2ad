//! Runs the test programs of the code generator at sizes 0, 1 and others, on every level that this
//! CPU has.
#[path = "../../../../disc-codegen/tests/stages/samples.rs"]
mod samples;

use super::run::{executable, lowered, packed, parse, run};
use disc_codegen::{host::Program, target::Target};
use disc_ir::{
    DType, Dim, Module, Symbol,
    interp::{self, Limits, Tensor},
};
use samples::{Numbers, programs};
use std::collections::BTreeMap;

/// Sizes that each symbol takes, one row after the other.
const SIZES: [i64; 7] = [0, 1, 2, 3, 5, 17, 40];

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
    let far =
        |(x, y): (f64, f64)| !(x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= bound * (1.0 + x.abs().max(y.abs())));
    match a.to_f64s().into_iter().zip(b.to_f64s()).position(far) {
        Some(i) => Err(format!("element {i} is {} and {}", a.to_f64s()[i], b.to_f64s()[i])),
        None => Ok(()),
    }
}

fn check(text: &str, target: &Target) {
    let tensors = parse(text);
    compare(&tensors, &lowered(tensors.clone(), target), target, &SIZES);
}

/// Compares compiled code with the program in the interpreter.
fn compare(tensors: &Module, program: &Program, target: &Target, table: &[i64]) {
    let mut numbers = Numbers(7);
    let weights: BTreeMap<String, Tensor> =
        tensors.weights.iter().map(|w| (w.name.to_string(), numbers.tensor(w.ty.dtype, &w.ty.static_dims().unwrap()))).collect();
    let executable = executable(program, target, &weights);
    let symbols = tensors.function("main").unwrap().bound_symbols();
    let rows = if symbols.is_empty() { 1 } else { table.len() };
    for row in 0..rows {
        let sizes: BTreeMap<Symbol, i64> =
            symbols.iter().enumerate().map(|(i, s)| (s.clone(), table[(row + 3 * i) % table.len()])).collect();
        let inputs = inputs_of(tensors, &sizes, &mut Numbers(row as u64 + 1));
        let expected = interp::run_with(tensors, "main", &inputs, &|name| weights.get(name).cloned(), Limits::default()).unwrap();
        let got = run(&executable, &inputs).unwrap_or_else(|e| panic!("{e}\n{sizes:?}\n{}", program.module));
        assert_eq!(expected.len(), got.len());
        for (a, b) in expected.iter().zip(&got) {
            close(a, b).unwrap_or_else(|e| panic!("{target}: {e}\n{sizes:?}\n{}", program.module));
        }
    }
}

fn inputs_of(tensors: &Module, sizes: &BTreeMap<Symbol, i64>, numbers: &mut Numbers) -> Vec<Tensor> {
    let entry = tensors.function("main").unwrap();
    let size = |dim: &Dim| dim.eval(&|s| sizes.get(s).copied()).unwrap();
    let types = entry.parameters().iter().map(|&p| entry.ty(p).as_tensor().unwrap());
    types.map(|ty| numbers.tensor(ty.dtype, &ty.dims.iter().map(size).collect::<Vec<_>>())).collect()
}

fn check_all(text: &str) {
    for target in super::super::lower::targets() {
        for (name, program) in programs(text) {
            println!("{target} {name}");
            check(&program, &target);
        }
    }
}

#[test]
fn element_wise_and_movement() {
    check_all(include_str!("../../../../disc-codegen/tests/stages/movement.disc"));
}

#[test]
fn reductions() {
    check_all(include_str!("../../../../disc-codegen/tests/stages/reductions.disc"));
}

#[test]
fn contractions() {
    check_all(include_str!("../../../../disc-codegen/tests/stages/contractions.disc"));
}

#[test]
fn ops_with_schedules_of_their_own() {
    check_all(include_str!("../../../../disc-codegen/tests/stages/single.disc"));
}

#[test]
fn control_flow() {
    check_all(include_str!("../../../../disc-codegen/tests/stages/control.disc"));
}

/// Runs programs for a target with tile registers. The instructions are executed by a handler where
/// this CPU has none.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn check_in_tile_registers(text: &str, table: &[i64]) {
    let others = "avx512bf16+avx512fp16+avx512vnni";
    let lacks = format!("x86-64-v4+{others}").parse::<Target>().unwrap().check_host().err();
    if let Some(lacks) = lacks {
        return println!("skipped: {lacks}");
    }
    let target: Target = format!("x86-64-v4+amx-bf16+amx-int8+amx-tile+{others}").parse().unwrap();
    // Asks for the registers, if there are some, before any instruction runs.
    let is_native = target.check_host().is_ok();
    crate::tests::amx::install();
    for (name, text) in programs(text) {
        println!("{name}");
        let tensors = parse(&text);
        compare(&tensors, &packed(tensors.clone(), &target), &target, table);
    }
    assert!(is_native || crate::tests::amx::executed() > 0);
}

#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn products_in_tile_registers() {
    check_in_tile_registers(include_str!("../../../../disc-codegen/tests/stages/tiles.disc"), &SIZES);
}

#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn attention_in_tile_registers() {
    let text = include_str!("../../../../disc-codegen/tests/stages/attention_tiles.disc");
    check_in_tile_registers(text, &[0, 1, 15, 16, 17, 31, 33, 65]);
}
