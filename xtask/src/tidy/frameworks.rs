//! Checks that the crates that read models of frameworks name none of them in their code.
//!
//! Dependencies are the check of manifests; this one sees a path before there is a dependency, and
//! names the line.

use super::{Finding, tokens};
use crate::{
    layers::{BINDINGS, READERS},
    sources::Source,
};

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let Some(name) = source.path.strip_prefix("crates/").and_then(|path| path.split('/').next()) else { return Vec::new() };
    if !READERS.contains(&name) {
        return Vec::new();
    }
    // Another check reports files that are not Rust.
    let roots = tokens::roots(&source.text).unwrap_or_default();
    let is_binding = |root: &str| BINDINGS.iter().any(|binding| binding.replace('-', "_") == root);
    // A folder for the format of a framework has the framework's name.
    let is_ours = |root: &str| source.text.contains(&format!("mod {root};"));
    roots
        .into_iter()
        .filter(|(_, root)| is_binding(root) && !is_ours(root))
        .map(|(line, root)| {
            let message = format!("`{name}` reads models and knows no framework: it must not name `{root}`");
            Finding::error("frameworks", &source.path, line, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Source { path: path.into(), text: text.into() }).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_planted_framework_is_found() {
        const PATH: &str = "crates/disc-import/src/onnx/table.rs";
        for planted in [
            "use tch::Tensor;",
            "use torch;",
            "extern crate onnxruntime;",
            "fn f() { let x = ort::session(); }",
            "fn f() -> ::tensorflow::Graph { g() }",
            "#[cfg(test)]\nmod tests { use pyo3::prelude::*; }",
            "use {std::fmt, inkwell::context::Context};",
        ] {
            assert_eq!(lines(PATH, &format!("//! d\n{planted}")).len(), 1, "{planted}");
            assert_eq!(lines("crates/disc-python/src/lib.rs", planted), [0; 0], "{planted}");
        }
        assert_eq!(lines(PATH, "fn f() {}\nuse tch::Tensor;"), [2]);
    }

    #[test]
    fn words_and_modules_of_ours_are_none() {
        for text in [
            "//! torch::x\nfn f() { let torch = 1; g(\"torch::x\", torch); }",
            "mod onnx;\npub use onnx::read;",
            "use crate::onnx::Scope;",
            "use super::tensorflow::{graph, table};",
            "fn f() { crate::program::onnx::g::<u8>() }",
        ] {
            assert_eq!(lines("crates/disc-import/src/lib.rs", text), [0; 0], "{text}");
        }
    }
}
