//! Makes one small program per op, element type and kind of shape, for differential tests of every
//! op.
//!
//! The op table lists the types that an op admits; the recipes here only feed each op. Unlike
//! [`super::program`], nothing is random.
//!
//! Invariant: every op of the tensor stage has a recipe ([`cases`] is never empty for it), and the
//! first parameters bind every dim.
mod combine;
mod control;
mod elementwise;
mod index;
mod movement;
mod sizes;
mod sketch;

use crate::{
    diag::Diagnostic,
    graph::{Module, Value},
    ops::{OpDef, OpKind, Stages},
    types::DType,
};
use sketch::Sketch;

/// The kind of sizes of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shapes {
    /// Constants.
    Static,
    /// Constants, one of them 0.
    Empty,
    /// Constants, all of them 1.
    Ones,
    /// Symbols and constants.
    Partly,
    /// Symbols.
    Dynamic,
}

impl Shapes {
    pub const ALL: [Shapes; 5] = [Shapes::Static, Shapes::Empty, Shapes::Ones, Shapes::Partly, Shapes::Dynamic];

    pub fn name(self) -> &'static str {
        match self {
            Shapes::Static => "static",
            Shapes::Empty => "empty",
            Shapes::Ones => "ones",
            Shapes::Partly => "partly",
            Shapes::Dynamic => "dynamic",
        }
    }
}

/// The kind of elements of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Draw {
    /// Every kind of element: zeros of both signs, NaN, infinities, denormals, the ends of the
    /// range, ordinary ones.
    Any,
    /// Ordinary numbers, and now and then a special one: for sums and products.
    Summands,
    /// Numbers near 1, so that a product of many is an ordinary one.
    Factors,
    /// Small integers from 0, whatever the type.
    Orders,
    /// Numbers from a little above 1.
    AboveOne,
    /// Indices, some out of range.
    Indices,
    /// True or false; for scalars, too.
    Truth,
}

/// The tolerance between a result and the interpreter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Nearness {
    /// The same bits, but any NaN for a NaN.
    Exact,
    /// The same value; of zeros, either.
    Value,
    /// A function that is approximated: some units in the last place.
    Function,
    /// A function that cancels: near in units of the larger of the result and 1.
    Cancelling,
    /// A sum or product in another order.
    Sum,
}

/// A program with one op of interest.
#[derive(Clone, Debug)]
pub struct Case {
    pub kind: OpKind,
    pub dtype: DType,
    pub shapes: Shapes,
    pub module: Module,
    /// The function to run.
    pub entry: String,
    /// The elements of the parameters.
    pub draws: Vec<Draw>,
    pub nearness: Nearness,
}

type Recipe = fn(&mut Sketch) -> Result<Vec<Value>, Diagnostic>;

/// Returns the programs for one op, each for one element type that the op admits and one of
/// `shapes`; none for an op of kernels.
///
/// # Errors
/// Never: a recipe makes only admitted ops.
pub fn cases(kind: OpKind, shapes: &[Shapes]) -> Result<Vec<Case>, Diagnostic> {
    let Some((recipe, nearness)) = recipe(kind) else { return Ok(Vec::new()) };
    let mut made = Vec::new();
    for dtype in dtypes(kind.def()) {
        for &shapes in shapes {
            let mut sketch = Sketch::new(kind, dtype, shapes);
            let results = recipe(&mut sketch)?;
            let nearness = if dtype.is_float() { nearness } else { Nearness::Exact };
            made.push(sketch.finish(&results, nearness)?);
        }
    }
    Ok(made)
}

/// Returns the element types that the cases of an op alternate between.
fn dtypes(def: &OpDef) -> Vec<DType> {
    let class = match def.kind {
        OpKind::Select => def.operands[1].class,
        OpKind::RngBitGenerator => def.results[1].class,
        OpKind::Assert => def.operands[1].class,
        OpKind::If => def.results[0].class,
        _ => def.operands.first().or(def.results.first()).expect("an op has operands or results").class,
    };
    class.members().collect()
}

