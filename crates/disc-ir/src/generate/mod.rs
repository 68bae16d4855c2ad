//! Generates random programs, and inputs for them, for differential tests.
//!
//! It does not fuzz malformed text: every program is well formed, runs for every size >= 0 of its
//! dims, and never fails.
//!
//! Invariant: the same seed gives the same program and the same inputs, on every machine.
pub mod cases;
mod inputs;
mod ops;
mod patterns;
mod random;

pub use inputs::inputs;
pub use random::Random;

use crate::{
    build::Builder,
    dim::{Dim, Facts},
    graph::{Function, FunctionKind, Module, Value},
    types::{DType, Type},
};
use ops::Generator;

/// The names of the dims that programs are made of.
const SYMBOLS: [&str; 3] = ["A", "B", "C"];

/// The largest size that a dim gets.
const LARGEST: i64 = 17;

/// Facts that a program may state; each holds for some of the sizes that dims get.
const FACTS: [&str; 6] = ["A == B", "C % 8 == 0", "1 <= A", "1 <= C <= 8", "B <= 3, 1 <= C", "B == C, A % 2 == 0"];

/// A tensor program `@main` of about `length` ops, with symbolic and constant sizes.
pub fn program(seed: u64, length: usize) -> Module {
    let mut random = Random::new(seed);
    let mut function = Function::new("main", FunctionKind::Func);
    if random.chance(25) {
        function.facts = Facts::parse(random.choose::<&str>(&FACTS)).expect("these are facts");
    }
    let body = function.body;
    let mut values: Vec<Value> = Vec::new();
    for i in 0..random.between(1, 5) {
        let rank = random.below(4);
        // The first parameter binds every dim.
        let dims: Vec<Dim> = match i {
            0 => SYMBOLS.map(Dim::symbol).to_vec(),
            _ => (0..rank).map(|_| size(&mut random)).collect(),
        };
        let dtype = dtype(&mut random);
        let value = function.add_argument(body, Type::tensor(dims, dtype));
        function.set_name(value, format!("x{i}"));
        values.push(value);
    }
    let mut generator = Generator { random, builder: Builder::new(&mut function), values };
    for _ in 0..length {
        generator.step();
    }
    let Generator { mut random, mut builder, values, .. } = generator;
    let last = values.len() - values.len().min(random.between(1, 4));
    builder.ret(&values[last..]).expect("values of the function can be returned");
    function.results = values[last..].iter().map(|&value| function.ty(value).clone()).collect();
    Module { functions: vec![function], ..Module::default() }
}

/// A size: mostly symbolic.
fn size(random: &mut Random) -> Dim {
    match random.below(10) {
        0 => Dim::constant(1),
        1..4 => Dim::constant(random.between(2, 6) as i64),
        _ => Dim::symbol(*random.choose(&SYMBOLS)),
    }
}

fn dtype(random: &mut Random) -> DType {
    if random.chance(50) { DType::F32 } else { *random.choose(&DType::ALL) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        interp::{Limits, run_with},
        ops::OpKind,
        text::parse,
    };
    use std::collections::HashSet;

    #[test]
    fn programs_run_for_every_size_and_read_back_the_same() {
        for seed in 0..30 {
            let module = program(seed, 12);
            let text = module.to_string();
            let again = parse(&text).unwrap_or_else(|errors| panic!("seed {seed}\n{text}\n{}", errors[0]));
            for sizes in 0..3 {
                let inputs = inputs(&module, "main", sizes);
                let run = |module| run_with(module, "main", &inputs, &|_| None, Limits::default());
                let found = run(&module).unwrap_or_else(|e| panic!("seed {seed}, inputs {sizes}: {e}\n{text}"));
                let read = run(&again).expect("the same program");
                assert!(found == read, "seed {seed}, inputs {sizes}\n{text}");
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_program() {
        assert_eq!(program(7, 20).to_string(), program(7, 20).to_string());
        assert_ne!(program(7, 20).to_string(), program(8, 20).to_string());
    }

    /// A program that is never generated is never tested: every op of the tensor stage must occur,
    /// but for those named here.
    #[test]
    fn every_tensor_op_comes_up() {
        let mut seen: HashSet<OpKind> = HashSet::new();
        for seed in 0..200 {
            let module = program(seed, 25);
            let main = &module.functions[0];
            seen.extend(main.walk(main.body).into_iter().map(|inst| main.kind_of(inst)));
        }
        // Made only by a pass: `winograd` and `unpack_int4`.
        let elsewhere = [OpKind::Assert, OpKind::Call, OpKind::UnpackInt4, OpKind::Weight, OpKind::Winograd];
        let missing: Vec<&str> = crate::ops::OPS
            .iter()
            .filter(|def| ops::is_tensor_op(def) && !seen.contains(&def.kind) && !elsewhere.contains(&def.kind))
            .map(|def| def.name)
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
