//! Defines the options of compiling and running.
use crate::Error;
use disc_passes::options::WeightForm;
use std::path::PathBuf;

/// Options for compiling and running; the defaults suit most users.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// A target such as `x86-64-v3`; `None`: `DISC_TARGET`, and else the CPU of this machine.
    pub target: Option<String>,
    /// Most threads of a call, and of compilation; `None`: the runtime's default.
    pub threads: Option<usize>,
    /// Free weights that only packing reads, once they are packed. They cannot be refreshed then.
    pub release_weights: bool,
    /// A directory for the IR after each pass, LLVM IR and assembly; `None`: `DISC_DUMP`.
    pub dump: Option<PathBuf>,
    /// Allow Winograd's method for convolutions, which rounds more; `None`: allowed.
    pub winograd: Option<bool>,
    /// Most rewrites that the passes may make in all: to bisect the one that breaks a program.
    pub fuel: Option<u64>,
    /// The storage of weight matrices: narrower forms are smaller and less exact
    /// (docs/numerics.md).
    pub weights: WeightForm,
    /// The folder of a cache of compiled code ([`crate::cache::directory`]); `None`: nothing is
    /// read from disk or written there.
    pub cache: Option<PathBuf>,
    /// Keep prepared weights in that folder too, written by a thread of its own and mapped by every
    /// load of the same code with the same weights.
    pub cache_weights: bool,
    /// Keep the names of kernels in the code, for [`crate::Executable::kernel_name`].
    pub keep_names: bool,
    /// Pin each worker of the process's pool to one CPU, from the first module on that asks for it.
    pub pin_threads: bool,
    /// Compile code for sizes that recur; `DISC_SPECIALIZE=0` overrides this.
    pub specialize: Specialize,
    /// Dispatch of matrix products (docs/guide/library.md).
    pub library: LibraryChoice,
}

/// The choice between generated kernels and a library of this machine for matrix products.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LibraryChoice {
    /// Generated kernels.
    #[default]
    Off,
    /// The faster of both, measured; kernels if there is no library.
    Auto,
    /// oneDNN wherever it can, loaded from a file, or from where the system has it.
    OneDnn(Option<PathBuf>),
}

impl std::str::FromStr for LibraryChoice {
    type Err = ();

    /// Parses `off`, `auto`, `onednn` or `onednn:PATH`.
    fn from_str(text: &str) -> Result<Self, ()> {
        match (text, text.strip_prefix("onednn:")) {
            ("off", _) => Ok(Self::Off),
            ("auto", _) => Ok(Self::Auto),
            ("onednn", _) => Ok(Self::OneDnn(None)),
            (_, Some(path)) if !path.is_empty() => Ok(Self::OneDnn(Some(path.into()))),
            _ => Err(()),
        }
    }
}

/// The policy of compiling code for recurring sizes in the background
/// (docs/guide/specialisation.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Specialize {
    /// The code of the first compilation runs for all sizes.
    #[default]
    Off,
    /// For sizes that took much time; kept if a trial finds it faster.
    Auto,
    /// For all sizes that occur twice; kept however fast it is: for tests and measurements.
    Always,
}

impl Options {
    /// Returns `specialize`, as the environment overrides it.
    pub(crate) fn specialization(&self) -> Result<Specialize, Error> {
        let Some(text) = std::env::var_os("DISC_SPECIALIZE").filter(|text| !text.is_empty()) else { return Ok(self.specialize) };
        match text.to_str() {
            Some("0") => Ok(Specialize::Off),
            Some("1") => Ok(self.specialize),
            _ => Err(Error::argument(format!("DISC_SPECIALIZE is `{}`, expected 0 or 1", text.display()))),
        }
    }

    /// Rejects a `DISC_NUM_THREADS` that would apply and is no number of threads.
    pub(crate) fn check_threads(&self) -> Result<(), Error> {
        let wish = std::env::var_os("DISC_NUM_THREADS").filter(|text| self.threads.is_none() && !text.is_empty());
        let is_count =
            |text: &std::ffi::OsString| text.to_str().is_some_and(|text| text.trim().parse().is_ok_and(|n: usize| n > 0));
        match wish.filter(|text| !is_count(text)) {
            Some(text) => Err(Error::argument(format!("DISC_NUM_THREADS is `{}`, expected a positive number", text.display()))),
            None => Ok(()),
        }
    }

    /// Returns the name of the requested target, if there is one.
    pub(crate) fn wanted_target(&self) -> Option<String> {
        self.target.clone().or_else(|| std::env::var("DISC_TARGET").ok().filter(|name| !name.is_empty()))
    }

    /// Returns `winograd` with its default.
    pub(crate) fn allows_winograd(&self) -> bool {
        self.winograd.unwrap_or(true)
    }

    /// Returns the folder for dumps, if there is one.
    pub(crate) fn dump_directory(&self) -> Option<PathBuf> {
        self.dump.clone().or_else(|| std::env::var_os("DISC_DUMP").filter(|name| !name.is_empty()).map(PathBuf::from))
    }
}
