//! Summarises a model of another tool before anything is done to it: inputs and outputs, ops with
//! their numbers, and those of them that are missing.
use super::list;
use crate::{answer::Answer, source::Source};
use disc::import::{self, Argument, Found, Signature};
use disc_ir::Diagnostic;
use serde_json::{Value, json};

/// Summarises StableHLO. A text that lacks no op is read, so that its errors are found.
pub(super) fn stablehlo(source: &Source) -> Result<Answer, Vec<Diagnostic>> {
    let survey = import::survey(&source.text);
    let mut stated = import::signatures(&source.text);
    let missing: Vec<Value> = survey.missing().map(|(name, found, why)| missing_json(name, found, why.reason())).collect();
    let mut functions: Vec<(String, Rows, Rows)> = Vec::new();
    if missing.is_empty() {
        let (module, _) = source.module(None)?;
        for function in &module.functions {
            let Signature { entry, inputs, outputs } = import::named(stated.get(&*function.name), function);
            let ty = |i: usize| function.parameters().get(i).map_or_else(String::new, |&value| function.ty(value).to_string());
            let inputs = inputs.into_iter().enumerate().map(|(i, name)| (name, ty(i))).collect();
            let outputs = outputs.into_iter().zip(function.results.iter().map(ToString::to_string)).collect();
            functions.push((entry, inputs, outputs));
        }
    } else if let Some((inputs, outputs)) = stated.remove("main") {
        functions.push(("main".into(), rows(inputs, "input"), rows(outputs, "output")));
    }
    let mut text = "StableHLO\n".to_owned();
    for (name, inputs, outputs) in &functions {
        text += &format!("\nfunc @{name}\n");
        text += &list("takes", &lines(inputs));
        text += &list("gives", &lines(outputs));
    }
    text += "\nops\n";
    text.extend(survey.ops.iter().map(|(name, found)| format!("  {:>6}  {name}\n", found.places.len())));
    if !missing.is_empty() {
        text += "\nmissing\n";
        text.extend(survey.missing().map(|(name, found, why)| format!("  {name}: {}, {}\n", why.reason(), found.at())));
    }
    let json = json!({
        "format": "stablehlo",
        "functions": functions.iter().map(|(name, inputs, outputs)| {
            json!({ "name": name, "inputs": ports(inputs), "outputs": ports(outputs) })
        }).collect::<Vec<_>>(),
        "ops": survey.ops.iter().map(|(name, found)| (name.clone(), json!(found.places.len()))).collect::<serde_json::Map<_, _>>(),
        "missing": missing,
    });
    Ok(Answer::new(text, json))
}

/// Names and types.
type Rows = Vec<(String, String)>;

/// Returns names and types as the text has them.
fn rows(arguments: Vec<Argument>, word: &str) -> Rows {
    let row = |(i, argument): (usize, Argument)| (argument.name.unwrap_or_else(|| format!("{word}{i}")), argument.ty);
    arguments.into_iter().enumerate().map(row).collect()
}

fn lines(rows: &Rows) -> Vec<String> {
    rows.iter().map(|(name, ty)| format!("{name}: {ty}")).collect()
}

fn ports(rows: &Rows) -> Vec<Value> {
    rows.iter().map(|(name, ty)| json!({ "name": name, "type": ty })).collect()
}

fn missing_json(name: &str, found: &Found, reason: &str) -> Value {
    json!({ "op": name, "reason": reason, "lines": found.lines })
}
