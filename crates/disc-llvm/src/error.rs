//! Defines the failures of this crate.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("LLVM has no target machine for {0}")]
    NoMachine(String),
    #[error(transparent)]
    Target(#[from] disc_codegen::target::TargetError),
    #[error("LLVM rejected the module: {0}")]
    Verify(String),
    /// An op that cannot be lowered: the compiler made IR that is not legal at this stage.
    #[error("lowering `{op}` of `{function}`: {message}")]
    Lower { function: String, op: String, message: String },
    /// As [`Error::Lower`], outside of an op.
    #[error("lowering: {0}")]
    Emit(String),
    #[error("LLVM pass pipeline `{pipeline}`: {message}")]
    Passes { pipeline: &'static str, message: String },
    #[error("LLVM code generation: {0}")]
    Codegen(String),
    /// Code generation was abandoned midway. Its allocations are leaked, and its context is never
    /// touched again.
    #[error(
        "LLVM gave up on code for `{target}`, a fault of this compiler (leave the target out, or compile for another): {message}"
    )]
    Fatal { target: String, message: String },
    #[error("lld: {0}")]
    Link(String),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Error {
    /// Adds the op that could not be lowered, unless the error names one already.
    pub(crate) fn in_op(self, function: &str, op: &str) -> Self {
        match self {
            Self::Emit(message) => Self::Lower { function: function.to_owned(), op: op.to_owned(), message },
            other => other,
        }
    }
}

impl From<inkwell::builder::BuilderError> for Error {
    fn from(error: inkwell::builder::BuilderError) -> Self {
        Self::Emit(error.to_string())
    }
}
