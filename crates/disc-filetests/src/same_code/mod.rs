//! Lists the programs of `cargo xtask same-code`: the textual corpus, the op matrix, and folders of
//! programs from elsewhere.
//!
//! The example `same_code` of the crate `disc` compiles them, and xtask compares the output.
mod normal;

pub use normal::{assembly, kernels};

use crate::{matrix, trial::corpus};
use disc_ir::{Module, generate::cases::Shapes, ops::OPS, ops::Stage, verify::stage_of, verify::verify};
use std::{fs, path::Path};

/// A named source of a module.
pub struct Program {
    /// Relative and stable: `matrix/add`, `run/softmax`.
    pub name: String,
    make: Box<dyn Fn() -> Option<Module> + Send + Sync>,
}

impl Program {
    /// Returns the module; `None` if the source is no program that can be compiled, such as files
    /// of wrong text.
    #[must_use]
    pub fn module(&self) -> Option<Module> {
        (self.make)()
    }
}

/// Lists the files below `root` as programs, named with `prefix`.
#[must_use]
pub fn files(prefix: &str, root: &Path) -> Vec<Program> {
    let program = |(name, path): (String, std::path::PathBuf)| {
        let name = name.strip_suffix(".disc").unwrap_or(&name);
        let make = move || compilable(&fs::read_to_string(&path).ok()?);
        Program { name: format!("{prefix}/{name}"), make: Box::new(make) }
    };
    corpus(root).into_iter().map(program).collect()
}

/// Lists one program for each op and kind of shapes.
#[must_use]
pub fn ops() -> Vec<Program> {
    let program = |def: &'static disc_ir::ops::OpDef, shapes: Shapes| Program {
        name: format!("matrix/{}/{}", def.name, format!("{shapes:?}").to_lowercase()),
        make: Box::new(move || matrix::module(def.kind, shapes).ok()),
    };
    OPS.iter().flat_map(|def| Shapes::ALL.into_iter().map(move |shapes| program(def, shapes))).collect()
}

/// Parses a text that is well formed and before the stage of kernels.
fn compilable(text: &str) -> Option<Module> {
    let module = disc_ir::parse(text).ok()?;
    let stage = stage_of(&module);
    (stage < Stage::Kernel && verify(&module, stage).is_ok()).then_some(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_and_every_op_are_programs() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests");
        let files = files("filetests", &root);
        let softmax = files.iter().find(|p| p.name == "filetests/run/softmax").expect("it is in the corpus");
        assert!(softmax.module().is_some());
        assert_eq!(ops().len(), OPS.len() * Shapes::ALL.len());
    }

    #[test]
    fn wrong_text_is_no_program() {
        assert!(compilable("func @f(").is_none());
        assert!(compilable("func @f(%x: tensor<[B]xf32>) -> tensor<[B]xf32> { return %x : tensor<[B]xf32> }").is_some());
    }
}
