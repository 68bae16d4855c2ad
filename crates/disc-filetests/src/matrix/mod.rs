//! Tests the matrix of every op, element type and kind of shape, each over a table of sizes with
//! elements of every kind, on compiled code against the interpreter.
//!
//! The programs are [`disc_ir::generate::cases`]; a compiler comes in as a [`Compiled`]. One module
//! per op holds all of its cases.
//!
//! Invariant: the same case gets the same inputs, on every machine and in every order of cases.
mod elements;

use crate::compiled::{Compiled, Program, agree};
use disc_ir::{
    Diagnostic, Module, OpKind,
    generate::cases::{Case, Draw, Shapes, cases},
    interp::{Limits, Tensor, run_with},
};
use std::collections::HashMap;

/// The sizes of A, B and C: each is 0, 1, below and above the lanes of vectors; the last row is
/// large enough for all pairs of elements.
const ROWS: [[i64; 3]; 8] = [[0, 1, 2], [1, 0, 3], [1, 1, 1], [2, 3, 0], [3, 17, 5], [8, 5, 1], [7, 32, 9], [19, 33, 40]];

/// The outcome of one op.
pub struct Report {
    pub cases: usize,
    pub runs: usize,
    /// Each with the case that it is about.
    pub failures: Vec<String>,
}

/// Tries the cases of one op.
///
/// # Errors
/// The cases cannot be made or compiled at all.
pub fn check(kind: OpKind, compiled: &dyn Compiled, shapes: &[Shapes]) -> Result<Report, String> {
    let all = cases(kind, shapes).map_err(|error| format!("{}: {error}", kind.name()))?;
    let mut report = Report { cases: all.len(), runs: 0, failures: Vec::new() };
    let weights = |name: &str| all.iter().find_map(|case| weight(case, name));
    let program = match compiled.compile(&joined(&all), &weights) {
        Ok(program) => program,
        Err(error) => {
            // One by one, so that the failure names its case.
            report.failures.extend(all.iter().filter_map(|case| alone(case, compiled).err()));
            if report.failures.is_empty() {
                report.failures.push(format!("{}: all cases together do not compile: {error}", kind.name()));
            }
            return Ok(report);
        }
    };
    for case in &all {
        if let Err(why) = try_rows(case, compiled.name(), &*program, &weights, &mut report.runs) {
            report.failures.push(format!("{} on {}: {why}\n{}", case.entry, compiled.name(), case.module));
        }
    }
    Ok(report)
}

/// Returns all cases of an op with shapes of one kind, in one module.
///
/// # Errors
/// The cases cannot be made.
pub fn module(kind: OpKind, shapes: Shapes) -> Result<Module, String> {
    let all = cases(kind, &[shapes]).map_err(|error| format!("{}: {error}", kind.name()))?;
    Ok(joined(&all))
}

fn alone(case: &Case, compiled: &dyn Compiled) -> Result<(), String> {
    let made = compiled.compile(&case.module, &|name| weight(case, name));
    made.map(drop).map_err(|error| format!("{} on {}: {error}\n{}", case.entry, compiled.name(), case.module))
}

/// Joins all cases in one module. Weights of one name, and functions that are called, get names of
/// their own.
fn joined(all: &[Case]) -> Module {
    let mut module = Module::default();
    for case in all {
        let mut part = case.module.clone();
        let own = |name: &str| -> std::sync::Arc<str> { format!("{}_{name}", case.entry).into() };
        for function in &mut part.functions {
            for inst in function.walk(function.body) {
                if matches!(function.kind_of(inst), OpKind::Call | OpKind::Weight)
                    && let Some(disc_ir::Attr::Symbol(name)) = &mut function.inst_mut(inst).attrs[0]
                {
                    *name = own(name);
                }
            }
            if *function.name != *case.entry {
                function.name = own(&function.name);
            }
        }
        part.weights.iter_mut().for_each(|weight| weight.name = own(&weight.name));
        module.functions.extend(part.functions);
        module.weights.extend(part.weights);
    }
    module
}

/// Returns the value of a weight of a case, by its own name or that of the joined module.
fn weight(case: &Case, name: &str) -> Option<Tensor> {
    let own = name.strip_prefix(&*case.entry).and_then(|name| name.strip_prefix('_')).unwrap_or(name);
    let weight = case.module.weights.iter().find(|weight| &*weight.name == own)?;
    let sizes = weight.ty.static_dims()?;
    match &weight.data {
        Some(literal) => Tensor::new(weight.ty.dtype, sizes, literal.bytes.to_vec()).ok(),
        None => elements::tensor(weight.ty.dtype, &sizes, Draw::Any, 0, 0),
    }
}

fn try_rows(
    case: &Case,
    name: &str,
    program: &dyn Program,
    weights: &dyn Fn(&str) -> Option<Tensor>,
    runs: &mut usize,
) -> Result<(), String> {
    let is_fixed = matches!(case.shapes, Shapes::Static | Shapes::Empty | Shapes::Ones);
    let of_case = |wanted: &str| weight(case, wanted).or_else(|| weights(wanted));
    let rows = if is_fixed { &ROWS[4..6] } else { &ROWS[..] };
    for (number, row) in rows.iter().enumerate() {
        let inputs = inputs(case, row, number).ok_or("a parameter has a size without a value")?;
        let expected = run_with(&case.module, &case.entry, &inputs, &of_case, Limits::default());
        let found: Result<Vec<Tensor>, Diagnostic> = program.run(&case.entry, &inputs);
        *runs += 1;
        agree(name, &case.entry, &inputs, &found, &expected, case.nearness).map_err(|why| format!("sizes {row:?}: {why}"))?;
    }
    Ok(())
}

/// The inputs of a case for a row of sizes.
fn inputs(case: &Case, row: &[i64; 3], number: usize) -> Option<Vec<Tensor>> {
    let values: HashMap<&str, i64> = ["A", "B", "C"].into_iter().zip(row.iter().copied()).collect();
    let function = case.module.function(&case.entry)?;
    let parameters = function.parameters().iter().zip(&case.draws).enumerate();
    parameters
        .map(|(i, (&parameter, &draw))| {
            let tensor = function.ty(parameter).as_tensor()?;
            let sizes = tensor.dims.iter().map(|dim| dim.eval(&|symbol| values.get(symbol.name()).copied()).ok());
            elements::tensor(tensor.dtype, &sizes.collect::<Option<Vec<_>>>()?, draw, i, number)
        })
        .collect()
}
