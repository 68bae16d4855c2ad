//! Checks a file as a whole: a Rust file says what it is, and no source file is too long.

use super::Finding;
use crate::sources::Source;

const LONGEST_FILE: usize = 600;

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    if source.is_rust() {
        findings.extend(header(source));
    }
    if source.is_rust() || source.is_python() {
        findings.extend(length(source));
    }
    findings
}

fn header(source: &Source) -> Option<Finding> {
    let missing = !source.text.starts_with("//!");
    missing.then(|| Finding::error("header", &source.path, 1, "the file does not start with a `//!` that says what it does"))
}

fn length(source: &Source) -> Option<Finding> {
    let lines = source.text.lines().count();
    let message = format!("{lines} lines, {LONGEST_FILE} are the limit: split it by what it does");
    (lines > LONGEST_FILE).then(|| Finding::error("file-length", &source.path, 0, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: String) -> Source {
        Source { path: path.into(), text }
    }

    #[test]
    fn a_file_without_a_header_is_found() {
        assert!(header(&source("crates/a/src/lib.rs", "use std::fmt;\n//! late\n".into())).is_some());
        assert!(header(&source("crates/a/src/lib.rs", "//! Counts.\n".into())).is_none());
        assert!(check(&source("a.py", "import os\n".into())).is_empty());
    }

    #[test]
    fn a_long_file_is_found() {
        for path in ["crates/a/src/lib.rs", "python/a.py"] {
            assert_eq!(check(&source(path, "//! x\n".repeat(600))), []);
            assert_eq!(check(&source(path, "//! x\n".repeat(601))).len(), 1);
        }
        assert_eq!(check(&source("a.md", "x\n".repeat(601))), []);
    }
}
