//! Checks that each Python test is in a folder that mirrors the code, and that no two have one
//! name.

use std::collections::BTreeMap;

use super::Finding;
use crate::{layers::TEST_FOLDERS, sources::Source};

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut first = BTreeMap::new();
    for path in sources.iter().map(|source| source.path.as_str()) {
        let Some((folder, name)) = path.rsplit_once('/').filter(|(folder, name)| is_test(folder, name)) else { continue };
        if !TEST_FOLDERS.iter().any(|known| known.name == folder) {
            let folders: Vec<&str> = TEST_FOLDERS.iter().map(|known| known.name).collect();
            let message = format!(
                "`{folder}` is no folder of tests: a test is in the folder that mirrors the package or crate that it \
                 tests, one of {} (xtask/src/layers.rs)",
                folders.join(", ")
            );
            findings.push(Finding::error("test-folders", path, 0, message));
        }
        if let Some(other) = first.insert(name, path) {
            let message = format!("{other} has the same name, and pytest imports tests by their names");
            findings.push(Finding::error("test-folders", path, 0, message));
        }
    }
    findings
}

fn is_test(folder: &str, name: &str) -> bool {
    (folder == "tests" || folder.starts_with("tests/")) && name.starts_with("test_") && name.ends_with(".py")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(paths: &[&str]) -> Vec<(String, String)> {
        let sources: Vec<Source> = paths.iter().map(|&path| Source { path: path.into(), text: String::new() }).collect();
        check(&sources).into_iter().map(|finding| (finding.path, finding.message)).collect()
    }

    #[test]
    fn a_test_outside_of_the_folders_is_found_by_name() {
        for folder in ["tests", "tests/torch", "tests/torch/caches", "tests/support"] {
            let path = format!("{folder}/test_planted.py");
            let findings = found(&[&path]);
            assert_eq!(findings.len(), 1, "{path}");
            assert_eq!(findings[0].0, path);
            assert!(findings[0].1.starts_with(&format!("`{folder}` is no folder of tests")), "{}", findings[0].1);
        }
    }

    #[test]
    fn tests_in_their_folders_and_other_files_are_no_fault() {
        let helpers = ["tests/conftest.py", "tests/support/model_check.py", "tests/torch/cache/cache_cases.py"];
        assert_eq!(found(&helpers), []);
        assert_eq!(found(&["tests/core/test_a.py", "tests/torch/cache/test_b.py", "examples/serving/test_c.py"]), []);
    }

    #[test]
    fn two_tests_of_one_name_are_found() {
        let findings = found(&["tests/core/test_a.py", "tests/torch/cache/test_a.py"]);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].0, "tests/torch/cache/test_a.py");
        assert!(findings[0].1.starts_with("tests/core/test_a.py has the same name"), "{}", findings[0].1);
    }
}
