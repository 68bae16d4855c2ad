//! Checks on a Rust file as a whole: it says what it is, and it is not too long.

use super::Finding;
use crate::sources::Source;

const WARN_ABOVE: usize = 600;
const FAIL_ABOVE: usize = 1000;

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(header(source));
    findings.extend(length(source));
    findings
}

fn header(source: &Source) -> Option<Finding> {
    let missing = !source.text.starts_with("//!");
    missing.then(|| Finding::error("header", &source.path, 1, "the file does not start with a `//!` that says what it is"))
}

fn length(source: &Source) -> Option<Finding> {
    let lines = source.text.lines().count();
    let message = format!("{lines} lines: split it by what it does");
    if lines > FAIL_ABOVE {
        return Some(Finding::error("file-length", &source.path, 0, message));
    }
    (lines > WARN_ABOVE).then(|| Finding::warning("file-length", &source.path, 0, message))
}

#[cfg(test)]
mod tests {
    use super::{super::Severity, *};

    fn source(text: String) -> Source {
        Source { path: "crates/a/src/lib.rs".into(), text }
    }

    #[test]
    fn a_file_without_a_header_is_found() {
        assert!(header(&source("use std::fmt;\n//! late\n".into())).is_some());
        assert!(header(&source("//! What it is.\n".into())).is_none());
    }

    #[test]
    fn a_long_file_is_found() {
        let severity = |lines: usize| length(&source("//! x\n".repeat(lines))).map(|finding| finding.severity);
        assert_eq!(severity(600), None);
        assert_eq!(severity(601), Some(Severity::Warning));
        assert_eq!(severity(1000), Some(Severity::Warning));
        assert_eq!(severity(1001), Some(Severity::Error));
    }
}
