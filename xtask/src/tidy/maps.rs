//! The maps of the code (ARCHITECTURE.md, CONTRIBUTING.md) name files, folders and items that
//! exist.
//!
//! A path is a word that begins with a folder of the repository's root, `crates/disc-ir/src`, or a
//! link between the pages. `crates/disc-ir/src/build.rs::op` names an item besides: the file
//! defines it.

use super::Finding;
use crate::sources::Source;
use std::collections::BTreeSet;

const MAPS: [&str; 2] = ["ARCHITECTURE.md", "CONTRIBUTING.md"];

/// The words that stand in front of the name of an item.
const DEFINES: [&str; 10] = ["fn", "struct", "enum", "trait", "const", "static", "mod", "type", "def", "class"];

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let known: BTreeSet<&str> = sources.iter().flat_map(|source| with_folders(&source.path)).collect();
    let mut findings = Vec::new();
    for map in sources.iter().filter(|source| MAPS.contains(&source.path.as_str())) {
        for (line, text) in (1..).zip(map.text.lines()) {
            let faults = words(text).filter_map(|word| fault(word, &known, sources));
            findings.extend(faults.map(|message| Finding::error("maps", &map.path, line, message)));
        }
    }
    findings
}

/// A path and every folder that it is in.
fn with_folders(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at]).chain([path])
}

/// The words of a line that may be paths. A full stop behind one is none of it.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | ':');
    text.split(move |c| !inside(c)).map(|word| word.trim_end_matches(['.', ':', '/']))
}

/// The reason why a word that claims to be a path of the repository is none.
fn fault(word: &str, known: &BTreeSet<&str>, sources: &[Source]) -> Option<String> {
    let (path, item) = word.split_once("::").map_or((word, None), |(path, item)| (path, Some(item)));
    let top = path.split('/').next().unwrap_or_default();
    let is_page = !path.contains('/') && path.ends_with(".md");
    if !is_page && (!path.contains('/') || top.is_empty() || !known.contains(top)) {
        return None;
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
