//! The maps of the code (ARCHITECTURE.md, CONTRIBUTING.md) name files, folders and items that
//! exist.
//!
//! A path is a word that begins with a folder of the repository's root, `crates/disc-ir/src`, or a
//! link between the pages. `crates/disc-ir/src/build.rs::op` names an item besides: the file
//! defines it. A source file by itself, `build.rs`, is the end of some path.
//!
//! A walk is a section of ARCHITECTURE.md with numbered steps. Each step names the code that does
//! it, and a fault in one is reported with the walk and the step.

use super::Finding;
use crate::sources::Source;
use std::collections::BTreeSet;

const MAPS: [&str; 2] = ["ARCHITECTURE.md", "CONTRIBUTING.md"];
const WALKS: &str = "ARCHITECTURE.md";
const CODE: [&str; 4] = [".rs", ".py", ".c", ".disc"];

/// The words that are before the name of an item.
const DEFINES: [&str; 10] = ["fn", "struct", "enum", "trait", "const", "static", "mod", "type", "def", "class"];

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let known: BTreeSet<&str> = sources.iter().flat_map(|source| with_folders(&source.path)).collect();
    let mut findings = Vec::new();
    for map in sources.iter().filter(|source| MAPS.contains(&source.path.as_str())) {
        let mut error = |line, message| findings.push(Finding::error("maps", &map.path, line, message));
        let mut place = Place::default();
        for (line, text) in (1..).zip(map.text.lines()) {
            if let Some(message) = place.read(line, text).filter(|_| map.path == WALKS) {
                error(message.0, message.1);
            }
            for word in words(text) {
                let fault = fault(word, &known, sources);
                place.names_code |= fault.is_some() || known.contains(path_of(word)) && word.contains('/');
                if let Some(message) = fault {
                    error(line, format!("{}{message}", place.shown()));
                }
            }
        }
        if let Some(message) = place.ended().filter(|_| map.path == WALKS) {
            error(message.0, message.1);
        }
    }
    findings
}

/// The section and the numbered step that a line is in.
#[derive(Default)]
struct Place {
    section: String,
    /// The number of the step and its line.
    step: Option<(String, usize)>,
    names_code: bool,
}

impl Place {
    /// Goes on to a line. Returns the line and the fault of the step that ends there.
    fn read(&mut self, line: usize, text: &str) -> Option<(usize, String)> {
        let number = text.split_once(". ").filter(|(number, _)| number.parse::<usize>().is_ok());
        let is_heading = text.starts_with('#');
        let goes_on = number.is_none() && !is_heading && (text.is_empty() || text.starts_with(' '));
        let fault = if goes_on { None } else { self.ended() };
        if is_heading {
            self.section = text.trim_start_matches(['#', ' ']).to_owned();
        }
        if !goes_on {
            self.step = number.map(|(number, _)| (number.to_owned(), line));
            self.names_code = false;
        }
        fault
    }

    /// Returns the fault of the step, if it names no code, and its line.
    fn ended(&self) -> Option<(usize, String)> {
        let (_, line) = self.step.as_ref().filter(|_| !self.names_code)?;
        Some((*line, format!("{}it names no file or folder of the code", self.shown())))
    }

    /// Names the section and the step before a message about it.
    fn shown(&self) -> String {
        self.step.as_ref().map_or_else(String::new, |(number, _)| format!("step {number} of \"{}\": ", self.section))
    }
}

/// A path and every folder that it is in.
fn with_folders(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at]).chain([path])
}

/// The words of a line that may be paths. A full stop after one is not part of it.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | ':');
    text.split(move |c| !inside(c)).map(|word| word.trim_end_matches(['.', ':', '/']))
}

/// Returns the path in a word, without the item.
fn path_of(word: &str) -> &str {
    word.split_once("::").map_or(word, |(path, _)| path)
}

/// The reason why a word that claims to be a path of the repository is none.
fn fault(word: &str, known: &BTreeSet<&str>, sources: &[Source]) -> Option<String> {
    let (path, item) = (path_of(word), word.split_once("::").map(|(_, item)| item));
    let top = path.split('/').next().unwrap_or_default();
    let is_page = !path.contains('/') && path.ends_with(".md");
    if !is_page && (!path.contains('/') || top.is_empty() || !known.contains(top)) {
        let is_code = CODE.iter().any(|end| path.ends_with(end)) && !path.contains("://");
        let is_end = |whole: &&str| whole.strip_suffix(path).is_some_and(|before| before.is_empty() || before.ends_with('/'));
        return (is_code && !known.iter().any(is_end)).then(|| format!("no path ends with `{path}`"));
    }
    if !known.contains(path) {
        return Some(format!("`{path}` does not exist"));
    }
    let item = item?;
    let source = sources.iter().find(|source| source.path == path)?;
    let defined = source.text.lines().any(|line| defines(line, item));
    (!defined).then(|| format!("`{path}` defines no `{item}`"))
}

fn defines(line: &str, item: &str) -> bool {
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.by_ref().any(|word| DEFINES.contains(&word)) && words.next() == Some(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let page = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let code = "/// The fn that folds.\npub(crate) fn fold_all() {}\n";
        let sources = [page("ARCHITECTURE.md", text), page("crates/a/src/fold.rs", code), page("docs/ir.md", "")];
        check(&sources).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_path_that_does_not_exist_is_found() {
        assert_eq!(found("see crates/a/src/folds.rs."), ["`crates/a/src/folds.rs` does not exist"]);
        assert_eq!(found("[the IR](docs/irs.md)"), ["`docs/irs.md` does not exist"]);
        assert_eq!(found("see README.md"), ["`README.md` does not exist"]);
    }

    #[test]
    fn a_source_file_that_no_path_ends_with_is_found() {
        assert_eq!(found("folds.rs does it"), ["no path ends with `folds.rs`"]);
        assert_eq!(found("(crate/a/src/fold.rs)"), ["no path ends with `crate/a/src/fold.rs`"]);
        assert!(found("`fold.rs` and src/fold.rs, but not https://x.y/folds.rs").is_empty());
    }

    #[test]
    fn a_wrong_path_in_a_walk_is_found_with_its_step() {
        let walk =
            "## A fold\n\n1. crates/a/src/fold.rs reads,\n   and writes.\n2. It ends in\n   crates/a/src/folds.rs.\n\nDone.\n";
        assert_eq!(found(walk), ["step 2 of \"A fold\": `crates/a/src/folds.rs` does not exist"]);
        assert_eq!(found(&walk.replace("folds.rs", "fold.rs::fold_all")), [""; 0]);
    }

    #[test]
    fn a_step_that_names_no_code_is_found() {
        assert_eq!(found("## A fold\n1. It folds.\n"), ["step 1 of \"A fold\": it names no file or folder of the code"]);
        assert_eq!(
            found("## A fold\n1. It folds: fold.rs.\n\n## Next\n"),
            ["step 1 of \"A fold\": it names no file or folder of the code"]
        );
    }

    #[test]
    fn files_folders_and_words_with_slashes_are_no_fault() {
        assert!(found("crates/a/src/fold.rs, crates/a/src/, `docs/ir.md`, ARCHITECTURE.md.").is_empty());
        assert!(found("and/or, 0/1, https://x.y/docs/z").is_empty());
    }

    #[test]
    fn an_item_that_its_file_does_not_define_is_found() {
        assert!(found("`crates/a/src/fold.rs::fold_all`").is_empty());
        assert_eq!(found("`crates/a/src/fold.rs::fold`"), ["`crates/a/src/fold.rs` defines no `fold`"]);
    }
}
