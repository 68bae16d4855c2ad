//! Tests passes (`pass=NAME[,NAME]... [weights=FORM]`) and lowering (`pipeline=FROM..TO`): each
//! function prints as the `// | ` lines below it, and keeps its meaning.
use super::{Tried, parsed, random, rendered, stage};
use crate::{
    compiled::agree,
    file::{Command, TestFile},
    outputs::Outputs,
};
use disc_ir::{
    Function, FunctionKind, Module,
    generate::{Random, cases::Nearness},
    interp::{Limits, Tensor, run_with},
    ops::Stage,
    verify::{stage_of, verify},
};
use disc_passes::{
    analysis::cost_model::NeutralModel,
    options::{Options, WeightForm},
    pass::PassDef,
    pipeline, registry,
};
use std::collections::HashMap;

pub(crate) fn run(file: &TestFile, command: &Command) -> Tried {
    let names = command.options.get("pass").ok_or("expected `pass=NAME`")?;
    let find = |name: &str| registry::find(name).ok_or_else(|| format!("there is no pass `{name}`"));
    let weights = command.options.get("weights").map_or(Ok(WeightForm::Exact), |form| form.parse())?;
    transformed(file, &names.split(',').map(find).collect::<Result<Vec<_>, _>>()?, weights)
}

pub(crate) fn run_pipeline(file: &TestFile, command: &Command) -> Tried {
    let range = command.options.get("pipeline").and_then(|range| range.split_once(".."));
    let (from, to) = range.ok_or("expected `pipeline=FROM..TO`")?;
    let (from, to) = (stage(from)?, stage(to)?);
    let steps = pipeline::STEPS.iter().copied().filter(|step| step.stages.0 >= from && step.stages.1 <= to);
    transformed(file, &steps.collect::<Vec<_>>(), WeightForm::Exact)
}

fn transformed(file: &TestFile, passes: &[&PassDef], weights: WeightForm) -> Tried {
    let module = parsed(file)?;
    let checked = |module: &Module, stage: Stage| verify(module, stage).map_err(|errors| rendered(&file.source, &errors));
    checked(&module, stage_of(&module))?;
    let mut result = module.clone();
    // A target with panels: without them, the pass that packs weights does nothing.
    let mut manager = pipeline::manager(Options { weights, ..Options::of(NeutralModel::with_panels(16)) });
    manager.verify = None;
    for pass in passes {
        manager.run(&mut result, pass).map_err(|error| rendered(&file.source, &[error]))?;
        checked(&result, pass.stages.1).map_err(|errors| format!("what `{}` made is wrong: {errors}\n{result}", pass.name))?;
    }
    // The error of narrower weights is tested beside the pass.
    if weights == WeightForm::Exact {
        same_meaning(file, &module, &result)?;
    }
    Ok(expected(file, &module, &result))
}

/// Rows of sizes that each function is run for.
const MOST_RUNS: usize = 8;

/// Checks that every remaining function computes the same as before, on random inputs and weights.
fn same_meaning(file: &TestFile, before: &Module, after: &Module) -> Result<(), String> {
    let is_left = |f: &&Function| f.kind == FunctionKind::Func && after.function(&f.name).is_some();
    for function in before.functions.iter().filter(is_left) {
        let mut random = Random::new(7);
        let sizes = |w: &disc_ir::graph::Weight| w.ty.static_dims().unwrap_or_default();
        let weights: HashMap<&str, Option<Tensor>> =
            before.weights.iter().map(|w| (&*w.name, random.tensor(w.ty.dtype, sizes(w)).ok())).collect();
        for row in random::rows(file, function).iter().take(MOST_RUNS) {
            let Some(inputs) = random::inputs(function, row, &mut random) else { continue };
            let inputs: Vec<Tensor> = inputs.into_iter().map(|input| random::with_special(input, &mut random)).collect();
            let weight = |name: &str| weights.get(name).cloned().flatten();
            let run = |module: &Module| run_with(module, &function.name, &inputs, &weight, Limits::default());
            agree("after the passes", &function.name, &inputs, &run(after), &run(before), Nearness::Sum)?;
        }
    }
    Ok(())
}

fn expected(file: &TestFile, before: &Module, after: &Module) -> String {
    let outputs = Outputs::new(&file.source, before);
    let mut texts = HashMap::new();
    for function in &before.functions {
        let text = match after.function(&function.name) {
            Some(now) if now.to_string() == function.to_string() => "(unchanged)\n".into(),
            Some(now) => now.to_string(),
            None => "(gone)\n".into(),
        };
        texts.insert(function.name.to_string(), text);
    }
    let is_new = |name: &str| !outputs.names().any(|known| known == name);
    let mut rest: Vec<String> = after.functions.iter().filter(|f| is_new(&f.name)).map(ToString::to_string).collect();
    let weights: Vec<_> = after.weights.iter().filter(|w| before.weight(&w.name).is_none()).cloned().collect();
    if !weights.is_empty() {
        rest.insert(0, Module { weights, ..Module::default() }.to_string());
    }
    outputs.rewrite(&texts, &rest.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_means_something_else_is_found() {
        let source = "//@ test pass=cse\nfunc @f(%x: tensor<[B]xf32>) -> tensor<[B]xf32> {\n  %y = negate %x : tensor<[B]xf32>\n  return %y : tensor<[B]xf32>\n}\n";
        let file = TestFile::new("t".into(), "t".into(), source.into()).unwrap();
        let module = |source: &str| disc_ir::parse(source).unwrap();
        assert_eq!(same_meaning(&file, &module(source), &module(source)), Ok(()));
        let wrong = same_meaning(&file, &module(source), &module(&source.replace("negate", "abs")));
        assert!(wrong.unwrap_err().contains("after the passes"));
    }
}
