//! Caches the results of earlier compilations on disk: a folder of entries, each found by a hash of
//! all its inputs.
//!
//! There are five levels. *Code* is the compiler's output for a module's text; *capture* is a
//! bridge's output for a framework's module: the text, and the data that the bridge needs with it;
//! *bytecode* is the part of functions that a bridge read to tell modules apart; *choices* record
//! which products go to a library. None of these contains weight values; *weights* are prepared
//! ones as a mapped file, written by a thread of its own
//! (docs/adr/0006-prepared-weights-on-disk.md).
//!
//! Invariants: a cache only saves time: a faulty folder, entry or disk is a miss and a count, never
//! an error; an entry is used only if it is complete (a checksum) and was stored for that key;
//! entries appear atomically (a rename), so that any number of processes may share the folder.
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

pub use crate::deferred::finish as finish_code;
pub(crate) use code::{find, keep, key};
pub use counts::{Counts, counts};
pub use disc_ral::cache_directory as directory;
pub use key::Key;
pub(crate) use prepared::Place;
pub use store::{Cache, LIMIT};
pub use writer::write_out;

/// The kind of an entry's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Code,
    Capture,
    /// The parts of functions' bytecode that a bridge read: names, values, texts that are looked
    /// up, imports.
    Bytecode,
    /// The products, by size, that a library computes.
    Choices,
    /// Weights as kernels read them.
    Weights,
}

impl Level {
    pub const ALL: [Self; 5] = [Self::Code, Self::Capture, Self::Bytecode, Self::Choices, Self::Weights];

    /// Returns the name of the level, and of its folder.
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

/// The outcome of a cache lookup for a compilation, or for weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// The cache was not asked.
    #[default]
    Off,
    /// The cache was not asked: others may write to the folder.
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
