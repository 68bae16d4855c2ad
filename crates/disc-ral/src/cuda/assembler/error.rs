//! Errors of assemblers.
use std::{io, path::PathBuf};

/// The reason why PTX did not become machine code.
#[derive(Debug, thiserror::Error)]
pub enum AssemblerError {
    /// The tool refuses the PTX.
    #[error("{tool} makes no code for {chip}: {}", if log.is_empty() { "it does not say why" } else { log.trim_end() })]
    Refused {
        /// The tool and its version.
        tool: String,
        /// The chip that code was asked for.
        chip: String,
        /// The messages of the tool, one a line.
        log: String,
    },
    /// The tool is older than the chip, or no longer makes code for it.
    #[error("{tool} does not know the chip {chip}")]
    UnknownChip {
        /// The tool and its version.
        tool: String,
        /// The chip that code was asked for.
        chip: String,
    },
    /// The library cannot be loaded, or is no nvJitLink.
    #[error("{} cannot be used: {message}", path.display())]
    Library {
        /// The library.
        path: PathBuf,
        /// The reason.
        message: String,
    },
    /// The executable cannot be run, or its files cannot be written.
    #[error("{} cannot be run: {source}", path.display())]
    Process {
        /// The executable.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}
