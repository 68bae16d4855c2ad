//! What a user may choose.
use std::path::PathBuf;

/// Choices for compiling and running; the default is right for most.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// A target such as `x86-64-v3`; absent, `DISC_TARGET`, and else the CPU of this machine.
    pub target: Option<String>,
    /// The most threads that a call uses, and that compile; absent, the runtime's default.
    pub threads: Option<usize>,
    /// Give up weights that only packing reads, once they are packed. They cannot be refreshed then.
    pub release_weights: bool,
    /// A directory for the IR after each pass, LLVM IR and assembly; absent, `DISC_DUMP`.
    pub dump: Option<PathBuf>,
    /// How many rewrites the passes may make in all: for finding the one that breaks a program.
    pub fuel: Option<u64>,
    /// Kernels keep their names in the code, so that [`crate::Executable::kernel_name`] knows them.
    pub keep_names: bool,
}

impl Options {
    /// The name of the target asked for, if any.
    pub(crate) fn wanted_target(&self) -> Option<String> {
        self.target.clone().or_else(|| std::env::var("DISC_TARGET").ok().filter(|name| !name.is_empty()))
    }

    /// Where dumps go, if anywhere.
    pub(crate) fn dump_directory(&self) -> Option<PathBuf> {
        self.dump.clone().or_else(|| std::env::var_os("DISC_DUMP").filter(|name| !name.is_empty()).map(PathBuf::from))
    }
}
