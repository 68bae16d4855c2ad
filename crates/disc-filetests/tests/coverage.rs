//! Checks the tests of every op of the table: constraints with numbers, a negative function for
//! each, and a round trip.
use disc_filetests::corpus;
use disc_ir::ops::OPS;
use disc_passes::registry::PASSES;
use std::{fs, path::Path};

/// Constraints that no text can violate: the literal takes its element type from the result.
/// `tests/verify.rs` of the IR tests them.
const NOT_IN_TEXT: &[&str] = &["constant_c1"];

fn texts(folder: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests").join(folder);
    corpus(&root).iter().map(|(_, path)| fs::read_to_string(path).unwrap()).collect()
}

/// Returns the numbers of the constraints in a doc: (C1), (C2)...
fn constraints(doc: &str) -> Vec<u32> {
    (1..).take_while(|n| doc.contains(&format!("(C{n})"))).collect()
}

#[test]
fn every_op_says_what_it_demands() {
    let silent: Vec<&str> = OPS.iter().filter(|def| constraints(def.doc).is_empty()).map(|def| def.name).collect();
    assert_eq!(silent, [""; 0], "these have no (C1) in their doc");
}

#[test]
fn every_constraint_has_a_function_that_violates_it() {
    let text = texts("verify");
    let mut lacking = Vec::new();
    for def in OPS {
        for n in constraints(def.doc) {
            let name = format!("{}_c{n}", def.name);
            if !NOT_IN_TEXT.contains(&&*name) && !text.contains(&format!(" @{name}_")) {
                lacking.push(name);
            }
        }
    }
    assert_eq!(lacking, [""; 0], "filetests/verify has no function of these names (and an underscore)");
}

#[test]
fn every_op_has_a_round_trip() {
    let text = texts("roundtrip");
    let occurs = |name: &str| text.lines().any(|line| line.split([' ', '=']).any(|word| word == name));
    let lacking: Vec<&str> = OPS.iter().map(|def| def.name).filter(|name| !occurs(name)).collect();
    assert_eq!(lacking, [""; 0], "filetests/roundtrip does not have these");
}

#[test]
fn every_pass_has_a_file_that_shows_it() {
    let text = texts("passes");
    let headers = text.lines().filter_map(|line| line.strip_prefix("//@ test pass=")?.split(' ').next());
    let shown: Vec<&str> = headers.flat_map(|names| names.split(',')).collect();
    let in_pipelines = ["plan-buffers"];
    let lacking: Vec<&str> =
        PASSES.iter().map(|pass| pass.name).filter(|name| !shown.contains(name) && !in_pipelines.contains(name)).collect();
    assert_eq!(lacking, [""; 0], "filetests/passes has no `//@ test pass=NAME` for these");
}
