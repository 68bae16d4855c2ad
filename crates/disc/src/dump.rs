//! Dumps the program into a folder: the original, after each pass, as kernels, as LLVM IR and as
//! assembly; numbered in order.
//!
//! Dumps are not logs: a dump is written where the user asked for one, and nowhere else.
use crate::{Error, Options};
use disc_codegen::{host::Program, target::Compilation};
use disc_ir::{
    Module,
    text::{PrintOptions, print},
};
use std::{fs, path::PathBuf};

/// The folder, if there is one, and the number of files written.
pub(crate) struct Dump {
    folder: Option<PathBuf>,
    count: usize,
}

impl Dump {
    pub(crate) fn new(options: &Options) -> Result<Self, Error> {
        let folder = options.dump_directory();
        if let Some(folder) = &folder {
            fs::create_dir_all(folder).map_err(|e| Error::argument(format!("{}: {e}", folder.display())))?;
        }
        Ok(Self { folder, count: 0 })
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.folder.is_some()
    }

    /// Writes the next file: `07-cse.disc`. The text is made only if it is wanted.
    pub(crate) fn write(&mut self, name: &str, text: impl FnOnce() -> String) -> Result<(), Error> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let path = folder.join(format!("{:02}-{name}", self.count));
        self.count += 1;
        fs::write(&path, text()).map_err(|e| Error::argument(format!("{}: {e}", path.display())))
    }

    /// Writes kernels and host programs, their LLVM IR and their assembly.
    pub(crate) fn program(&mut self, program: &Program, targets: &Compilation) -> Result<(), Error> {
        if !self.is_wanted() {
            return Ok(());
        }
        self.write("kernels.disc", || with_lines(&program.module))?;
        let (ir, assembly) = (disc_llvm::llvm_ir(program, targets)?, disc_llvm::assembly(program, targets)?);
        self.write("kernels.ll", || ir)?;
        self.write("kernels.s", || assembly)
    }
}

/// Prints a module with the model's source lines of its ops.
pub(crate) fn with_lines(module: &Module) -> String {
    print(module, PrintOptions { lines: true, ..PrintOptions::default() })
}

#[cfg(test)]
mod tests {
    use crate::{Error, Options, compile, parse};

    const PROGRAM: &str = "func @main(%x: tensor<[N]xf32>) -> tensor<[N]xf32> {
  %y = exponential %x : tensor<[N]xf32>
  return %y : tensor<[N]xf32>
}";

    #[test]
    fn a_dump_has_every_step_in_order() {
        let folder = std::env::temp_dir().join(format!("disc-dump-{}", std::process::id()));
        let options = Options { dump: Some(folder.clone()), target: Some("x86-64-v3".into()), ..Options::default() };
        let artifact = compile(parse(PROGRAM).unwrap(), &options).unwrap();
        let mut names: Vec<String> =
            std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        let passes = artifact.report.passes_ms.iter().map(|(name, _)| format!("{name}.disc"));
        let files = ["input.disc".to_owned()].into_iter().chain(passes);
        let files = files.chain(["kernels.disc", "kernels.ll", "kernels.s"].map(str::to_owned));
        assert_eq!(names, files.enumerate().map(|(i, name)| format!("{i:02}-{name}")).collect::<Vec<_>>());
        let text = |name: &String| std::fs::read_to_string(folder.join(name)).unwrap();
        assert!(names.iter().filter(|name| name.ends_with(".disc")).all(|name| disc_ir::parse(&text(name)).is_ok()));
        assert!(text(&names[names.len() - 2]).contains("define") && text(&names[names.len() - 1]).contains("ret"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error() {
        let options = Options { dump: Some("/dev/null/x".into()), ..Options::default() };
        let error = compile(parse(PROGRAM).unwrap(), &options).unwrap_err();
        assert!(matches!(error, Error::Compile { code: "E0700", .. }), "{error}");
    }
}
