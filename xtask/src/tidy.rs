//! Checks rules beyond the compiler, clippy and rustfmt: `cargo xtask tidy`.
//!
//! Each check is a function from sources (or manifests) to findings, with a test that shows it can
//! fail. A check has no exceptions but the comment `// tidy: allow(function-length): REASON` above
//! a function that must be long.

mod code;
mod codes;
mod dependencies;
mod files;
mod frameworks;
mod impls;
mod maps;
mod modules;
mod packages;
mod passes;
mod places;
mod prose;
mod test_folders;
mod tokens;
mod words;

use std::{fmt, path::Path};

use anyhow::Result;

use crate::{codegen, layers, sources};

#[derive(Debug, PartialEq)]
pub(crate) struct Finding {
    check: &'static str,
    path: String,
    /// 0: the file as a whole.
    line: usize,
    message: String,
}

impl Finding {
    fn error(check: &'static str, path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { check, path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.check, self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Runs every check. Returns true if none found an error.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let sources = sources::all(root)?;
    let mut findings = Vec::new();
    for source in &sources {
        findings.extend(places::check(source));
        findings.extend(files::check(source));
        findings.extend(prose::check(source));
        findings.extend(packages::check(source));
        findings.extend(words::check(source));
        if source.is_rust() {
            findings.extend(code::check(source));
            findings.extend(frameworks::check(source));
        }
    }
    findings.extend(impls::check(&sources));
    findings.extend(codes::check(&sources));
    findings.extend(maps::check(&sources));
    findings.extend(passes::check(&sources));
    findings.extend(test_folders::check(&sources));
    findings.extend(modules::check(&sources, layers::MODULES));
    findings.extend(modules::check_table(&sources));
    findings.extend(dependencies::check(root, &sources)?);
    for name in codegen::stale(root)? {
        findings.push(Finding::error("generated", &name, 0, "stale: run `cargo xtask codegen`"));
    }
    for finding in &findings {
        eprintln!("{finding}");
    }
    eprintln!("tidy: {} files, {} errors", sources.len(), findings.len());
    Ok(findings.is_empty())
}
