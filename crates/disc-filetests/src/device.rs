//! Runs the `run` tests of a folder on one compiler: the corpus as a check of a device.
use crate::{
    compiled::{Compiled, Hooks},
    file::TestFile,
    kinds::{self, runs_compiled},
    trial::corpus,
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
};

/// Passes and the interpreter recurse over deep programs.
const STACK: usize = 64 << 20;

/// The outcome of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    Passed,
    Failed(String),
    /// The file has no test that compiled code could run, for this reason.
    Skipped(&'static str),
}

/// Runs every test file below `root` on a compiler, several at a time. Tells `done` of each, and
/// returns the outcomes by name.
pub fn check_device(
    root: &Path,
    compiled: &'static [&'static dyn Compiled],
    done: &(dyn Fn(&str, &Checked) + Sync),
) -> Vec<(String, Checked)> {
    let files = corpus(root);
    let (count, open, found) = (files.len(), Mutex::new(files.into_iter()), Mutex::new(Vec::new()));
    let next = || open.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some((name, path)) = next() {
            let checked = check_file(&name, path, compiled);
            done(&name, &checked);
            found.lock().unwrap_or_else(PoisonError::into_inner).push((name, checked));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(count);
    thread::scope(|scope| {
        let spawned = (0..threads).map(|_| thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work));
        // Without any thread, this one does the work.
        if spawned.collect::<Vec<_>>().iter().all(Result::is_err) {
            work();
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// Runs the tests of one file that compiled code can run.
pub fn check_file(name: &str, path: PathBuf, compiled: &'static [&'static dyn Compiled]) -> Checked {
    let read = fs::read_to_string(&path).map_err(|error| format!("cannot be read: {error}"));
    let file = match read.and_then(|source| TestFile::new(name.into(), path, source)) {
        Ok(file) => file,
        Err(why) => return Checked::Failed(why),
    };
    let commands: Vec<_> = file.commands.iter().filter(|command| command.kind == "run").collect();
    if commands.is_empty() {
        return Checked::Skipped("it has no test of results");
    }
    if !runs_compiled(&file) {
        return Checked::Skipped("it is not at the stage tensor, or has weights");
    }
    let hooks = Hooks { compiled, ..Hooks::default() };
    for command in commands {
        match kinds::run(&file, command, hooks) {
            Err(why) => return Checked::Failed(why),
            Ok(text) if text != file.source => return Checked::Failed("the interpreter gives other values than the file".into()),
            Ok(_) => {}
        }
    }
    Checked::Passed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Program, Weights};
    use disc_ir::{Diagnostic, Module, interp, interp::Tensor};

    /// The interpreter, which is right, with the interface of a compiler.
    struct Right;
    struct Interpreted(Module);

    impl Compiled for Right {
        fn name(&self) -> &str {
            "right"
        }

        fn compile(&self, module: &Module, _: Weights<'_>) -> Result<Box<dyn Program>, Diagnostic> {
            Ok(Box::new(Interpreted(module.clone())))
        }
    }

    impl Program for Interpreted {
        fn run(&self, entry: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>, Diagnostic> {
            interp::run(&self.0, entry, inputs)
        }
    }

    const PROGRAM: &str = "func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> {\n  %y = add %x, %x : tensor<[N]xf32>\n  return %y : tensor<[N]xf32>\n}\n";

    #[test]
    fn files_pass_fail_or_are_skipped() {
        let folder = std::env::temp_dir().join(format!("disc-device-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let files = [
            ("a.disc", format!("//@ test run\n{PROGRAM}//~ run @f([1.0]) == [2.0]\n")),
            ("b.disc", format!("//@ test run\n{PROGRAM}//~ run @f([1.0]) == [3.0]\n")),
            ("c.disc", format!("//@ test roundtrip\n{PROGRAM}")),
            ("d.disc", "no test".into()),
        ];
        files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
        let found = check_device(&folder, &[&Right], &|_, _| {});
        fs::remove_dir_all(&folder).unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["a.disc", "b.disc", "c.disc", "d.disc"]);
        assert_eq!(found[0].1, Checked::Passed);
        assert!(matches!(found[1].1, Checked::Failed(_)) && matches!(found[3].1, Checked::Failed(_)));
        assert!(matches!(found[2].1, Checked::Skipped(_)));
    }
}
