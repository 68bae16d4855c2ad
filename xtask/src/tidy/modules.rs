//! Checks that a file imports only from its own module and from lower ones, by the order in
//! `layers.rs`.

use super::{Finding, tokens};
use crate::{layers, sources::Source};

pub(super) fn check(sources: &[Source], order: &[(&str, &[&str])]) -> Vec<Finding> {
    let code = sources.iter().filter(|source| source.is_rust() && !source.is_test());
    code.flat_map(|source| upward(source, order).unwrap_or_default()).collect()
}

/// Returns the imports of a file from higher modules; `None` if its crate or module has no order.
fn upward(source: &Source, order: &[(&str, &[&str])]) -> Option<Vec<Finding>> {
    let (crate_name, path) = source.path.strip_prefix("crates/")?.split_once("/src/")?;
    let (_, modules) = order.iter().find(|(name, _)| *name == crate_name)?;
    let floor = |module: &str| modules.iter().position(|name| *name == module);
    let own = path.split('/').next()?.trim_end_matches(".rs");
    let own_floor = floor(own)?;
    // Another check reports files that are not Rust.
    let imports = tokens::crate_modules(&source.text).unwrap_or_default();
    let higher = imports.into_iter().filter(|(_, module)| floor(module).is_some_and(|floor| floor > own_floor));
    let message =
        |module: &str| format!("`{own}` imports from `{module}`, which is above it: see `MODULES` in xtask/src/layers.rs");
    Some(higher.map(|(line, module)| Finding::error("module-order", &source.path, line, message(&module))).collect())
}

/// Checks a table of modules: each is a file or a folder of its crate.
pub(super) fn check_table(sources: &[Source]) -> Vec<Finding> {
    let listed = layers::MODULES.iter().flat_map(|(name, modules)| modules.iter().map(move |module| (name, module)));
    let is_missing = |path: &String| {
        let (file, folder) = (format!("{path}.rs"), format!("{path}/"));
        !sources.iter().any(|source| source.path == file || source.path.starts_with(&folder))
    };
    let paths = listed.map(|(name, module)| format!("crates/{name}/src/{module}"));
    paths
        .filter(is_missing)
        .map(|path| Finding::error("module-order", &path, 0, "is in the order of modules and does not exist"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: &[(&str, &[&str])] = &[("a", &["pass", "rules", "fusion"])];

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        let source = Source { path: path.into(), text: text.into() };
        check(&[source], ORDER).into_iter().map(|finding| (finding.line, finding.message)).collect()
    }

    #[test]
    fn an_import_from_a_higher_module_is_found() {
        let text = "use crate::{\n    fusion::explain,\n    pass::PassCx,\n};\nfn f() { crate::fusion::g() }\n";
        let lines: Vec<usize> = found("crates/a/src/rules/rewrite.rs", text).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [2, 5]);
        assert!(found("crates/a/src/pass.rs", "use crate::rules::all;")[0].1.starts_with("`pass` imports from `rules`"));
    }

    #[test]
    fn lower_modules_tests_and_other_crates_are_no_fault() {
        assert_eq!(found("crates/a/src/fusion/form.rs", "use crate::{fusion::x, rules::y, helpers::z};"), []);
        assert_eq!(found("crates/a/src/rules/x.rs", "#[cfg(test)]\nmod tests { use crate::fusion::fuse; }"), []);
        assert_eq!(found("crates/b/src/pass.rs", "use crate::fusion::x;"), []);
        assert_eq!(found("crates/a/src/lib.rs", "use crate::fusion::x;"), []);
    }

    #[test]
    fn a_listed_module_that_does_not_exist_is_found() {
        let (name, modules) = layers::MODULES[0];
        let sources: Vec<Source> = modules[1..]
            .iter()
            .map(|module| Source { path: format!("crates/{name}/src/{module}/mod.rs"), text: String::new() })
            .collect();
        let paths: Vec<String> = check_table(&sources).into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, [format!("crates/{name}/src/{}", modules[0])]);
    }
}
