//! Proves that a change leaves the compiled code as it was: `cargo xtask same-code`.
//!
//! The example `same_code` of the facade, which links LLVM, writes the kernels and the assembly of
//! the textual corpus, the op matrix and the programs of the benches. This command compares the
//! output of two trees, and names the first program and line that differ.
mod compare;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use compare::{Renames, compare};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder that is written.
    #[arg(long, default_value = "target/same-code/now")]
    out: PathBuf,
    /// The output of another tree, or a revision, which is checked out and written first.
    #[arg(long)]
    against: Option<String>,
    /// A name that changed, as `OLD=NEW`: whole words in the other tree's text and file names.
    #[arg(long = "renamed", value_name = "OLD=NEW")]
    renamed: Vec<String>,
    /// Compares existing output, and writes nothing.
    #[arg(long)]
    only_compare: bool,
    /// Further options of the example, such as `--programs DIR` (text of `benches/programs.py`).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

/// Returns false if a program differs; the differences are printed.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<bool> {
    let out = root.join(&arguments.out);
    if !arguments.only_compare {
        write(root, &out, &arguments.options)?;
    }
    let Some(against) = &arguments.against else { return Ok(true) };
    let renames = Renames::parse(&arguments.renamed)?;
    let other = if root.join(against).join("hashes").is_file() {
        root.join(against)
    } else {
        of_revision(root, against, &arguments.options)?
    };
    let differences = compare(&other, &out, &renames)?;
    for line in &differences {
        println!("{line}");
    }
    println!("same-code: {}", if differences.is_empty() { "equal".into() } else { format!("{} differences", differences.len()) });
    Ok(differences.is_empty())
}

fn write(root: &Path, out: &Path, options: &[String]) -> Result<()> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root).args(["run", "--quiet", "--profile", "fast", "--package", "disc", "--example", "same_code", "--"]);
    cargo.arg("--out").arg(out).args(options);
    if !cargo.status().context("writing the code")?.success() {
        bail!("the code of {} was not written", root.display());
    }
    Ok(())
}

/// Writes the output of a revision's tree, in a folder of its commit.
fn of_revision(root: &Path, revision: &str, options: &[String]) -> Result<PathBuf> {
    let git = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("git").current_dir(root).args(arguments).output().context("running git")?;
        if !output.status.success() {
            bail!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let commit = git(&["rev-parse", "--verify", &format!("{revision}^{{commit}}")])?;
    let out = root.join("target/same-code").join(&commit);
    if !out.join("hashes").is_file() {
        let tree = root.join("target/same-code").join(format!("tree-{commit}"));
        git(&["worktree", "add", "--force", "--detach", &tree.to_string_lossy(), &commit])?;
        let written = write(&tree, &out, options);
        git(&["worktree", "remove", "--force", &tree.to_string_lossy()])?;
        written?;
    }
    Ok(out)
}
