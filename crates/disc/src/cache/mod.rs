//! What earlier compilations left on disk: a folder of entries, each found by a hash of everything that it was made from.
//!
//! There are five levels. *Code* is what the compiler makes of a module's text; *capture* is what a bridge makes of a framework's module: the
//! text, and what the bridge has to remember with it; *bytecode* is what a bridge read in functions, to know one module from another; *choices* say
//! which products go to a library. Weight values are in none of these; *weights* are prepared ones as a file that is mapped, which a thread of its own
//! writes (docs/adr/0006-prepared-weights-on-disk.md).
//!
//! Invariants: a cache only saves time: whatever is wrong with the folder, an entry or the disk is a miss and a count, never an error; an entry
//! is used only if it is whole (a checksum) and was stored for that key; entries appear at once (a rename), so that any number of processes
//! may share the folder.
mod code;
mod content;
mod counts;
mod key;
mod mapped;
mod prepared;
mod store;
#[cfg(test)]
mod testing;
mod writer;

pub(crate) use code::{find, keep};
pub use counts::{Counts, counts};
pub use key::Key;
pub(crate) use prepared::Place;
pub use store::{Cache, LIMIT};
pub use writer::write_out;

use std::path::PathBuf;

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Code,
    Capture,
    /// What a bridge read in the bytecode of functions: names, values, texts that are looked up, imports.
    Bytecode,
    /// Which library computes products of which sizes.
    Choices,
    /// Weights as kernels read them.
    Weights,
}

impl Level {
    pub const ALL: [Self; 5] = [Self::Code, Self::Capture, Self::Bytecode, Self::Choices, Self::Weights];

    /// Also the name of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Capture => "capture",
            Self::Bytecode => "bytecode",
            Self::Choices => "choices",
            Self::Weights => "weights",
        }
    }
}

/// What the cache did for a compilation, or for weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It was not asked.
    #[default]
    Off,
    /// It was not asked: others may write to the folder.
    Shared,
    Miss,
    Hit,
}

impl Outcome {
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Shared => "off: others may write to it",
            Self::Miss => "miss",
            Self::Hit => "hit",
        }
    }
}

/// Where the cache lies: `DISC_CACHE_DIR`, else the user's folder for caches. None with `DISC_CACHE=0`, and where there is no such folder.
pub fn directory() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if variable("DISC_CACHE").is_some_and(|value| value == "0") {
        return None;
    }
    if let Some(directory) = variable("DISC_CACHE_DIR") {
        return Some(directory.into());
    }
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let caches = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or_else(home)?;
    Some(caches.join("disc"))
}
