//! What a user may choose.
use crate::Error;
use disc_passes::options::WeightForm;
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
    /// Whether convolutions may be computed by Winograd's method, which rounds more; absent, they may.
    pub winograd: Option<bool>,
    /// How many rewrites the passes may make in all: for finding the one that breaks a program.
    pub fuel: Option<u64>,
    /// How the matrices of products are stored: narrower forms are smaller and less exact (docs/numerics.md).
    pub weights: WeightForm,
    /// The folder of a cache of compiled code ([`crate::cache::directory`]); absent, nothing is read from disk or left there.
    pub cache: Option<PathBuf>,
    /// Prepared weights are kept in that folder too, by a thread of its own, and mapped from there by whoever loads the same code with the same weights.
    pub cache_weights: bool,
    /// Kernels keep their names in the code, so that [`crate::Executable::kernel_name`] knows them.
    pub keep_names: bool,
    /// Workers of the process's pool stay each on one CPU, from the first module on that asks for it.
    pub pin_threads: bool,
    /// Code for sizes that come again and again; `DISC_SPECIALIZE=0` turns it off whatever this says.
    pub specialize: Specialize,
    /// Who computes products of matrices (docs/guide/library.md).
    pub library: LibraryChoice,
}

/// Whether products may be computed by a library of this machine rather than by generated kernels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LibraryChoice {
    /// By generated kernels.
    #[default]
    Off,
    /// By whichever was faster when both were measured; by kernels where there is no library.
    Auto,
    /// By oneDNN wherever it can, loaded from a file, or from where the system has it.
    OneDnn(Option<PathBuf>),
}

impl std::str::FromStr for LibraryChoice {
    type Err = ();

    /// `off`, `auto`, `onednn` or `onednn:PATH`.
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

/// Whether code for sizes that come again and again is made in the background (docs/guide/specialisation.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Specialize {
    /// The code of the first compilation runs for all sizes.
    #[default]
    Off,
    /// For sizes that much time was spent on; kept where a trial finds it faster.
    Auto,
    /// For all sizes that come twice; kept however fast it is: for tests and measurements.
    Always,
}

impl Options {
    /// What `specialize` comes to with the environment.
    pub(crate) fn specialization(&self) -> Result<Specialize, Error> {
        let Some(text) = std::env::var_os("DISC_SPECIALIZE").filter(|text| !text.is_empty()) else { return Ok(self.specialize) };
        match text.to_str() {
            Some("0") => Ok(Specialize::Off),
            Some("1") => Ok(self.specialize),
            _ => Err(Error::argument(format!("DISC_SPECIALIZE is `{}`, expected 0 or 1", text.display()))),
        }
    }

    /// Refuses a `DISC_NUM_THREADS` that would count and is no number of threads.
    pub(crate) fn check_threads(&self) -> Result<(), Error> {
        let wish = std::env::var_os("DISC_NUM_THREADS").filter(|text| self.threads.is_none() && !text.is_empty());
        let is_count =
            |text: &std::ffi::OsString| text.to_str().is_some_and(|text| text.trim().parse().is_ok_and(|n: usize| n > 0));
        match wish.filter(|text| !is_count(text)) {
            Some(text) => Err(Error::argument(format!("DISC_NUM_THREADS is `{}`, expected a positive number", text.display()))),
            None => Ok(()),
        }
    }

    /// The name of the target asked for, if any.
    pub(crate) fn wanted_target(&self) -> Option<String> {
        self.target.clone().or_else(|| std::env::var("DISC_TARGET").ok().filter(|name| !name.is_empty()))
    }

    /// What `winograd` comes to where nobody chose.
    pub(crate) fn allows_winograd(&self) -> bool {
        self.winograd.unwrap_or(true)
    }

    /// Where dumps go, if anywhere.
    pub(crate) fn dump_directory(&self) -> Option<PathBuf> {
        self.dump.clone().or_else(|| std::env::var_os("DISC_DUMP").filter(|name| !name.is_empty()).map(PathBuf::from))
    }
}
