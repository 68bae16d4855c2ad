//! Defines the layers of the architecture: the dependencies that each crate may have, and the
//! outside crates that have one door only.
//!
//! This table is the one place; ARCHITECTURE.md shows it, and `tidy` holds every Cargo.toml to it,
//! dev-dependencies included.

/// One crate of the workspace.
pub(crate) struct Layer {
    pub(crate) name: &'static str,
    pub(crate) may_depend_on: &'static [&'static str],
}

const fn layer(name: &'static str, may_depend_on: &'static [&'static str]) -> Layer {
    Layer { name, may_depend_on }
}

/// From the bottom up.
pub(crate) const LAYERS: &[Layer] = &[
    layer("disc-abi", &[]),
    // Apart, since generated docs read it without a compiler.
    layer("disc-options", &[]),
    layer("disc-ir", &[]),
    layer("disc-passes", &["disc-ir"]),
    layer("disc-filetests", &["disc-ir", "disc-passes"]),
    layer("disc-codegen", &["disc-passes", "disc-ir", "disc-abi"]),
    layer("disc-llvm", &["disc-codegen", "disc-ir", "disc-abi"]),
    // Never disc-ir: a server that runs packages builds this crate alone.
    layer("disc-ral", &["disc-abi"]),
    layer("disc-simt", &["disc-ir", "disc-abi", "disc-ral"]),
    layer("disc", &["disc-options", "disc-abi", "disc-ir", "disc-passes", "disc-codegen", "disc-llvm", "disc-ral", "disc-simt"]),
    layer("disc-cli", &["disc", "disc-ir", "disc-passes", "disc-filetests"]),
    // The wheel installs `disc` and `disc-opt` too: their main functions are in the extension.
    layer("disc-python", &["disc-options", "disc", "disc-cli", "disc-ir", "disc-ral"]),
    layer("xtask", &["disc-options", "disc-ir", "disc-passes", "disc-codegen"]),
];

/// Dependencies of tests beyond the layers: disc-llvm's tests run compiled code, from text to
/// results; disc's compare it with the interpreter.
pub(crate) const TEST_ONLY: &[(&str, &[&str])] = &[("disc-llvm", &["disc-passes", "disc-ral"]), ("disc", &["disc-filetests"])];

/// Outside crates that only these crates of ours may name.
pub(crate) const DOORS: &[(&str, &[&str])] = &[
    ("inkwell", &["disc-llvm"]),
    ("llvm-sys", &["disc-llvm"]),
    ("pyo3", &["disc-python"]),
    ("cudarc", &["disc-ral"]),
    ("anyhow", &["xtask"]),
];

/// Crates without any outside dependency.
pub(crate) const BARE: &[&str] = &["disc-abi", "disc-options"];

pub(crate) fn find(name: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.name == name)
}
