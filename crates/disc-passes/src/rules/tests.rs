//! Checks that every rule is hit by the function of its name in filetests/passes/canonicalize, that
//! none is hit in those named `keeps_..`, and that all functions compute the same afterwards, on
//! edge values.
use crate::{
    pass::PassManager,
    rules::{self, canonicalize},
    testing::same_meaning,
};
use disc_ir::{Function, Module, text};
use std::{collections::BTreeMap, fs, path::Path};

fn functions() -> Vec<Function> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/passes/canonicalize");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let parsed = files.iter().map(|path| {
        let source = fs::read_to_string(path).unwrap();
        text::parse(&source).unwrap_or_else(|errors| {
            let at = errors[0].span.map_or(0, |span| span.start);
            let line = text::Lines::new(&source).position(at).line;
            panic!("{}:{line}: {}", path.display(), errors[0])
        })
    });
    parsed.flat_map(|module| module.functions).collect()
}

fn hits_of(function: Function) -> (String, BTreeMap<&'static str, usize>) {
    let name = function.name.to_string();
    let mut module = Module { functions: vec![function], ..Module::default() };
    let before = module.clone();
    let mut manager = PassManager::default();
    manager.run(&mut module, &canonicalize::PASS).unwrap_or_else(|error| panic!("@{name}: {error}"));
    let printed = module.to_string();
    text::parse(&printed).unwrap_or_else(|errors| panic!("{printed}\n{}", errors[0]));
    same_meaning(&before, &module);
    (name, manager.cx.hits)
}

#[test]
fn every_rule_is_hit_by_the_function_of_its_name() {
    let hits: BTreeMap<String, BTreeMap<&str, usize>> = functions().into_iter().map(hits_of).collect();
    let is_hit = |rule: &&rules::Rule| hits.get(&rule.name.replace('-', "_")).is_some_and(|hits| hits.contains_key(rule.name));
    let missed: Vec<&str> = rules::all().filter(|rule| !is_hit(rule)).map(|rule| rule.name).collect();
    assert!(missed.is_empty(), "rules without a function that hits them: {missed:?}");
    let wrong: Vec<_> = hits.iter().filter(|(name, hits)| name.starts_with("keeps_") && !hits.is_empty()).collect();
    assert!(wrong.is_empty(), "functions that must stay as they are: {wrong:?}");
}

#[test]
fn names_are_unique() {
    let mut names: Vec<&str> = rules::all().map(|rule| rule.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
}
