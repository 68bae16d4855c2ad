//! Checks error codes: every one that the code names is in the table, and every one of the table is
//! named by code.
//!
//! It does not check that a code fits where it is raised. Tests, and documents with examples, may
//! name codes that do not exist.

use std::collections::BTreeSet;

use disc_ir::Code;

use super::{
    Finding,
    tokens::{self, Kind, is_code},
};
use crate::sources::Source;

const TABLE: &str = "crates/disc-ir/src/diag/codes.rs";

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let known: BTreeSet<String> = Code::all().map(|doc| doc.code.to_string()).collect();
    let (mut findings, mut named) = (Vec::new(), BTreeSet::new());
    for source in sources.iter().filter(|source| source.path != TABLE && !source.is_test()) {
        for (line, code) in codes(source) {
            if !known.contains(&code) {
                findings.push(Finding::error("codes", &source.path, line, format!("`{code}` is not in the table of {TABLE}")));
            }
            named.insert(code);
        }
    }
    let unused = known.difference(&named);
    findings
        .extend(unused.map(|code| Finding::error("codes", TABLE, 0, format!("`{code}` is in the table, but no code names it"))));
    findings
}

/// Returns the codes that a file of the product names, with their lines.
fn codes(source: &Source) -> Vec<(usize, String)> {
    if source.path.starts_with("crates/") && source.is_rust() {
        // Another check reports files that are not Rust.
        let sites = tokens::sites(&source.text).unwrap_or_default();
        let code = |site: tokens::Site| match site.kind {
            Kind::Code(code) if !site.in_test => Some((site.line, code)),
            _ => None,
        };
        return sites.into_iter().filter_map(code).collect();
    }
    if source.path.starts_with("python/") && source.path.ends_with(".py") {
        let lines = (1..).zip(source.text.lines());
        return lines.flat_map(|(line, text)| literals(text).map(move |code| (line, code))).collect();
    }
    Vec::new()
}

/// Returns the literals `"E0123"` in a line of Python.
fn literals(line: &str) -> impl Iterator<Item = String> {
    let quotes = line.split(['"', '\'']);
    quotes.filter(|part| is_code(part)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let found = check(&[Source { path: path.into(), text: text.into() }]);
        found
            .into_iter()
            .filter(|finding| finding.path == path)
            .map(|finding| format!("{}: {}", finding.line, finding.message))
            .collect()
    }

    #[test]
    fn a_code_without_a_row_is_found() {
        assert_eq!(messages("crates/a/src/lib.rs", "// E0998\nfn f() { g(\"E0999\", Code::E0101) }").len(), 1);
        assert_eq!(messages("crates/a/tests/t.rs", "fn f() { g(\"E0999\") }"), [""; 0]);
        assert_eq!(messages("python/disc/a.py", "raise Error(\"m\", code=\"E0999\")  # E0998\n").len(), 1);
    }

    #[test]
    fn a_row_without_a_code_is_found() {
        let found = check(&[Source { path: "python/disc/a.py".into(), text: "Error(code=\"E0101\")".into() }]);
        let rows: Vec<&str> = found.iter().map(|finding| &*finding.message).collect();
        assert_eq!(rows.len(), Code::all().count() - 1);
        assert!(rows.iter().all(|row| !row.contains("E0101")));
    }
}
