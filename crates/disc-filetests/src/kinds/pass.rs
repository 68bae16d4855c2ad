//! `pass=NAME[,NAME]...` and `pipeline=FROM..TO`: each function reads as the `// | ` lines below it say.
use super::{Hooks, Outcome, Passes, Tried, parsed, rendered, stage};
use crate::{
    file::{Command, TestFile},
    outputs::Outputs,
};
use disc_ir::{
    Diagnostic, Module,
    ops::Stage,
    verify::{stage_of, verify},
};
use std::collections::HashMap;

pub(crate) fn run(file: &TestFile, command: &Command, hooks: Hooks) -> Tried {
    let names: Vec<&str> = command.options["pass"].split(',').collect();
    transformed(file, hooks, |passes, module| names.iter().try_for_each(|name| passes.pass(module, name)))
}

pub(crate) fn run_pipeline(file: &TestFile, command: &Command, hooks: Hooks) -> Tried {
    let range = command.options.get("pipeline").and_then(|range| range.split_once(".."));
    let (from, to) = range.ok_or("expected `pipeline=FROM..TO`")?;
    let (from, to) = (stage(from)?, stage(to)?);
    transformed(file, hooks, |passes, module| passes.pipeline(module, from, to))
}

fn transformed(file: &TestFile, hooks: Hooks, run: impl Fn(&dyn Passes, &mut Module) -> Result<(), Diagnostic>) -> Tried {
    let Some(passes) = hooks.passes else { return Ok(Outcome::Skipped) };
    let module = parsed(file)?;
    let checked = |module: &Module, stage: Stage| verify(module, stage).map_err(|errors| rendered(&file.source, &errors));
    checked(&module, stage_of(&module))?;
    let mut result = module.clone();
    run(passes, &mut result).map_err(|error| rendered(&file.source, &[error]))?;
    checked(&result, stage_of(&result)).map_err(|errors| format!("the result is not right: {errors}\n{result}"))?;
    Ok(Outcome::Reads(expected(file, &module, &result)))
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
        rest.insert(0, Module { weights, functions: Vec::new() }.to_string());
    }
    outputs.rewrite(&texts, &rest.join("\n"))
}
