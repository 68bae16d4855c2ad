//! Runs the example `soak` of the facade, which links LLVM: `cargo xtask soak`.

use std::{path::Path, process::Command};

use anyhow::{Context, Result};

/// Returns false if a program failed; it is printed.
pub(crate) fn run(root: &Path, graphs: u64, options: &[String]) -> Result<bool> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root).args(["run", "--quiet", "--package", "disc", "--example", "soak", "--"]);
    cargo.args(["--graphs", &graphs.to_string()]).args(options);
    Ok(cargo.status().context("running the soak")?.success())
}
