//! Checks the properties of every text.
//!
//! - It is a module, or its errors have a code, a place in the text, and a readable message.
//! - A module prints, reads back and prints the same; the parsed module is as right or wrong as
//!   before.
//! - Passes on a right module fail with an error or leave a right one, which prints and reads back
//!   too.
//! - Neither a pass nor the pipeline changes the results of a function, up to rounding.
use crate::compare::compare as compare_tensors;
use disc_ir::{
    Code, Diagnostic, Function, FunctionKind, Module, Type,
    generate::Random,
    generate::cases::Nearness,
    interp::{Limits, Tensor, run_with},
    ops::Stage,
    verify::{stage_of, verify},
};
use disc_passes::{analysis::cost_model::NeutralModel, options::Options, pass::PassManager, pipeline, registry};
use std::collections::BTreeMap;

/// Limits of one run of a function: these are small, and there are many.
const LIMITS: Limits = Limits { steps: 20_000, bytes: 1 << 24, depth: 20 };

pub(super) fn failure(text: &str) -> Option<String> {
    check(text).err()
}

fn check(text: &str) -> Result<(), String> {
    let module = match disc_ir::parse(text) {
        Ok(module) => module,
        Err(errors) => return check_errors(&errors, text),
    };
    let again = check_text(&module)?;
    let stage = stage_of(&module);
    let (first, second) = (verify(&module, stage), verify(&again, stage));
    if first.is_ok() != second.is_ok() {
        return Err(format!("right or wrong depends on being printed: {first:?}, {second:?}\n{module}"));
    }
    if let Err(errors) = first {
        return check_errors(&errors, text);
    }
    let before = results(&module);
    let checks_indices = text.contains("bounds = check");
    let lower = |changed: &mut Module, manager: &mut PassManager| pipeline::run(changed, stage, Stage::Buffer, manager);
    let passes = registry::PASSES.iter().filter(|pass| pass.stages.0 == stage);
    for pass in passes {
        let run = |changed: &mut Module, manager: &mut PassManager| manager.run(changed, pass).map(drop);
        let changed = check_change(&module, pass.name, pass.stages.1, text, run)?;
        let Some(changed) = changed else { continue };
        compare(&before, &results(&changed), checks_indices)
            .map_err(|why| format!("`{}` changes {why}\n{changed}", pass.name))?;
    }
    if stage < Stage::Buffer
        && let Some(changed) = check_change(&module, "the pipeline", Stage::Buffer, text, lower)?
    {
        compare(&before, &results(&changed), checks_indices).map_err(|why| format!("the pipeline changes {why}\n{changed}"))?;
    }
    Ok(())
}

/// Checks the module after a change: a right one, which prints and reads back, or a readable error.
fn check_change(
    module: &Module,
    name: &str,
    to: Stage,
    text: &str,
    run: impl FnOnce(&mut Module, &mut PassManager) -> Result<(), Diagnostic>,
) -> Result<Option<Module>, String> {
    let mut changed = module.clone();
    let mut manager = pipeline::manager(Options::of(NeutralModel::with_panels(16)));
    manager.verify = None;
    if let Err(error) = run(&mut changed, &mut manager) {
        return check_errors(&[error], text).map(|()| None);
    }
    verify(&changed, to).map_err(|errors| format!("what {name} made is wrong: {}\n{changed}", errors[0]))?;
    check_text(&changed).map_err(|why| format!("after {name}: {why}"))?;
    Ok(Some(changed))
}

fn check_errors(errors: &[Diagnostic], text: &str) -> Result<(), String> {
    const LONGEST: usize = 100_000;
    for error in errors {
        let is_inside = error.span.is_none_or(|span| span.start <= span.end && span.start as usize <= text.len());
        if !is_inside || error.message.is_empty() || error.message.len() > LONGEST {
            return Err(format!("an error without a place in the text, or a message: {error:?}"));
        }
    }
    if errors.is_empty() { Err("refused without an error".into()) } else { Ok(()) }
}

