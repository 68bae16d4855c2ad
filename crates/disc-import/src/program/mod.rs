//! Represents an imported program: what every reader returns, and the builder that it fills.
//!
//! Names of a file are any text (`input:0`, `/encoder/x`, `onnx::Gather_0`). The IR gets words,
//! which its text can hold; the signature keeps the file's names, which callers use.
mod build;
mod dims;
mod names;

pub use build::{Node, ProgramBuilder};
pub(crate) use dims::name_open;
pub use dims::{DimChoice, Input, Size, open_dims};
pub use names::Words;

use bytes::Bytes;
use disc_ir::{DType, Module};

/// A program out of a file.
#[derive(Debug)]
pub struct Imported {
    /// Its first function is the entry.
    pub module: Module,
    /// A value for each weight of the module that is no constant.
    pub weights: Vec<Weight>,
    pub signature: Signature,
    pub assumed: Vec<Assumption>,
}

/// The value of a weight: memory of the file, not a copy.
#[derive(Clone, Debug)]
pub struct Weight {
    pub name: String,
    pub dtype: DType,
    pub sizes: Vec<i64>,
    /// In row-major order, little-endian.
    pub bytes: Bytes,
}

/// The entry as callers see it, in the file's names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    pub entry: String,
    /// One name for each parameter.
    pub inputs: Vec<String>,
    /// One name for each result.
    pub outputs: Vec<String>,
}

/// A choice of the importer where the file allows more: the program is right only where it holds,
/// and calls check it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assumption {
    /// A fact about sizes, such as `N == M`.
    pub fact: String,
    /// The node of the file that made it, by the file's name.
    pub node: String,
    /// The node's op, as the file calls it.
    pub op: String,
}
