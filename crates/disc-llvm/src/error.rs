//! Everything that can fail behind the door.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("LLVM has no target machine for {0}")]
    NoMachine(String),
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
    /// Code generation was abandoned in the middle. What it had allocated is leaked, and its context is never touched again.
    #[error("LLVM gave up: {0}")]
    Fatal(String),
    #[error("lld: {0}")]
    Link(String),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Error {
    /// Says which op could not be lowered, unless that is said already.
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
