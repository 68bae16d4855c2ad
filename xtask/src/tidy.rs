//! `cargo xtask tidy`: what the compiler, clippy and rustfmt do not check.
//!
//! Each check is a function from sources (or manifests) to findings, with a test that shows it can
//! fail. A check has no exceptions list; the one escape is the comment
//! `// tidy: allow(function-length): REASON` above a function that must be long.

mod code;
mod codes;
mod dependencies;
mod files;
mod maps;
mod places;
mod tokens;

use std::{fmt, path::Path};

use anyhow::Result;

use crate::{codegen, sources};

#[derive(Debug, PartialEq)]
pub(crate) struct Finding {
    check: &'static str,
    path: String,
    /// 0: the file as a whole.
    line: usize,
    message: String,
    severity: Severity,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Severity {
    Error,
    Warning,
}

impl Finding {
    fn error(check: &'static str, path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { check, path: path.to_owned(), line, message: message.into(), severity: Severity::Error }
    }

    fn warning(check: &'static str, path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { severity: Severity::Warning, ..Finding::error(check, path, line, message) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = if self.severity == Severity::Error { "error" } else { "warning" };
        write!(f, "{severity}[{}]: {}", self.check, self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Runs every check; true if none found an error.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let sources = sources::all(root)?;
    let mut findings = Vec::new();
    for source in &sources {
        findings.extend(places::check(source));
        if source.is_rust() {
            findings.extend(files::check(source));
            findings.extend(code::check(source));
        }
    }
    findings.extend(codes::check(&sources));
    findings.extend(maps::check(&sources));
    findings.extend(dependencies::check(root, &sources)?);
    for name in codegen::stale(root)? {
        findings.push(Finding::error("generated", &name, 0, "stale: run `cargo xtask codegen`"));
    }
    for finding in &findings {
        eprintln!("{finding}");
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    eprintln!("tidy: {} files, {errors} errors, {} warnings", sources.len(), findings.len() - errors);
    Ok(errors == 0)
}
