//! Checks the sub-packages of python/disc: their order, which leaves no circle, and that the
//! framework-neutral ones import no framework.
//!
//! An import counts wherever it is: at the top of a file, inside a function, or only for types.

use super::Finding;
use crate::{
    layers::{self, FRAMEWORKS, NEUTRAL, PACKAGES},
    sources::Source,
};

const ROOT: &str = "python/disc/";

/// One imported name of a file.
struct Import {
    line: usize,
    /// The dotted path below `disc` for an import of our own, else that of the outside module.
    path: String,
    inside: bool,
}

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let Some(module) = module_of(&source.path) else { return Vec::new() };
    let Some(own) = layers::package_of(&module.join(".")).filter(|&own| !is_unlisted(&module, own)) else {
        let message = "this file is in no package of the order: add one, in xtask/src/layers.rs";
        return vec![Finding::error("packages", &source.path, 0, message)];
    };
    let found = imports(&module, &source.text).into_iter();
    found
        .filter_map(|import| judge(own, &import).map(|message| Finding::error("packages", &source.path, import.line, message)))
        .collect()
}

/// The dotted path of a module below `disc`, a package with a last part `__init__`; none for the
/// root package itself.
fn module_of(path: &str) -> Option<Vec<&str>> {
    let module: Vec<&str> = path.strip_prefix(ROOT)?.strip_suffix(".py")?.split('/').collect();
    (module != ["__init__"]).then_some(module)
}

/// Returns true for a file in a folder of a package in parts that is none of the parts: no order
/// holds for it, so it could be part of a circle.
fn is_unlisted(module: &[&str], own: usize) -> bool {
    let depth = PACKAGES[own].name.split('.').count();
    layers::has_parts(&PACKAGES[own]) && module.len() > depth + 1
}

fn judge(own: usize, import: &Import) -> Option<String> {
    let name = PACKAGES[own].name;
    if !import.inside {
        let top = import.path.split('.').next().unwrap_or_default();
        let banned = NEUTRAL.contains(&name) && FRAMEWORKS.contains(&top);
        return banned.then(|| format!("`disc.{name}` serves every front end and must not import `{top}`"));
    }
    let other = layers::package_of(&import.path)?;
    (other > own).then(|| format!("`disc.{name}` must not import from `disc.{}`, which is above it", PACKAGES[other].name))
}

/// The names that a file imports, one entry each.
fn imports(module: &[&str], text: &str) -> Vec<Import> {
    let mut found = Vec::new();
    let mut in_string = false;
    let mut lines = (1..).zip(text.lines());
    while let Some((line, code)) = lines.next() {
        let opens = in_string || code.contains("\"\"\"");
        in_string ^= code.matches("\"\"\"").count() % 2 == 1;
        if opens {
            continue;
        }
        let code = code.split('#').next().unwrap_or_default().trim();
        if let Some(names) = code.strip_prefix("import ") {
            found.extend(names.split(',').map(|name| absolute(line, without_alias(name))));
        } else if let Some((from, names)) = code.strip_prefix("from ").and_then(|rest| rest.split_once(" import ")) {
            let mut names = names.to_owned();
            while names.contains('(') && !names.contains(')') {
                let Some((_, more)) = lines.next() else { break };
                names.push_str(more.split('#').next().unwrap_or_default());
            }
            let names = names.replace(['(', ')'], "");
            let names = names.split(',').map(without_alias).filter(|name| !name.is_empty());
            found.extend(names.map(|name| from_import(module, line, from, name)));
        }
    }
    found
}

fn without_alias(name: &str) -> &str {
    name.split_whitespace().next().unwrap_or_default()
}

fn absolute(line: usize, path: &str) -> Import {
    match path.split_once('.') {
        Some(("disc", rest)) => Import { line, path: rest.to_owned(), inside: true },
        _ => Import { line, path: path.to_owned(), inside: path == "disc" },
    }
}

fn from_import(module: &[&str], line: usize, from: &str, name: &str) -> Import {
    let rest = from.trim_start_matches('.');
    let dots = from.len() - rest.len();
    if dots == 0 {
        return absolute(line, &format!("{from}.{name}"));
    }
    let mut path: Vec<&str> = module[..module.len().saturating_sub(dots)].to_vec();
    path.extend(rest.split('.').filter(|part| !part.is_empty()));
    path.push(name);
    Import { line, path: path.join("."), inside: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let source = Source { path: format!("{ROOT}{path}"), text: text.into() };
        check(&source).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_framework_in_a_neutral_package_is_found() {
        for code in ["import torch\n", "def f():\n    from torch import nn\n", "import numpy, sympy\n"] {
            assert_eq!(messages("core/a.py", code).len(), 1, "{code}");
            assert_eq!(messages("lowering/a.py", code).len(), 1, "{code}");
            assert_eq!(messages("torch/graph/a.py", code).len(), 0, "{code}");
        }
        assert!(messages("core/a.py", "import numpy as np\n\"\"\"\nimport torch\n\"\"\"\n# import torch\n").is_empty());
    }

    #[test]
    fn an_import_from_a_higher_package_is_found() {
        for code in [
            "from ..torch.graph.program import Program\n",
            "def f():\n    from ..torch import module\n",
            "import disc.torch.module\n",
            "from disc.torch import (\n    check,  # a comment\n)\n",
        ] {
            assert_eq!(messages("core/a.py", code).len(), 1, "{code}");
        }
        assert_eq!(messages("torch/tracer/a.py", "from ..capture.guards import x\n").len(), 1);
        assert_eq!(messages("torch/symbolic/a.py", "from .. import compat\n").len(), 1);
        assert_eq!(messages("torch/capture/a.py", "from .. import module\n").len(), 1);
    }

    #[test]
    fn imports_from_lower_packages_are_fine() {
        let code = "import disc\nfrom ...core.errors import Error\nfrom ..tracer import tracer as t\nfrom . import guards\n";
        assert!(messages("torch/capture/a.py", code).is_empty());
        assert!(
            messages("torch/module/a.py", "from ..capture.capture import capture\nfrom ..calls.call import Call\n").is_empty()
        );
        assert!(messages("torch/__init__.py", "from . import module\n").is_empty());
        assert!(messages("core/a.py", "from .. import _disc\nfrom . import options\n").is_empty());
        assert!(messages("__init__.py", "from .torch.module import optimize\n").is_empty());
    }

    #[test]
    fn a_file_outside_of_the_order_is_found() {
        assert_eq!(messages("new.py", "").len(), 1);
        assert_eq!(messages("jax/a.py", "").len(), 1);
        assert_eq!(messages("torch/new/a.py", "").len(), 1);
        assert!(messages("torch/new.py", "").is_empty());
    }

    #[test]
    fn a_circle_of_packages_is_found() {
        assert!(messages("torch/module/a.py", "from ..checks.compare import compare\n").is_empty());
        assert_eq!(messages("torch/checks/compare.py", "def f():\n    from ..module import optimized\n").len(), 1);
    }

    #[test]
    fn the_neutral_packages_come_first() {
        let first: Vec<&str> = PACKAGES[..NEUTRAL.len()].iter().map(|package| package.name).collect();
        assert_eq!(first, NEUTRAL);
    }
}
