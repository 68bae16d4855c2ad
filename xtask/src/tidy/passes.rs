//! Checks that a pass, its file and its filetest have one name: `split-matmuls`, `split_matmuls.rs`
//! and `split_matmuls.disc`.

use super::Finding;
use crate::sources::Source;

const PASSES: &str = "crates/disc-passes/src/";
const FILETESTS: &str = "filetests/passes/";
/// Tests of several passes at once.
const PIPELINES: &str = "pipeline/";

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut stems = Vec::new();
    for source in sources.iter().filter(|source| source.path.starts_with(PASSES)) {
        let Some((line, name)) = declared(&source.text) else { continue };
        let stem = name.replace('-', "_");
        if !source.path.ends_with(&format!("/{stem}.rs")) {
            findings.push(Finding::error("pass-name", &source.path, line, format!("the file of pass `{name}` is not {stem}.rs")));
        }
        let tests = tests(sources).filter(|(test, _)| *test == stem || test.starts_with(&format!("{stem}/")));
        let is_shown = tests.into_iter().any(|(_, source)| shows(&source.text, name));
        if !is_shown {
            let message = format!("no test of pass `{name}` is in {FILETESTS}{stem}.disc or a folder of that name");
            findings.push(Finding::error("pass-name", &source.path, line, message));
        }
        stems.push(stem);
    }
    for (test, source) in tests(sources).filter(|(test, _)| !test.starts_with(PIPELINES)) {
        let names =
            |stem: &String| test.strip_prefix(stem.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', '/']));
        if !stems.iter().any(names) {
            findings.push(Finding::error("pass-name", &source.path, 0, "its name begins with the name of no pass"));
        }
    }
    findings
}

/// Returns the filetests of passes, by their path without the folder and the extension.
fn tests(sources: &[Source]) -> impl Iterator<Item = (&str, &Source)> {
    sources.iter().filter_map(|source| Some((source.path.strip_prefix(FILETESTS)?.strip_suffix(".disc")?, source)))
}

/// Returns the name of the pass that a file declares, with its line.
fn declared(text: &str) -> Option<(usize, &str)> {
    let mut lines = (1..).zip(text.lines()).skip_while(|(_, line)| !line.contains("static PASS: PassDef"));
    lines.find_map(|(number, line)| Some((number, line.trim().strip_prefix("name: \"")?.strip_suffix("\",")?)))
}

/// Returns true if a filetest runs a pass, by its header: by name, or as a step of the pipeline.
fn shows(text: &str, pass: &str) -> bool {
    let headers = text.lines().filter_map(|line| line.strip_prefix("//@ test "));
    let mut words = headers.flat_map(|header| header.split(' '));
    words.any(|word| match word.split_once('=') {
        Some(("pass", names)) => names.split(',').any(|name| name == pass),
        Some((kind, _)) => kind == "pipeline",
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASS: &str = "pub static PASS: PassDef = PassDef {\n    name: \"split-rows\",\n    doc: \"\",\n};\n";

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let source = |&(path, text): &(&str, &str)| Source { path: path.into(), text: text.into() };
        let sources: Vec<Source> = files.iter().map(source).collect();
        check(&sources).into_iter().map(|finding| (finding.path, finding.line)).collect()
    }

    const FILE: &str = "crates/disc-passes/src/tensor/split_rows.rs";
    const TEST: (&str, &str) = ("filetests/passes/split_rows.disc", "//@ test pass=fold,split-rows\n");

    #[test]
    fn one_name_for_all_three_is_no_fault() {
        assert_eq!(found(&[(FILE, PASS), TEST]), []);
        assert_eq!(found(&[(FILE, PASS), TEST, ("filetests/passes/split_rows_large.disc", "")]), []);
        assert_eq!(found(&[(FILE, PASS), ("filetests/passes/split_rows/one.disc", "//@ test pass=split-rows")]), []);
        assert_eq!(found(&[(FILE, PASS), ("filetests/passes/split_rows.disc", "//@ test pipeline=tensor..fused")]), []);
        assert_eq!(found(&[(FILE, PASS), TEST, ("filetests/passes/pipeline/all.disc", "")]), []);
        assert_eq!(found(&[("crates/disc-passes/src/fusion/form.rs", "//! No pass.")]), []);
    }

    #[test]
    fn a_file_of_another_name_is_found() {
        let file = "crates/disc-passes/src/tensor/rows.rs";
        assert_eq!(found(&[(file, PASS), TEST]), [(file.to_owned(), 2)]);
    }

    #[test]
    fn a_pass_without_a_filetest_of_its_name_is_found() {
        assert_eq!(found(&[(FILE, PASS)]), [(FILE.to_owned(), 2)]);
        assert_eq!(found(&[(FILE, PASS), ("filetests/passes/split_rows.disc", "//@ test pass=fold")]), [(FILE.to_owned(), 2)]);
    }

    #[test]
    fn a_filetest_that_is_named_for_no_pass_is_found() {
        let other = "filetests/passes/split_rowsets.disc";
        assert_eq!(found(&[(FILE, PASS), TEST, (other, "")]), [(other.to_owned(), 0)]);
    }
}
