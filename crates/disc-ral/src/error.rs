//! Failures of loading and running compiled code, and their codes.
//!
//! Invariants: a code of this crate starts with `E07`; a failure at a source site of the module carries the site's own code.

use std::{borrow::Cow, fmt};

/// Codes of failures that the runtime itself finds. `docs/runtime.md` explains each.
pub mod code {
    pub const INPUT_COUNT: &str = "E0701";
    pub const INPUT_DTYPE: &str = "E0702";
    pub const INPUT_RANK: &str = "E0703";
    pub const INPUT_DEVICE: &str = "E0704";
    pub const INPUT_MEMORY: &str = "E0705";
    pub const OUT_OF_MEMORY: &str = "E0706";
    pub const OUTPUT: &str = "E0707";
    pub const LOAD: &str = "E0708";
    pub const WEIGHTS: &str = "E0709";
    pub const INTERNAL: &str = "E0710";
    pub const NO_ENTRY: &str = "E0711";

    /// Every code of this crate, for tables of codes.
    pub const ALL: [&str; 11] = [
        INPUT_COUNT,
        INPUT_DTYPE,
        INPUT_RANK,
        INPUT_DEVICE,
        INPUT_MEMORY,
        OUT_OF_MEMORY,
        OUTPUT,
        LOAD,
        WEIGHTS,
        INTERNAL,
        NO_ENTRY,
    ];
}

/// Why loading or running failed. The executable and the session stay usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunError {
    /// `E0123`: the code of the source site, or one of [`code`].
    pub code: Cow<'static, str>,
    /// What failed: an op of the model, or an entry's input, output or weight. Empty where the whole call failed.
    pub op: String,
    /// What was expected and what came, in lower case.
    pub message: String,
    /// The dims that the message speaks of, as text.
    pub dims: Vec<String>,
    /// The sizes and values met, in the order of the message's placeholders.
    pub values: Vec<i64>,
}

impl RunError {
    pub fn new(code: &'static str, op: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: Cow::Borrowed(code), op: op.into(), message: message.into(), dims: Vec::new(), values: Vec::new() }
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL, "", message)
    }

    pub(crate) fn out_of_memory(what: &str, bytes: impl fmt::Display, cause: &AllocError) -> Self {
        Self::new(code::OUT_OF_MEMORY, what, format!("{bytes} bytes for {what}: {cause}"))
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for RunError {}

/// Why a device gave no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocError {
    #[error("the size is negative or does not fit in 63 bits")]
    Size,
    #[error("the machine has {0} bytes of memory")]
    OverLimit(u64),
    #[error("the system is out of memory")]
    System,
}