/// Returns the recipe that feeds an op, and the tolerance for floats.
// tidy: allow(function-length): one arm per op
fn recipe(kind: OpKind) -> Option<(Recipe, Nearness)> {
    use {Nearness::*, OpKind as K};
    Some(match kind {
        K::Abs
        | K::Ceil
        | K::CountLeadingZeros
        | K::Floor
        | K::IsFinite
        | K::IsInf
        | K::IsNan
        | K::Negate
        | K::Not
        | K::Popcnt
        | K::RoundNearestAfz
        | K::RoundNearestEven
        | K::Sign
        | K::Sqrt => (elementwise::plain, Exact),
        K::Add
        | K::And
        | K::Divide
        | K::Multiply
        | K::NextAfter
        | K::Or
        | K::Remainder
        | K::ShiftLeft
        | K::ShiftRightArithmetic
        | K::ShiftRightLogical
        | K::Subtract
        | K::Xor
        | K::Compare
        | K::Select => (elementwise::plain, Exact),
        K::Maximum | K::Minimum | K::Clamp => (elementwise::plain, Value),
        K::BitcastConvert | K::Convert => (elementwise::conversions, Exact),
        K::Acos
        | K::Acosh
        | K::Asin
        | K::Asinh
        | K::Atan
        | K::Atan2
        | K::Atanh
        | K::Cbrt
        | K::Cosh
        | K::Cosine
        | K::Erf
        | K::ErfInv
        | K::Erfc
        | K::Exponential
        | K::ExponentialMinusOne
        | K::Log
        | K::LogPlusOne
        | K::Logistic
        | K::Power
        | K::Rsqrt
        | K::Sine
        | K::Sinh
        | K::Tan
        | K::Tanh => (elementwise::plain, Function),
        K::BesselI1e | K::Digamma | K::Lgamma => (elementwise::plain, Cancelling),
        K::Polygamma | K::Zeta => (elementwise::plain, Cancelling),
        K::BroadcastInDim => (movement::broadcast, Exact),
        K::Concatenate => (movement::concatenate, Exact),
        K::Constant => (movement::constant, Exact),
        K::DimValue => (movement::dim, Exact),
        K::GetDimensionSize => (movement::dimension_size, Exact),
        K::Iota => (movement::iota, Exact),
        K::Pad => (movement::pad, Exact),
        K::Reshape => (movement::reshape, Exact),
        K::Reverse => (movement::reverse, Exact),
        K::Slice => (movement::slice, Exact),
        K::Transpose => (movement::transpose, Exact),
        K::Weight => (movement::weight, Exact),
        K::DynamicSlice => (index::dynamic_slice, Exact),
        K::DynamicUpdateSlice => (index::dynamic_update_slice, Exact),
        K::Gather => (index::gather, Exact),
        K::Scatter => (index::scatter, Sum),
        K::Cumulative => (combine::cumulative, Sum),
        K::Reduce => (combine::reduce, Sum),
        K::Im2col => (movement::im2col, Exact),
        K::Winograd => (combine::winograd, Exact),
        K::ReduceWindow => (combine::window, Sum),
        K::Convolution => (combine::convolution, Sum),
        K::UnpackInt4 => (combine::unpack_int4, Exact),
        K::DotGeneral => (combine::dot_general, Sum),
        K::Sort => (control::sort, Exact),
        K::TopK => (control::top_k, Exact),
        K::BindDim => (sizes::bind_dim, Exact),
        K::Nonzero => (sizes::nonzero, Exact),
        K::RngBitGenerator => (control::random_bits, Exact),
        K::Assert => (control::assert, Exact),
        K::Call => (control::call, Exact),
        K::If => (control::if_, Exact),
        K::Return => (control::ret, Exact),
        K::While => (control::while_, Exact),
        K::Fusion
        | K::Alloc
        | K::AllocOutput
        | K::Arena
        | K::Launch
        | K::LayoutArena
        | K::Mark
        | K::Release
        | K::Nontemporal
        | K::Aligned
        | K::Fetch
        | K::LaunchGrid
        | K::LibraryConvolution
        | K::LibraryGemm => {
            return None;
        }
        kind if kind.def().stages == Stages::Kernel => return None,
        kind => panic!("`{}` has no recipe", kind.name()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ops::{OPS, Stage, Stages},
        verify::verify,
    };

    #[test]
    fn every_op_on_tensors_has_cases_that_are_well_formed() {
        for def in OPS {
            let cases = cases(def.kind, &Shapes::ALL).unwrap_or_else(|error| panic!("{}: {error}", def.name));
            let wanted = match def.stages {
                Stages::Tensor | Stages::Both => true,
                Stages::Only(stages) => stages.contains(&Stage::Tensor),
                Stages::Kernel => false,
            };
            assert_eq!(!cases.is_empty(), wanted, "{}", def.name);
            for case in cases {
                let has_op = case.module.functions.iter().any(|f| f.walk(f.body).iter().any(|&i| f.kind_of(i) == def.kind));
                assert!(has_op, "{} {}", case.entry, case.module);
                verify(&case.module, Stage::Tensor).unwrap_or_else(|e| panic!("{}: {}\n{}", case.entry, e[0], case.module));
            }
        }
    }
}
