//! Tests that parser and verifier report the annotated errors, on the annotated lines:
//! `verify [stage=NAME]`.
use super::{Tried, stage};
use crate::{
    annotations,
    file::{Command, TestFile},
};
use disc_ir::{
    Diagnostic,
    text::Lines,
    verify::{stage_of, verify},
};

pub(crate) fn run(file: &TestFile, command: &Command) -> Tried {
    let wanted = command.options.get("stage").map(|name| stage(name)).transpose()?;
    let mut errors = Vec::new();
    let mut source = file.source.clone();
    let module = loop {
        match disc_ir::parse(&source) {
            Ok(module) => break module,
            Err(found) => {
                let left = without(&source, &found);
                errors.extend(found);
                if left == source {
                    return Ok(annotations::rewrite(&file.source, &errors));
                }
                source = left;
            }
        }
    };
    let stage = wanted.unwrap_or_else(|| stage_of(&module));
    errors.extend(verify(&module, stage).err().unwrap_or_default());
    Ok(annotations::rewrite(&file.source, &errors))
}

/// Removes the items (from an unindented line to the next) that contain these errors; every other
/// byte keeps its position.
fn without(source: &str, errors: &[Diagnostic]) -> String {
    let lines = Lines::new(source);
    let guilty: Vec<usize> =
        errors.iter().map(|error| lines.position(error.span.map_or(0, |span| span.start)).line - 1).collect();
    let all: Vec<&str> = source.split_inclusive('\n').collect();
    let starts_item = |line: &str| line.starts_with(|c: char| c.is_ascii_alphabetic());
    let mut blank = vec![false; all.len()];
    for line in guilty {
        let start = (0..=line.min(all.len() - 1)).rev().find(|&i| starts_item(all[i])).unwrap_or(line);
        let end = (line + 1..all.len()).find(|&i| starts_item(all[i])).unwrap_or(all.len());
        blank[start..end].fill(true);
    }
    let erase =
        |line: &str| line.chars().flat_map(|c| std::iter::repeat_n(if c == '\n' { c } else { ' ' }, c.len_utf8())).collect();
    all.iter().zip(blank).map(|(line, blank)| if blank { erase(line) } else { String::from(*line) }).collect()
}
