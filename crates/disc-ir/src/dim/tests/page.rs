//! The examples of docs/dims.md hold.

use crate::dim::{Dim, Facts, Range, Solver};

const PAGE: &str = include_str!("../../../../../docs/dims.md");

/// The lines of all blocks of one language.
fn blocks(language: &str) -> Vec<Vec<&'static str>> {
    let fences = PAGE.split("```").skip(1).step_by(2);
    let blocks: Vec<Vec<&str>> = fences
        .filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'))
        .map(|block| block.lines().collect())
        .collect();
    assert!(!blocks.is_empty(), "blocks of {language}");
    blocks
}

fn sides(line: &'static str, separator: &str) -> Option<(&'static str, &'static str)> {
    line.split_once(separator).map(|(left, right)| (left.trim(), right.trim()))
}

fn dim(text: &str) -> Dim {
    Dim::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn canonical_forms() {
    for line in blocks("dims").concat() {
        let (text, expected) = sides(line, "->").expect(line);
        assert_eq!(dim(text).to_string(), expected, "{line}");
    }
}

#[test]
fn stored_facts() {
    for line in blocks("facts").concat() {
        let (text, expected) = sides(line, "->").expect(line);
        match (Facts::parse(text), expected.strip_prefix("error: ")) {
            (Ok(facts), None) => assert_eq!(facts.to_string(), expected, "{line}"),
            (Err(error), Some(message)) => assert_eq!(error.message, message, "{line}"),
            (result, _) => panic!("{line}: {result:?}"),
        }
    }
}

#[test]
fn proofs() {
    for block in blocks("proofs") {
        let (facts, questions) = block.split_first().expect("facts, then questions");
        let facts = facts.strip_prefix("where ").expect("facts start with `where`");
        let solver = Solver::new(&Facts::parse(facts).unwrap());
        questions.iter().for_each(|line| check(&solver, line));
    }
}

fn check(solver: &Solver, line: &'static str) {
    if let Some((text, expected)) = sides(line, "->") {
        assert_eq!(solver.canonical(&dim(text)).to_string(), expected, "{line}");
    } else if let Some((question, expected)) = sides(line, " ? ") {
        let (a, b) = sides(question, "==").expect(line);
        assert!(!solver.equal(&dim(a), &dim(b)), "{line}");
        assert_eq!(solver.explain_unequal(&dim(a), &dim(b)), expected, "{line}");
    } else if let Some((text, by)) = sides(line, "multiple of") {
        assert!(solver.divisible(&dim(text), by.parse().unwrap()), "{line}");
    } else if let Some((text, range)) = sides(line, " in ") {
        let (lo, hi) = sides(range, "..").expect(line);
        let expected = Range { lo: lo.parse().ok(), hi: hi.parse().ok() };
        assert_eq!(solver.range(&dim(text)), expected, "{line}");
    } else if let Some((a, b)) = sides(line, "<=") {
        assert!(solver.less_equal(&dim(a), &dim(b)), "{line}");
    } else {
        let (a, b) = sides(line, "==").expect(line);
        assert!(solver.equal(&dim(a), &dim(b)), "{line}");
    }
}
