//! Generates the header of the C API from the crate disc-capi, by cbindgen.

use std::path::Path;

use anyhow::{Context, Result};
use cbindgen::{Builder, Config, Language, RenameRule, Style};

const SOURCES: [&str; 4] = ["error", "package", "tensor", "session"];
const HEADER: &str = "/* The C API of disc: opens packages and runs them.

   A function that can fail returns an error, which the caller frees, or NULL for success; one that
   fails makes no object. docs/guide/c.md has examples.
   Generated from crates/disc-capi by `cargo xtask codegen`. */";

pub(crate) fn header(root: &Path) -> Result<String> {
    let mut config = Config {
        header: Some(HEADER.into()),
        include_guard: Some("DISC_H".into()),
        language: Language::C,
        style: Style::Both,
        cpp_compat: true,
        no_includes: true,
        sys_includes: vec!["stddef.h".into(), "stdint.h".into()],
        usize_is_size_t: true,
        line_length: 100,
        ..Config::default()
    };
    config.enumeration.rename_variants = RenameRule::QualifiedScreamingSnakeCase;
    let source = |builder: Builder, name: &&str| builder.with_src(root.join(format!("crates/disc-capi/src/{name}.rs")));
    let builder = SOURCES.iter().fold(Builder::new().with_config(config), source);
    let mut text = Vec::new();
    builder.generate().context("the header of disc-capi")?.write(&mut text);
    Ok(without_safety(&String::from_utf8(text)?))
}

/// Removes the sections for authors of Rust from the comments.
fn without_safety(header: &str) -> String {
    let mut text = String::new();
    let mut is_skipping = false;
    for line in header.lines() {
        is_skipping = (is_skipping || line.trim() == "* # Safety") && line.trim() != "*/";
        if !is_skipping {
            if line.trim() == "*/" && text.ends_with("*\n") {
                text.truncate(text.trim_end().len() - 1);
                text.truncate(text.trim_end().len());
                text.push('\n');
            }
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_about_safety_are_left_out() {
        let header = "/**\n * Frees.\n *\n * # Safety\n * A promise.\n */\nvoid f(void);\n";
        assert_eq!(without_safety(header), "/**\n * Frees.\n */\nvoid f(void);\n");
        assert_eq!(without_safety("/**\n * Frees.\n */\n"), "/**\n * Frees.\n */\n");
    }
}
