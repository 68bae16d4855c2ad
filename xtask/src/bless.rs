//! Blesses the filetests: runs every filetest harness with `DISC_BLESS=1`.
//!
//! A harness is a test target named `filetests`, in any crate.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::sources;

const TARGET: &str = "filetests";

/// Returns false if a harness still fails: blessing rewrites expected text, it does not hide
/// errors.
pub(crate) fn run(root: &Path, filter: Option<&str>) -> Result<bool> {
    let metadata = sources::workspace(root)?;
    let harnesses: Vec<&str> = metadata
        .packages
        .iter()
        .filter(|package| package.targets.iter().any(|target| target.is_test() && target.name == TARGET))
        .map(|package| package.name.as_str())
        .collect();
    ensure!(!harnesses.is_empty(), "no crate has a test target named `{TARGET}`");
    let mut clean = true;
    for package in harnesses {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(root).env("DISC_BLESS", "1");
        cargo.args(["test", "--package", package, "--test", TARGET, "--"]).args(filter);
        clean &= cargo.status().with_context(|| format!("running the filetests of {package}"))?.success();
    }
    Ok(clean)
}
