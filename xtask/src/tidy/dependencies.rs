//! Checks the manifests: layers, the crates that may use outside crates, and a written reason for
//! each outside crate.

use std::{collections::BTreeSet, path::Path};

use anyhow::Result;
use cargo_metadata::DependencyKind;

use super::Finding;
use crate::{
    layers::{self, BARE, BINDINGS, DOORS, READERS, TEST_ONLY},
    sources::{self, Source},
};

const REASONS: &str = "docs/dependencies.md";

/// One line `from = to` of a manifest.
struct Edge {
    from: String,
    to: String,
    /// The dependency is a folder of this repository.
    inside: bool,
    /// Only tests see it.
    dev: bool,
}

pub(super) fn check(root: &Path, sources: &[Source]) -> Result<Vec<Finding>> {
    let metadata = sources::workspace(root)?;
    let mut findings: Vec<Finding> = metadata.packages.iter().filter_map(|package| known(&package.name)).collect();
    let mut edges = Vec::new();
    for package in &metadata.packages {
        for dependency in &package.dependencies {
            edges.push(Edge {
                from: package.name.to_string(),
                to: dependency.name.clone(),
                inside: dependency.path.is_some(),
                dev: dependency.kind == DependencyKind::Development,
            });
        }
    }
    findings.extend(edges.iter().filter_map(direction));
    findings.extend(edges.iter().filter_map(door));
    findings.extend(edges.iter().filter_map(binding));
    let reasons = sources.iter().find(|source| source.path == REASONS).map_or("", |source| &source.text);
    findings.extend(unexplained(&edges, reasons));
    Ok(findings)
}

fn manifest(name: &str) -> String {
    if name == "xtask" { "xtask/Cargo.toml".to_owned() } else { format!("crates/{name}/Cargo.toml") }
}

fn known(name: &str) -> Option<Finding> {
    let message = "this crate is in no layer: decide what it may depend on, in xtask/src/layers.rs";
    layers::find(name).is_none().then(|| Finding::error("layers", &manifest(name), 0, message))
}

fn direction(edge: &Edge) -> Option<Finding> {
    let layer = layers::find(&edge.from)?;
    let in_tests = |(name, allowed): &(&str, &[&str])| edge.dev && *name == edge.from && allowed.contains(&edge.to.as_str());
    if !edge.inside || layer.may_depend_on.contains(&edge.to.as_str()) || TEST_ONLY.iter().any(in_tests) {
        return None;
    }
    let below = if layer.may_depend_on.is_empty() { "nothing".to_owned() } else { layer.may_depend_on.join(", ") };
    let message = format!("`{}` must not depend on `{}` (it may on: {below})", edge.from, edge.to);
    Some(Finding::error("layers", &manifest(&edge.from), 0, message))
}

fn door(edge: &Edge) -> Option<Finding> {
    if edge.inside || edge.dev {
        return None;
    }
    let message = if BARE.contains(&edge.from.as_str()) {
        format!("`{}` has no outside dependency, so no `{}`", edge.from, edge.to)
    } else {
        let (_, doors) = DOORS.iter().find(|(name, _)| *name == edge.to)?;
        if doors.contains(&edge.from.as_str()) {
            return None;
        }
        format!("`{}` belongs to {} alone", edge.to, doors.join(", "))
    };
    Some(Finding::error("doors", &manifest(&edge.from), 0, message))
}

/// Refuses a framework as a dependency of a crate that reads its models, in tests too.
fn binding(edge: &Edge) -> Option<Finding> {
    let is_refused = READERS.contains(&edge.from.as_str()) && BINDINGS.contains(&edge.to.as_str());
    let message = format!("`{}` reads models and knows no framework, so no `{}`", edge.from, edge.to);
    is_refused.then(|| Finding::error("frameworks", &manifest(&edge.from), 0, message))
}

fn unexplained(edges: &[Edge], reasons: &str) -> Vec<Finding> {
    let explained: BTreeSet<&str> = reasons.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let outside: BTreeSet<&str> = edges.iter().filter(|edge| !edge.inside).map(|edge| edge.to.as_str()).collect();
    let lacking = outside.difference(&explained);
    lacking.map(|name| Finding::error("reasons", REASONS, 0, format!("no line says why we use `{name}`"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::LAYERS;

    fn edge(from: &str, to: &str, inside: bool) -> Edge {
        Edge { from: from.into(), to: to.into(), inside, dev: false }
    }

    #[test]
    fn a_dependency_against_the_layers_is_found() {
        assert!(direction(&edge("disc-ral", "disc-ir", true)).is_some());
        assert!(direction(&edge("disc-ir", "disc-passes", true)).is_some());
        assert!(direction(&Edge { dev: true, ..edge("disc-ral", "disc-ir", true) }).is_some());
        assert!(direction(&edge("disc-ral", "disc-abi", true)).is_none());
        assert!(known("disc-new").is_some());
    }

    #[test]
    fn a_second_door_is_found() {
        assert!(door(&edge("disc-codegen", "inkwell", false)).is_some());
        assert!(door(&edge("disc-abi", "libc", false)).is_some());
        assert!(door(&edge("disc-llvm", "inkwell", false)).is_none());
        assert!(door(&Edge { dev: true, ..edge("disc-ir", "anyhow", false) }).is_none());
    }

    #[test]
    fn a_framework_below_a_reader_of_models_is_found() {
        for planted in ["torch", "tch", "onnxruntime", "ort", "tensorflow", "jax", "llvm-sys", "inkwell", "pyo3"] {
            assert!(binding(&edge("disc-import", planted, false)).is_some(), "{planted}");
            assert!(binding(&Edge { dev: true, ..edge("disc-import", planted, false) }).is_some(), "{planted}");
        }
        assert!(binding(&edge("disc-import", "bytes", false)).is_none());
        assert!(binding(&edge("disc-python", "pyo3", false)).is_none());
    }

    #[test]
    fn a_crate_without_a_reason_is_found() {
        let edges = [edge("disc-ir", "half", false), edge("disc-ir", "left-pad", false), edge("disc", "disc-ir", true)];
        let found = unexplained(&edges, "| crate | why |\n| `half` | f16 |\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("left-pad"));
    }

    #[test]
    fn the_layers_have_no_cycle() {
        for (at, layer) in LAYERS.iter().enumerate() {
            for below in layer.may_depend_on {
                assert!(LAYERS[..at].iter().any(|l| l.name == *below), "`{}` may depend on `{below}` above it", layer.name);
            }
        }
    }
}
