//! Lists every op of every stage: the op table.
//!
//! An op is declared in the file of its family with [`op!`](declare) and listed in [`op_table!`]
//! below; nothing else describes it. The parser, printer, builder, verifier, docs and the Python
//! package read [`OPS`]. Adding an op makes the compiler list the places that must learn it,
//! because interpreter and lowering match [`OpKind`] exhaustively.
//!
//! Invariants: names, attributes and semantics are StableHLO's where it has the op; a doc comment
//! numbers the constraints (C1), (C2) and the result-type function cites them.
pub mod body;
mod class;
#[macro_use]
mod declare;
mod contraction;
mod control;
mod demands;
mod docs;
mod elementwise;
mod fused;
mod grid;
mod host;
mod index;
mod kernel;
mod library;
mod math;
mod movement;
mod random;
mod reduce;
mod sizes;
mod sort;
mod window;

pub use class::DTypeClass;
pub use declare::{Arity, AttrDef, OpDef, OperandDef, ResultDef, Stage, Stages, Trait};
pub use demands::{Demand, demands};
pub use docs::{docs, paragraphs};
pub use fused::{FusionKind, UnknownKind};
pub(crate) use grid::is_of_threads;
pub use index::{checks_bounds, is_pure};
pub(crate) use math::math_function;
pub use math::{Domain, Exact, MATH_FUNCTIONS, MathDef, Zero};

op_table! {
    elementwise::{
        // one operand
        Abs, Acos, Acosh, Asin, Asinh, Atan, Atanh, BesselI1e, Cbrt, Ceil, CountLeadingZeros, Cosh, Cosine, Digamma, Erf, ErfInv, Erfc,
        Exponential, ExponentialMinusOne, Floor, IsFinite, IsInf, IsNan, Lgamma, Log, LogPlusOne, Logistic, Negate, Not, Popcnt,
        RoundNearestAfz, RoundNearestEven, Rsqrt, Sign, Sine, Sinh, Sqrt, Tan, Tanh,
        // two operands
        Add, And, Atan2, Divide, Maximum, Minimum, Multiply, NextAfter, Or, Polygamma, Power, Remainder, ShiftLeft, ShiftRightArithmetic,
        ShiftRightLogical, Subtract, Xor, Zeta,
        // the rest
        BitcastConvert, Clamp, Compare, Convert, Select,
    },
    movement::{
        BroadcastInDim, Concatenate, Constant, DimValue, GetDimensionSize, Iota, Pad, Reshape, Reverse, Slice, Transpose, Weight,
    },
    index::{DynamicSlice, DynamicUpdateSlice, Gather, Scatter},
    reduce::{Cumulative, Reduce},
    window::{Im2col, ReduceWindow, Winograd},
    contraction::{Convolution, DotGeneral, UnpackInt4},
    sort::{Sort, TopK},
    sizes::{BindDim, Nonzero},
    random::{RngBitGenerator},
    control::{Assert, Call, If, Return, While},
    fused::{Fusion},
    kernel::{
        DotLanes, DotPairs, ExtractLane, Fma, For, LaneMask, Lanes, Load, LoadTile, PickLanes, Prefetch, RecastLanes, ReduceLanes, ScaleByPower, Scratch, Splat, Store, StoreTile,
        TransposeLanes, UnzipLanes, View, ZipLanes,
    },
    grid::{
        Aligned, Atomic, Barrier, CommitCopies, CopyAsync, Fetch, LaunchGrid, LoadMatrix, MultiplyTiles, Place, ReduceGroup, ReleaseGrid, Shared, Shuffle,
        Vote, WaitCopies, WaitGrid,
    },
    host::{Alloc, AllocOutput, Arena, Launch, LayoutArena, Mark, Release, Nontemporal},
    library::{LibraryConvolution, LibraryGemm},
}

pub(crate) use family;

#[cfg(test)]
mod tests;
