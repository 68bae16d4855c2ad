//! Declares and emits compositions: lowerings of more than a few ops that front ends share.
//!
//! A composition is to a bridge what an op is to a pass: it has a name, operands, attributes,
//! results and numbered constraints, and one body. A bridge makes its struct and calls
//! [`Composition::emit`], or calls it by name ([`compose`]), as Python does.
//!
//! Invariant: a body builds no op that fails at a size that the constraints admit.
#[macro_use]
mod declare;
#[macro_use]
mod attribute;
mod activation;
mod adaptive;
mod arithmetic;
mod attention;
mod bags;
mod columns;
mod contraction;
mod convolution;
mod distances;
mod docs;
mod einsum;
mod fourier;
mod gathering;
mod given;
mod losses;
mod normalization;
mod order;
mod padding;
mod pooling;
mod positions;
mod rearranging;
mod recurrent;
mod reduction;
mod resize;
mod sampling;
mod scan;
mod scattering;
mod searching;
mod signs;
mod softmax;
mod windows;
mod zeta;

pub use activation::Approximation;
pub use adaptive::Cell;
pub use attribute::Attribute;
pub use bags::Bag;
pub use declare::{Argument, Arity, Composed, Composition, CompositionDef, OperandDef};
pub use docs::docs;
pub use fourier::Normalization;
pub use losses::{Distance, Reduction};
pub use padding::Edge;
pub use positions::Coordinates;
pub use rearranging::{BlockOrder, Triangle};
pub use recurrent::CellKind;
pub use reduction::Extreme;
pub use resize::Rounding;
pub use sampling::{Beyond, Interpolation};
pub use scan::Running;
pub use scattering::{Combine, OutOfRange, Reduced};

use crate::emit::Emitter;
use disc_ir::{Attr, Code, Diagnostic, Value, text::closest};
use given::Given;

composition_table! {
    activation::{
        Elu, Gelu, Glu, HardShrink, HardSigmoid, HardSwish, HardTanh, LeakyRelu, LogSigmoid, Mish, PRelu, Silu, SoftShrink, Softplus,
        Threshold,
    },
    adaptive::{AdaptiveMaxPool, AdaptivePool},
    arithmetic::{FloorDivide, FloorRemainder, Hypot, LogAddExp, Logit, NextAfter, Sinc, XLogY},
    attention::{Attention},
    bags::{EmbeddingBag},
    columns::{ColumnsToImage, ImageToColumns},
    contraction::{Bilinear, Gemm, IntegerMatmul, Linear, Matmul, Outer, ScaledSum},
    convolution::{Convolution, TransposedConvolution},
    distances::{Distances, PairDistances},
    einsum::{Einsum},
    fourier::{Fourier, FourierOfReal, FourierToReal},
    gathering::{GatherAt, GatherElements, OneHot, Take},
    losses::{BinaryCrossEntropy, CosineSimilarity, CrossEntropy, DistanceLoss, LikelihoodLoss},
    normalization::{BatchNorm, FeatureNorm, GroupNorm, LayerNorm, RmsNorm, WeightNorm},
    order::{KthLeast, Median, SortPlaces, TopKOf},
    padding::{Pad},
    pooling::{AveragePool, MaxPool, MaxPoolPlaces},
    rearranging::{DepthToSpace, Diagonal, KeepTriangle, RepeatElements, Roll, SetDiagonal, SlidingWindows, SpaceToDepth, Tile},
    recurrent::{RecurrentCell, RecurrentLayer},
    reduction::{ArgExtreme, ArgReduce, LogSumExp, LpNorm, Mean, Variance},
    resize::{ResizeCubic, ResizeLinear, ResizeNearest},
    sampling::{AffineGrid, GridSample},
    scan::{Difference, RunningExtreme, RunningLogSumExp, RunningTotal},
    scattering::{MaskedScatter, ReduceElements, ReplaceSlice, ScatterAt, ScatterElements, ScatterSlices},
    searching::{Histogram, SearchSorted},
    signs::{Angle, CopySign, Heaviside, SignBit},
    softmax::{LogSoftmax, SafeSoftmax, Softmax},
    zeta::{Polygamma, Zeta},
}

/// Returns the composition of a name.
///
/// # Errors
/// There is none; the nearest name is in the help.
pub fn find(name: &str) -> Result<&'static CompositionDef, Diagnostic> {
    COMPOSITIONS.iter().find(|def| def.name == name).ok_or_else(|| {
        let error = Diagnostic::new(Code::E0102, format!("there is no composition `{name}`"));
        match closest(name, COMPOSITIONS.iter().map(|def| def.name)) {
            Some(near) => error.help(format!("is `{near}` meant?")),
            None => error,
        }
    })
}

/// Emits a composition by its declaration.
///
/// # Errors
/// Operands or attributes that do not fit the declaration, or a constraint that does not hold; the
/// error names the composition.
pub fn compose(b: &Emitter<'_>, def: &'static CompositionDef, operands: &[Argument], attrs: &[(&'static str, Attr)]) -> Composed {
    let given = Given::new(b, def, operands, attrs)?;
    // A constraint that is cited by its number is that of the op named first.
    (def.emit)(b, &given).map_err(|error| match error.op {
        Some(_) => error.note(format!("in the composition `{}`", def.name)),
        None => error.in_op(def.name),
    })
}

/// Returns an axis that counts from the front; a negative one counts from the back. A scalar has
/// axis 0.
fn axis_of(b: &Emitter<'_>, x: Value, axis: i64) -> Result<usize, Diagnostic> {
    let rank = b.rank(x).max(1) as i64;
    let from_front = if axis < 0 { axis + rank } else { axis };
    if (0..rank).contains(&from_front) {
        return Ok(from_front as usize);
    }
    Err(Diagnostic::new(Code::E0206, format!("(C1) axis {axis} is out of range of a tensor of rank {rank}")))
}

/// As [`axis_of`], for distinct axes.
fn axes_of(b: &Emitter<'_>, x: Value, axes: &[i64]) -> Result<Vec<usize>, Diagnostic> {
    let found: Vec<usize> = axes.iter().map(|&axis| axis_of(b, x, axis)).collect::<Result<_, _>>()?;
    match found.iter().enumerate().find(|(i, axis)| found[..*i].contains(axis)) {
        Some((_, axis)) => Err(Diagnostic::new(Code::E0206, format!("(C1) axis {axis} is named twice"))),
        None => Ok(found),
    }
}

/// Checks the number of axes of an operand, as constraint `number` states it.
fn check_rank(b: &Emitter<'_>, number: u32, (name, x): (&str, Value), expected: usize) -> Result<(), Diagnostic> {
    match b.rank(x) {
        rank if rank == expected => Ok(()),
        rank => Err(Diagnostic::new(Code::E0207, format!("(C{number}) `{name}` has {rank} axes, expected {expected}"))),
    }
}
