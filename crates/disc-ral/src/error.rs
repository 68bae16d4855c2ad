//! Defines the failures of loading and running compiled code, and their codes.
//!
//! Invariant: a failure at a source site of the module carries the site's own code.

use std::{borrow::Cow, fmt};

/// Codes of failures that the runtime itself detects. They mean the same as in the compiler's table
/// of codes.
pub mod code {
    /// A call passed the wrong number of inputs, or an input of the wrong kind.
    pub const BAD_INPUT: &str = "E0601";
    /// Memory could not be allocated.
    pub const OUT_OF_MEMORY: &str = "E0605";
    /// The caller gave no memory for an output, or unusable memory.
    pub const OUTPUT: &str = "E0607";
    /// Weights that do not fit the module.
    pub const WEIGHTS: &str = "E0608";
    /// Generated code and runtime disagree: an error of disc, not of the model.
    pub const INTERNAL: &str = "E0609";
    /// Code could not be loaded.
    pub const LOAD: &str = "E0501";
    /// An option that cannot be used: a device that is not there.
    pub const BAD_ARGUMENT: &str = "E0700";
    /// The driver of a device failed.
    pub const DRIVER: &str = "E0611";
    /// A file that is no package, or a damaged one.
    pub const PACKAGE: &str = "E0901";
    /// A package in a newer format.
    pub const PACKAGE_VERSION: &str = "E0902";
    /// A package without code for this processor, or for the target that was asked for.
    pub const PACKAGE_TARGET: &str = "E0903";
    /// An entry that a package does not have.
    pub const PACKAGE_ENTRY: &str = "E0904";
    /// A required signature that is missing or wrong.
    pub const PACKAGE_SIGNATURE: &str = "E0905";

    /// Every code of this crate.
    pub const ALL: [&str; 13] = [
        BAD_INPUT,
        OUT_OF_MEMORY,
        OUTPUT,
        WEIGHTS,
        INTERNAL,
        LOAD,
        BAD_ARGUMENT,
        DRIVER,
        PACKAGE,
        PACKAGE_VERSION,
        PACKAGE_TARGET,
        PACKAGE_ENTRY,
        PACKAGE_SIGNATURE,
    ];
}

/// A failure of loading or running. The executable and the session stay usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// `E0123`: the code of the source site, or one of [`code`].
    pub code: Cow<'static, str>,
    /// The failed op of the model, or an entry's input, output or weight. Empty if the whole call
    /// failed.
    pub op: String,
    /// Expected and actual values, in lower case.
    pub message: String,
    /// The dims that the message mentions, as text.
    pub dims: Vec<String>,
    /// The actual sizes and values, in the order of the message's placeholders.
    pub values: Vec<i64>,
}

impl Error {
    /// Makes an error without dims.
    pub fn new(code: &'static str, op: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: Cow::Borrowed(code), op: op.into(), message: message.into(), dims: Vec::new(), values: Vec::new() }
    }

    /// Returns the code: `E0901`.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Returns true if the message names [`Error::op`] itself, or if there is no op to name.
    pub fn is_named(&self) -> bool {
        self.op.is_empty() || self.message.contains(&format!("`{}`", self.op))
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL, "", message)
    }

    pub(crate) fn out_of_memory(what: &str, bytes: impl fmt::Display, cause: &AllocError) -> Self {
        let code = match cause {
            AllocError::Driver(_) => code::DRIVER,
            AllocError::Size | AllocError::OverLimit(_) | AllocError::System | AllocError::Device => code::OUT_OF_MEMORY,
        };
        Self::new(code, what, format!("{bytes} bytes for {what}: {cause}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Error {}

/// The reason why a device could not allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocError {
    /// A number that no memory has.
    #[error("the size is negative or does not fit in 63 bits")]
    Size,
    /// More than the limit of the process.
    #[error("this process may have {0} bytes at most")]
    OverLimit(u64),
    /// The system refused.
    #[error("the system is out of memory")]
    System,
    /// The memory of the device is used up.
    #[error("the device is out of memory")]
    Device,
    /// The driver failed otherwise: its description.
    #[error("the driver of the device failed: {0}")]
    Driver(&'static str),
}
