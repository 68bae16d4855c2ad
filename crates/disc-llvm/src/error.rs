//! Everything that can fail behind the door.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("LLVM has no target machine for {0}")]
    NoMachine(String),
    #[error("LLVM rejected the module: {0}")]
    Verify(String),
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
