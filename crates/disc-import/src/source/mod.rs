//! Reads the bytes of a model, before anybody knows their meaning.
//!
//! - [`File`]: maps a file, and remembers its folder.
//! - [`Format`]: tells the format of bytes by their contents, then by the file's extension.
//! - [`limits`]: the most of everything that a model may have.
//! - [`wire`]: counts the messages of protobuf before a reader allocates for them.
//! - [`External`]: opens files of weights that a model names.
//!
//! Invariants: a file is opened once, and only a regular one; nothing here allocates in proportion
//! to a number that a file states.
mod external;
mod file;
mod format;
pub mod limits;
pub mod wire;

pub use external::External;
pub use file::{Access, File};
pub use format::{Format, foreign, misfit};
