//! Runs tests in processes of their own: what a process has loaded or lost stays so.
#![allow(dead_code, reason = "each test uses its part")]
use std::{ffi::OsStr, process::Command};

/// Set in a child process that runs one test.
const CHILD: &str = "DISC_TEST_CHILD";

/// Returns true in such a process.
pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs one test of this binary, by its whole name, with variables of the environment.
pub(crate) fn in_child<V: AsRef<OsStr>>(test: &str, variables: &[(&str, V)]) {
    let this = std::env::current_exe().expect("the path of this test");
    let mut command = Command::new(this);
    command.args(["--exact", test, "--nocapture"]).env(CHILD, "1");
    command.envs(variables.iter().map(|(name, value)| (name, value.as_ref())));
    let output = command.output().expect("this test runs again");
    let [said, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    // A name that no test has would pass.
    assert!(output.status.success() && said.contains("1 passed"), "{said}{errors}");
}
