//! Describes what a library of a GPU may compute of a group, in place of its kernels.
use super::{Argument, Versioned, Workspace};
use disc_abi::Activation;
use disc_ir::Dim;

/// A matmul that a library may compute whole: see the op `library_gemm`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatmulOffer {
    /// Batches, rows, columns, and terms of each sum.
    pub sizes: [Dim; 4],
    /// Elements between batches, rows and columns.
    pub left_strides: [Dim; 3],
    pub right_strides: [Dim; 3],
    pub activation: Activation,
    /// Operands of f32 may be rounded to tf32.
    pub tf32: bool,
    pub left: Argument,
    pub right: Argument,
    pub bias: Option<Argument>,
    pub result: Argument,
}

/// A convolution that a library may compute whole: see the op `library_convolution`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvolutionOffer {
    /// Those of the input, the filter, and the places of the result.
    pub sizes: [Dim; 10],
    /// Elements between neighbours: of the input, the filter, and the result.
    pub strides: [Dim; 12],
    /// Steps, dilations, padding before and after, and groups.
    pub window: [Dim; 9],
    pub activation: Activation,
    /// Operands of f32 may be rounded to tf32.
    pub tf32: bool,
    pub input: Argument,
    pub filter: Argument,
    pub bias: Option<Argument>,
    pub result: Argument,
}

/// An offer to a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    Matmul(Box<MatmulOffer>),
    Convolution(Box<ConvolutionOffer>),
}

/// A way to compute a group by a library, which has to take all offers.
#[derive(Clone, Debug)]
pub struct LibraryWay {
    pub offers: Vec<Offer>,
    /// The part that kernels compute after it.
    pub rest: Option<Rest>,
}

/// The part of a group that kernels compute from what a library has computed.
#[derive(Clone, Debug)]
pub struct Rest {
    /// The inputs of the group that it reads: the first ones of its own.
    pub inputs: Vec<usize>,
    /// The results of the library, each an [`Argument::Workspace`] of the offers: the last inputs
    /// of the code.
    pub products: Vec<Workspace>,
    pub code: Versioned,
}
