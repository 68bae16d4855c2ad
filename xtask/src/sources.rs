//! Lists the files of the repository, for the checks.
//!
//! Files that git ignores are not listed. A new file is, before it is added.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Metadata, MetadataCommand};

/// A text file; `path` is relative to the repository, with `/`.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(crate) fn is_python(&self) -> bool {
        self.path.ends_with(".py") || self.path.ends_with(".pyi")
    }

    /// Returns true if the whole file is test code: an integration test, a bench, an example, a
    /// module of tests.
    pub(crate) fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let folders = self.path.split('/').rev().skip(1);
        folders.into_iter().any(|f| matches!(f, "tests" | "benches" | "examples" | "fuzz"))
            || name == "tests.rs"
            || name.ends_with("_tests.rs")
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the root").to_owned()
}

/// Every text file that git knows or would add.
pub(crate) fn all(root: &Path) -> Result<Vec<Source>> {
    let listing = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("git ls-files")?;
    ensure!(listing.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listing.stderr).trim());
    let mut sources = Vec::new();
    for path in String::from_utf8(listing.stdout)?.split('\0').filter(|p| !p.is_empty()) {
        // A deleted file is still listed; a binary file is no text.
        let Ok(bytes) = fs::read(root.join(path)) else { continue };
        if let Ok(text) = String::from_utf8(bytes) {
            sources.push(Source { path: path.to_owned(), text });
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

/// Returns cargo's metadata of the packages of the workspace, without their dependencies' own
/// dependencies.
pub(crate) fn workspace(root: &Path) -> Result<Metadata> {
    Ok(MetadataCommand::new().manifest_path(root.join("Cargo.toml")).no_deps().exec()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_code_is_told_by_its_place() {
        let is_test = |path: &str| Source { path: path.into(), text: String::new() }.is_test();
        assert!(is_test("crates/disc-ir/tests/text.rs"));
        assert!(is_test("crates/disc-ir/src/dim/tests.rs"));
        assert!(is_test("fuzz/fuzz_targets/parse.rs"));
        assert!(!is_test("crates/disc-ir/src/latest.rs"));
    }
}
