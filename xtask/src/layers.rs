//! Defines the layers of the architecture: the dependencies that each crate may have, and the
//! outside crates that only one crate may use.
//!
//! These tables are the one place; ARCHITECTURE.md shows them, and `tidy` holds every Cargo.toml to
//! them, dev-dependencies included, every import of the Python package,
//! and every Python test.

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
    layer("disc-import", &["disc-ir"]),
    layer("disc-passes", &["disc-ir"]),
    layer("disc-filetests", &["disc-ir", "disc-passes"]),
    layer("disc-kernel-macros", &[]),
    layer("disc-codegen", &["disc-kernel-macros", "disc-passes", "disc-ir", "disc-abi"]),
    layer("disc-llvm", &["disc-codegen", "disc-ir", "disc-abi"]),
    // Never disc-ir: a server that runs packages builds only this crate.
    layer("disc-ral", &["disc-abi"]),
    // The crates of a deployment, on only the runtime.
    layer("disc-capi", &["disc-ral"]),
    layer("disc-serve", &["disc-ral"]),
    layer("disc-simt", &["disc-ir", "disc-abi", "disc-ral"]),
    // Libraries for tests, which are loaded by their names: they know nothing of each other.
    layer("disc-fake-library", &[]),
    layer("disc-fake-cuda", &["disc-abi", "disc-ir", "disc-ral", "disc-simt"]),
    layer("disc-fake-cublaslt", &["disc-fake-library"]),
    layer("disc-fake-cudnn", &["disc-fake-library"]),
    layer(
        "disc",
        &[
            "disc-options",
            "disc-abi",
            "disc-ir",
            "disc-import",
            "disc-passes",
            "disc-codegen",
            "disc-llvm",
            "disc-ral",
            "disc-simt",
        ],
    ),
    layer("disc-cli", &["disc", "disc-ir", "disc-passes", "disc-filetests", "disc-serve"]),
    // The wheel installs `disc` and `disc-opt` too: their main functions are in the extension.
    layer("disc-python", &["disc-options", "disc-import", "disc", "disc-cli", "disc-ir", "disc-ral"]),
    layer("xtask", &["disc-options", "disc-ir", "disc-import", "disc-passes", "disc-codegen"]),
];

/// Dependencies of tests beyond the layers: disc-llvm's tests run compiled code, from text to
/// results; disc's compare it with the interpreter, on a driver and a library of their own too.
pub(crate) const TEST_ONLY: &[(&str, &[&str])] = &[
    ("disc-llvm", &["disc-passes", "disc-ral"]),
    ("disc", &["disc-filetests", "disc-fake-cuda", "disc-fake-cublaslt", "disc-fake-cudnn"]),
    ("disc-cli", &["disc-fake-cuda"]),
];

/// Outside crates that only these crates of ours may name.
pub(crate) const DOORS: &[(&str, &[&str])] = &[
    ("inkwell", &["disc-llvm"]),
    ("llvm-sys", &["disc-llvm"]),
    ("pyo3", &["disc-python"]),
    ("cudarc", &["disc-ral"]),
    ("axum", &["disc-serve"]),
    ("tokio", &["disc-serve"]),
    ("prost", &["disc-import"]),
    ("anyhow", &["xtask"]),
    ("bytes", &["disc-import", "disc"]),
];

/// Crates that read models of frameworks and know none: neither a dependency nor a path names one
/// of [`BINDINGS`].
pub(crate) const READERS: &[&str] = &["disc-import"];

/// Crates of frameworks and their runtimes, of other compilers, and of Python.
pub(crate) const BINDINGS: &[&str] = &[
    "burn",
    "candle-core",
    "inkwell",
    "jax",
    "llvm-sys",
    "melior",
    "mlir-sys",
    "onnx",
    "onnxruntime",
    "openvino",
    "ort",
    "ort-sys",
    "pjrt",
    "pyo3",
    "tch",
    "tensorflow",
    "tensorflow-sys",
    "torch",
    "torch-sys",
    "tract-onnx",
    "xla",
];

/// Crates without any outside dependency.
pub(crate) const BARE: &[&str] = &["disc-abi", "disc-options"];

/// The modules at the root of a crate from the bottom up: a file imports from its own and from
/// lower ones. Modules that are not listed, such as helpers of tests, are not checked.
pub(crate) const MODULES: &[(&str, &[&str])] =
    &[("disc-passes", &["analysis", "options", "pass", "rules", "tensor", "fusion", "buffers", "pipeline", "registry"])];

pub(crate) fn find(name: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.name == name)
}

/// A sub-package of python/disc, or a file that has a place of its own in the order.
pub(crate) struct Package {
    pub(crate) name: &'static str,
    /// Its task, for the table in ARCHITECTURE.md.
    pub(crate) does: &'static str,
}

const fn package(name: &'static str, does: &'static str) -> Package {
    Package { name, does }
}

