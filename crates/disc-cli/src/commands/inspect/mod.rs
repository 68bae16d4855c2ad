//! Summarises a package, or a program before anything is done to it: `disc inspect`.
mod model;
mod package;

pub(super) use package::inspect as package;

use crate::{answer::Answer, source::Source};
use disc::import::Format;
use disc_ir::{Diagnostic, Function, FunctionKind, Module, OpKind, Type, graph::Weight};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) fn text(source: &Source) -> Result<Answer, Vec<Diagnostic>> {
    if source.format() == Format::StableHlo {
        return model::stablehlo(source);
    }
    let (module, stage) = source.module(None)?;
    let mut text = format!("stage {}\n", stage.name());
    text.extend(module.functions.iter().map(of_function));
    text += &of_weights(&module);
    let json = json!({
        "stage": stage.name(), "functions": module.functions.iter().map(function_json).collect::<Vec<_>>(),
        "weights": module.weights.iter().map(weight_json).collect::<Vec<_>>(),
    });
    Ok(Answer::new(text, json))
}

fn of_function(function: &Function) -> String {
    let results: Vec<String> = function.results.iter().map(ToString::to_string).collect();
    let mut text = format!("\n{} @{}\n", kind(function), function.name);
    text += &list("takes", &parameters(function));
    text += &list("gives", &results);
    text += &list("facts", &facts(function));
    let ops: Vec<String> = ops(function).iter().map(|(name, count)| format!("{count} {name}")).collect();
    text + &list("ops", &[ops.join(", ")])
}

/// The lines of a list, with its title before the first.
fn list(title: &str, lines: &[String]) -> String {
    let lines = lines.iter().filter(|line| !line.is_empty()).enumerate();
    lines.map(|(i, line)| format!("  {:<7}{line}\n", if i == 0 { title } else { "" })).collect()
}

fn of_weights(module: &Module) -> String {
    let Some(bytes) = module.weights.iter().map(bytes).reduce(i64::saturating_add) else { return String::new() };
    let lines: Vec<String> =
        module.weights.iter().map(|weight| format!("@{}: {} ({})", weight.name, ty(weight), source(weight))).collect();
    format!("\nweights, {bytes} bytes\n{}", lines.iter().map(|line| format!("  {line}\n")).collect::<String>())
}

fn parameters(function: &Function) -> Vec<String> {
    let named = |&parameter| match function.name_of(parameter) {
        Some(name) => format!("%{name}: {}", function.ty(parameter)),
        None => function.ty(parameter).to_string(),
    };
    function.parameters().iter().map(named).collect()
}

fn facts(function: &Function) -> Vec<String> {
    function.facts.iter().map(|fact| fact.to_string()).collect()
}

/// Counts the occurrences of each op, those in regions included.
fn ops(function: &Function) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    let insts = function.walk(function.body).into_iter().filter(|&inst| function.kind_of(inst) != OpKind::Return);
    insts.for_each(|inst| *counts.entry(function.def(inst).name).or_default() += 1);
    counts
}

fn kind(function: &Function) -> &'static str {
    match function.kind {
        FunctionKind::Func => "func",
        FunctionKind::Kernel => "kernel",
        FunctionKind::Routine => "routine",
        FunctionKind::Host => "host",
    }
}

fn bytes(weight: &Weight) -> i64 {
    let sizes = weight.ty.static_dims().unwrap_or_default();
    sizes.iter().fold(weight.ty.dtype.size() as i64, |product, &size| product.saturating_mul(size))
}

fn ty(weight: &Weight) -> String {
    Type::Tensor(weight.ty.clone()).to_string()
}

/// Names the origin of a weight's value.
fn source(weight: &Weight) -> &'static str {
    match (&weight.data, weight.prepared) {
        (_, Some(_)) => "prepared",
        (Some(_), None) => "constant",
        (None, None) => "model",
    }
}

fn function_json(function: &Function) -> Value {
    let results: Vec<String> = function.results.iter().map(ToString::to_string).collect();
    json!({
        "kind": kind(function), "name": &*function.name, "parameters": parameters(function), "results": results, "facts": facts(function),
        "ops": ops(function),
    })
}

fn weight_json(weight: &Weight) -> Value {
    json!({ "name": &*weight.name, "type": ty(weight), "bytes": bytes(weight), "source": source(weight) })
}