/// Prints and parses the module.
fn check_text(module: &Module) -> Result<Module, String> {
    let printed = module.to_string();
    let again =
        disc_ir::parse(&printed).map_err(|errors| format!("what was printed does not parse: {}\n{printed}", errors[0]))?;
    let twice = again.to_string();
    if printed == twice { Ok(again) } else { Err(format!("printed:\n{printed}\nread and printed again:\n{twice}")) }
}

type Results = BTreeMap<String, Vec<Result<Vec<Tensor>, Diagnostic>>>;

/// Runs each function on a few small inputs.
fn results(module: &Module) -> Results {
    let functions = module.functions.iter().filter(|f| matches!(f.kind, FunctionKind::Func | FunctionKind::Host));
    let runs = functions.map(|function| {
        let mut random = Random::new(7);
        let inputs = [1, 3, 0].into_iter().filter_map(|size| inputs(function, size, &mut random));
        let weight = |name: &str| {
            let ty = &module.weight(name)?.ty;
            let sizes = ty.static_dims().filter(|sizes| has_less(sizes, 1 << 20))?;
            Random::new(1).tensor(ty.dtype, sizes).ok()
        };
        let run = |inputs: Vec<Tensor>| run_with(module, &function.name, &inputs, &weight, LIMITS);
        (function.name.to_string(), inputs.map(run).collect())
    });
    runs.collect()
}

/// Makes inputs in which every dim has this size, if all of them are small.
fn inputs(function: &Function, size: i64, random: &mut Random) -> Option<Vec<Tensor>> {
    const MOST: i64 = 1 << 12;
    let mut tensor = |ty: &Type| {
        let tensor = ty.shaped()?;
        let sizes = tensor.dims.iter().map(|dim| dim.eval(&|_| Some(size)).ok().filter(|size| (0..MOST).contains(size)));
        let sizes = sizes.collect::<Option<Vec<i64>>>()?;
        has_less(&sizes, MOST).then(|| random.tensor(tensor.dtype, sizes).ok())?
    };
    function.parameters().iter().map(|&p| tensor(function.ty(p))).collect()
}

/// Returns true if a tensor of these sizes has fewer than `most` elements.
fn has_less(sizes: &[i64], most: i64) -> bool {
    sizes.iter().try_fold(1_i64, |n, &size| n.checked_mul(size)).is_some_and(|count| count < most)
}

/// Compares results. A result stays, and so does a failed assertion or, if they are checked, an
/// index out of range. A run that exceeds its limits says nothing, nor one that breaks a condition
/// which an op leaves to the program.
fn compare(before: &Results, after: &Results, checks_indices: bool) -> Result<(), String> {
    // A dim of 2^63 or more exceeds a limit too.
    let is_limit = |result: &Result<Vec<Tensor>, Diagnostic>| matches!(result, Err(e) if e.code == Code::E0606 || e.message.contains("overflows 64 bits"));
    let is_promised = |code: Code| code == Code::E0604 || code == Code::E0603 && checks_indices;
    let is_misuse = |result: &Result<Vec<Tensor>, Diagnostic>| matches!(result, Err(e) if !is_promised(e.code));
    for (name, runs) in before {
        let now = after.get(name).map(|runs| &runs[..]).unwrap_or_default();
        for (i, (old, new)) in runs.iter().zip(now).enumerate() {
            let same = match (old, new) {
                _ if is_limit(old) || is_limit(new) || is_misuse(old) => true,
                (Ok(a), Ok(b)) => {
                    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| compare_tensors(x, y, Nearness::Sum).is_ok())
                }
                (Err(a), Err(b)) => a.code == b.code,
                _ => false,
            };
            if !same {
                return Err(format!("@{name}, run {i}: {old:?}, now {new:?}"));
            }
        }
    }
    Ok(())
}
