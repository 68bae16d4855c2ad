//! Imports StableHLO.
//!
//! [`survey`] finds all ops of a text before it is read, so that the ones that are missing are one
//! error. The text itself is read by disc-ir's parser, whose pretty forms are those of StableHLO
//! (docs/ir.md); sizes of results that the text leaves open follow from the operands, and names of
//! inputs and outputs are in attributes.
mod names;
mod sizes;
mod survey;

pub use names::{Argument, Stated, signatures};
pub use survey::{Found, Missing, Survey, survey};

use crate::{
    program::{Imported, Signature, name_open},
    source::limits::{FILE, NODES},
};
use disc_ir::{Attr, Code, Diagnostic, Function, Module, OpKind, Symbol, ops::Stage, verify};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Reads all functions of a text.
///
/// # Errors
/// E1002, a limit; E1003, all ops that are missing; those of the text, with places in it.
pub fn module(text: &str) -> Result<Module, Vec<Diagnostic>> {
    FILE.check(text.len()).map_err(|error| vec![error])?;
    let survey = survey(text);
    NODES.check(survey.ops.values().map(|found| found.places.len()).sum()).map_err(|error| vec![error])?;
    survey.check().map_err(|error| vec![error])?;
    let mut module = disc_ir::parse(text)?;
    sizes::resolve(&mut module);
    verify(&module, Stage::Tensor)?;
    Ok(module)
}

/// Imports one function of a text: the one of this name; else `main`, or the only one that no other
/// calls.
///
/// # Errors
/// As [`module`]; E1001, there is no such function.
pub fn read(text: &str, entry: Option<&str>) -> Result<Imported, Vec<Diagnostic>> {
    let mut module = module(text)?;
    let entry = choose(&module, entry).map_err(|error| vec![error])?;
    keep(&mut module, &entry);
    let mut signature = Signature::default();
    if let Some(function) = module.functions.first_mut() {
        signature = named(signatures(text).get(&*function.name), function);
        name_open(function, &signature.inputs, is_unnamed);
    }
    Ok(Imported { module, weights: Vec::new(), signature, assumed: Vec::new() })
}

/// Returns the names of a function's inputs and outputs: those that its head states if they are
/// distinct, else the names of the parameters, and `output0`, `output1`, ...
pub fn named(stated: Option<&Stated>, function: &Function) -> Signature {
    let (inputs, outputs) = stated.map_or((&[][..], &[][..]), |(inputs, outputs)| (inputs, outputs));
    let parameters = function.parameters().iter().enumerate();
    let word = |(i, &value)| function.name_of(value).map_or_else(|| format!("input{i}"), ToString::to_string);
    let words: Vec<String> = parameters.map(word).collect();
    let numbered: Vec<String> = (0..function.results.len()).map(|i| format!("output{i}")).collect();
    Signature {
        entry: function.name.to_string(),
        inputs: distinct(inputs, words.len()).unwrap_or(words),
        outputs: distinct(outputs, numbered.len()).unwrap_or(numbered),
    }
}

/// Returns the stated names if all are there and no two are equal.
fn distinct(stated: &[Argument], count: usize) -> Option<Vec<String>> {
    let names: Vec<String> = stated.iter().map(|argument| argument.name.clone()).collect::<Option<_>>()?;
    let different: HashSet<&String> = names.iter().collect();
    (names.len() == count && different.len() == count).then_some(names)
}

/// Returns true for the symbols that the parser gives to `?`.
fn is_unnamed(symbol: &Symbol) -> bool {
    symbol.name().strip_prefix('u').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

fn choose(module: &Module, wanted: Option<&str>) -> Result<Arc<str>, Diagnostic> {
    let names: Vec<&str> = module.functions.iter().map(|function| &*function.name).collect();
    let list = || names.iter().map(|name| format!("@{name}")).collect::<Vec<_>>().join(", ");
    if let Some(wanted) = wanted {
        let function = module.function(wanted).map(|function| Arc::clone(&function.name));
        return function
            .ok_or_else(|| Diagnostic::new(Code::E1001, format!("the model has no function @{wanted}; it has: {}", list())));
    }
    if let Some(main) = module.function("main") {
        return Ok(Arc::clone(&main.name));
    }
    let called: HashSet<Arc<str>> = module.functions.iter().flat_map(callees).collect();
    let mut entries = module.functions.iter().filter(|function| !called.contains(&function.name));
    match (entries.next(), entries.next()) {
        (Some(entry), None) => Ok(Arc::clone(&entry.name)),
        (None, _) => Err(Diagnostic::new(Code::E1001, "the model has no function to call")),
        _ => {
            let message = format!("the model has several functions to call and none is @main: {}", list());
            Err(Diagnostic::new(Code::E1001, message).help("name one as the entry"))
        }
    }
}

/// Drops all functions but the entry, which becomes the first, and those that it calls.
fn keep(module: &mut Module, entry: &Arc<str>) {
    let by_name: HashMap<&str, &Function> = module.functions.iter().map(|function| (&*function.name, function)).collect();
    let (mut needed, mut open) = (HashSet::new(), vec![Arc::clone(entry)]);
    while let Some(name) = open.pop() {
        if needed.insert(Arc::clone(&name)) {
            open.extend(by_name.get(&*name).into_iter().flat_map(|function| callees(function)));
        }
    }
    module.functions.retain(|function| needed.contains(&function.name));
    module.functions.sort_by_key(|function| function.name != *entry);
}

fn callees(function: &Function) -> Vec<Arc<str>> {
    let calls = function.walk(function.body).into_iter().filter(|&inst| function.kind_of(inst) == OpKind::Call);
    let name = |inst| match function.inst(inst).attrs.first() {
        Some(Some(Attr::Symbol(name))) => Some(Arc::clone(name)),
        _ => None,
    };
    calls.filter_map(name).collect()
}