/// From the bottom up: no file imports from a package after its own, so packages are no circle.
/// Every folder of a package that is in parts is listed.
pub(crate) const PACKAGES: &[Package] = &[
    package("core", "Errors, options, dims, signatures, reports, packages; the one door to the extension module."),
    package("lowering", "Emits ops of the IR; computes with sizes and element types."),
    package("torch.symbolic", "Reasons about expressions of sizes in sympy."),
    package("torch.compat", "What differs between the versions of torch."),
    package("torch.op_names", "Checks the names of ops in options."),
    package("torch.graph", "The captured graph, what belongs to it, and which nodes share memory."),
    package("torch.devices", "Devices of tensors, and the states of torch that each type of device has of its own."),
    package("torch.pytree", "Flattens arguments and results, caches of keys and values among them."),
    package("torch.decompositions", "Expresses ops without a lowering by others."),
    package("torch.overrides", "Functions of torch and Python that keep sizes symbolic while a module is traced."),
    package("torch.tracer", "Traces a module into a graph of whole ATen ops."),
    package("torch.capture", "Chooses example sizes, traces, reads guards, proves branches on sizes 0 and 1."),
    package("torch.lowering", "Lowers the graph to the IR: one table of ATen overloads, one file per family."),
    package("torch.partition", "Divides a graph into clusters that disc compiles and ops that torch runs."),
    package("torch.cache", "Keeps captures on disk, under a fingerprint of the module and its code."),
    package("torch.watch", "Notices that a module, or what its calls read, was changed."),
    package("torch.calls", "Checks the arguments of calls, keeps the state that calls change, counts refused calls."),
    package("torch.checks", "Compares compiled code with eager mode."),
    package("torch.compile", "The backend of `torch.compile`."),
    package("torch.module", "The compiled module: its forms of call, and what serves each of them."),
    package("torch.files", "Writes packages; reads models of torch from files."),
    package("torch.coverage", "Writes docs/coverage-torch.md: the overloads of torch that are compiled."),
    package("tensorflow", "The front end for TensorFlow: traces, freezes, and hands graphs to crates/disc-import."),
    package("torch", "The front end for PyTorch, of the packages above."),
];

/// A folder of Python tests.
pub(crate) struct TestFolder {
    pub(crate) name: &'static str,
    /// The code that its tests are for: the table in ARCHITECTURE.md has it, with paths that exist.
    pub(crate) mirrors: &'static str,
}

const fn tests(name: &'static str, mirrors: &'static str) -> TestFolder {
    TestFolder { name, mirrors }
}

/// Every folder that has tests in Python, in the order of the code from the front end down.
pub(crate) const TEST_FOLDERS: &[TestFolder] = &[
    tests("tests/core", "python/disc/core: options, errors, reports, logs, profiles"),
    tests("tests/torch/symbolic", "python/disc/torch/symbolic, python/disc/torch/overrides"),
    tests("tests/torch/capture", "python/disc/torch/capture, python/disc/torch/tracer, python/disc/torch/partition"),
    tests("tests/torch/lowering", "python/disc/torch/lowering, python/disc/torch/decompositions; a case for each ATen overload"),
    tests("tests/torch/cache", "python/disc/torch/cache"),
    tests("tests/torch/module", "python/disc/torch/module, python/disc/torch/watch: what a call sees and changes"),
    tests("tests/torch/compile", "python/disc/torch/compile: graphs of dynamo, training"),
    tests("tests/torch/devices", "python/disc/torch/devices, crates/disc-simt, crates/disc-fake-cuda"),
    tests("tests/torch/models", "whole models, compared with eager"),
    tests("tests/tf", "python/disc/tensorflow, crates/disc-import/src/tensorflow; in an environment that has TensorFlow"),
    tests("tests/native", "crates/disc-python: the extension module by itself"),
    tests("tests/compiler", "crates/disc, crates/disc-passes, crates/disc-codegen: kernels, memory and versions of models"),
    tests("tests/packages", "crates/disc-ral, crates/disc-capi: packages and the programs that run them"),
    tests("tests/serving", "crates/disc-serve, examples/serving"),
    tests("tests/project", "pages, examples, benches, pictures"),
];

/// Packages that every front end uses: these import none of [`FRAMEWORKS`].
pub(crate) const NEUTRAL: &[&str] = &["core", "lowering"];

pub(crate) const FRAMEWORKS: &[&str] = &["torch", "sympy", "transformers", "tensorflow", "jax", "onnx"];

/// Returns true if other packages are parts of this one.
pub(crate) fn has_parts(package: &Package) -> bool {
    PACKAGES.iter().any(|part| part.name.strip_prefix(package.name).is_some_and(|rest| rest.starts_with('.')))
}

/// The place in [`PACKAGES`] of a module below `disc`; none for the root.
pub(crate) fn package_of(module: &str) -> Option<usize> {
    let holds = |name: &str| module.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    (0..PACKAGES.len()).filter(|&at| holds(PACKAGES[at].name)).max_by_key(|&at| PACKAGES[at].name.len())
}
