//! Tests the results of functions, on the interpreter and on every compiler: `run`.
//!
//! - `//~ run @f([1.0], [2.0]) == [3.0]`: the interpreter gives exactly this (every NaN equals
//!   every other), the others within a tolerance.
//! - `//~ run @f([1.0]) fails E0603: part of the message`.
//! - `//@ test run random seed=7`: for each row of the table of dims, the others agree with the
//!   interpreter, on random inputs.
use super::{Tried, parsed, random, rendered};
use crate::{
    compiled::{Hooks, Program, agree},
    file::{Command, TestFile},
    values,
};
use disc_ir::{
    FunctionKind, Module,
    generate::{Random, cases::Nearness},
    interp::{self, Tensor},
    ops::Stage,
    verify::{stage_of, verify},
};

const MARK: &str = "//~ run ";

pub(crate) fn run(file: &TestFile, command: &Command, hooks: Hooks) -> Tried {
    let module = parsed(file)?;
    verify(&module, stage_of(&module)).map_err(|errors| rendered(&file.source, &errors))?;
    let programs = compile(&module, hooks)?;
    if command.options.contains_key("random") {
        let seed = command.options.get("seed").and_then(|seed| seed.parse().ok()).ok_or("expected `random seed=NUMBER`")?;
        run_random(file, &module, seed, &programs)?;
    }
    let lines = file.source.lines().map(|line| match line.trim_start().strip_prefix(MARK) {
        Some(text) => {
            let indent = &line[..line.len() - line.trim_start().len()];
            one_line(&module, text, &programs)
                .map(|text| format!("{indent}{MARK}{text}\n"))
                .map_err(|why| format!("{line}\n{why}"))
        }
        None => Ok(format!("{line}\n")),
    });
    lines.collect()
}

/// A module on every compiler, each with its name.
type Programs = Vec<(&'static str, Box<dyn Program>)>;

/// Compiles a module of tensors; kernels are tests of the interpreter, and weights have no values
/// here.
fn compile(module: &Module, hooks: Hooks) -> Result<Programs, String> {
    if !is_compiled(module) {
        return Ok(Vec::new());
    }
    let one = |compiled: &&'static dyn crate::Compiled| {
        let program = compiled.compile(module, &|_| None).map_err(|error| format!("{}: {error}", compiled.name()))?;
        Ok((compiled.name(), program))
    };
    hooks.compiled.iter().map(one).collect()
}

fn is_compiled(module: &Module) -> bool {
    stage_of(module) == Stage::Tensor && module.weights.is_empty()
}

/// Returns true if compilers run the file's functions; a file that is no module is theirs to fail.
pub(crate) fn runs_compiled(file: &TestFile) -> bool {
    parsed(file).map_or(true, |module| is_compiled(&module))
}

/// Returns the correct line `@f(...) == ...`.
fn one_line(module: &Module, text: &str, programs: &Programs) -> Result<String, String> {
    const FORM: &str = "expected `@f(INPUTS) == OUTPUTS` or `@f(INPUTS) fails CODE: MESSAGE`";
    let (call, expected) = text.split_once(") == ").or_else(|| text.split_once(") fails ")).ok_or(FORM)?;
    let (name, arguments) = call.strip_prefix('@').and_then(|call| call.split_once('(')).ok_or(FORM)?;
    let function = module.function(name).ok_or_else(|| format!("there is no function @{name}"))?;
    let dtypes = function.parameters().iter().map(|&p| function.ty(p).dtype()).chain(std::iter::repeat(disc_ir::DType::F32));
    let inputs = values::split(arguments).into_iter().zip(dtypes).map(|(text, dtype)| values::read(text, dtype));
    let inputs = inputs.collect::<Result<Vec<Tensor>, String>>()?;
    let result = interp::run(module, name, &inputs);
    for (target, program) in programs {
        agree(target, name, &inputs, &program.run(name, &inputs), &result, Nearness::Sum)?;
    }
    let call = &text[..=call.len()];
    Ok(match result {
        Ok(outputs) => {
            let texts: Vec<&str> = values::split(expected);
            let equal = |(text, output): (&&str, &Tensor)| {
                values::read(text, output.dtype()).is_ok_and(|wanted| values::same(&wanted, output))
            };
            if text[call.len()..].starts_with(" == ") && texts.len() == outputs.len() && texts.iter().zip(&outputs).all(equal) {
                return Ok(text.to_owned());
            }
            format!("{call} == {}", outputs.iter().map(values::write).collect::<Vec<_>>().join(", "))
        }
        Err(error) => match expected.split_once(": ") {
            Some((code, part)) if code == error.code.to_string() && error.message.contains(part) => text.to_owned(),
            _ => format!("{call} fails {}: {}", error.code, error.message),
        },
    })
}

fn run_random(file: &TestFile, module: &Module, seed: u64, programs: &Programs) -> Result<(), String> {
    let mut random = Random::new(seed);
    let is_entry = |kind| matches!(kind, FunctionKind::Func | FunctionKind::Host);
    for function in module.functions.iter().filter(|f| is_entry(f.kind)) {
        let mut runs = 0;
        for row in random::rows(file, function) {
            let Some(inputs) = random::inputs(function, &row, &mut random) else { continue };
            let expected = interp::run(module, &function.name, &inputs);
            if let Err(error) = &expected {
                return Err(format!("@{} with {row:?}: {error}", function.name));
            }
            runs += 1;
            for (target, program) in programs {
                let found = program.run(&function.name, &inputs);
                agree(target, &function.name, &inputs, &found, &expected, Nearness::Sum)
                    .map_err(|why| format!("{row:?}: {why}"))?;
            }
        }
        if runs == 0 {
            return Err(format!("no row of the table gives sizes for @{}", function.name));
        }
    }
    Ok(())
}
