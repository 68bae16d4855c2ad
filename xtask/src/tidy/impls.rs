//! Checks that every inherent `impl` is in the folder of its type: the methods of a type are found
//! beside it.

use super::{
    Finding,
    tokens::{self, Item},
};
use crate::sources::Source;
use std::collections::BTreeMap;

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    // Folders that define a type of this name, by crate and name.
    let mut folders: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
    let mut impls = Vec::new();
    for source in sources.iter().filter(|source| source.is_rust() && !source.is_test()) {
        let Some((crate_name, _)) = source.path.split_once("/src/") else { continue };
        // Another check reports files that are not Rust.
        for (line, item) in tokens::items(&source.text).unwrap_or_default() {
            match item {
                Item::Type(name) => folders.entry((crate_name, name)).or_default().push(folder(&source.path)),
                Item::Impl(name) => impls.push((source, line, crate_name, name)),
            }
        }
    }
    let misplaced = |(source, line, crate_name, name): (&Source, usize, &str, String)| {
        let folders = folders.get(&(crate_name, name.clone()))?;
        let is_beside = folders.iter().any(|folder| source.path.starts_with(&format!("{folder}/")));
        let message = format!("methods of `{name}`, whose type is in {}", folders.join(" or "));
        (!is_beside).then(|| Finding::error("impl-place", &source.path, line, message))
    };
    impls.into_iter().filter_map(misplaced).collect()
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let source = |&(path, text): &(&str, &str)| Source { path: path.into(), text: text.into() };
        let sources: Vec<Source> = files.iter().map(source).collect();
        check(&sources).into_iter().map(|finding| (finding.path, finding.line)).collect()
    }

    #[test]
    fn an_impl_outside_the_folder_of_its_type_is_found() {
        let plan = ("crates/a/src/plan/mod.rs", "pub struct Plan<'a> { x: &'a u8 }\nimpl Plan<'_> {}\n");
        assert_eq!(found(&[plan, ("crates/a/src/plan/edges/few.rs", "impl<'a> super::Plan<'a> { }")]), []);
        let outside = ("crates/a/src/flash.rs", "use x;\n\nimpl<'a> Plan<'a> where Plan<'a>: Sized {}\n");
        assert_eq!(found(&[plan, outside]), [("crates/a/src/flash.rs".to_owned(), 3)]);
        assert_eq!(found(&[plan, ("crates/a/src/flash.rs", "impl std::fmt::Display for Plan<'_> {}")]), []);
        assert_eq!(found(&[plan, ("crates/a/src/flash.rs", "fn f() -> impl Plan {\n    g()\n}")]), []);
        assert_eq!(found(&[plan, ("crates/b/src/flash.rs", "impl Plan {}")]), []);
        assert_eq!(found(&[plan, ("crates/a/src/flash.rs", "#[cfg(test)]\nmod tests { impl super::Plan<'_> {} }")]), []);
    }
}
