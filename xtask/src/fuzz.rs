//! Runs the fuzzer of the filetests: `cargo xtask fuzz`.

use std::{path::Path, process::Command};

use anyhow::{Context, Result};

/// Returns false if an input failed; it is printed.
pub(crate) fn run(root: &Path, seconds: u64, seed: u64) -> Result<bool> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root).args(["run", "--quiet", "--package", "disc-filetests", "--bin", "disc-fuzz", "--"]);
    cargo.args(["--seconds", &seconds.to_string(), "--seed", &seed.to_string()]);
    Ok(cargo.status().context("running the fuzzer")?.success())
}
