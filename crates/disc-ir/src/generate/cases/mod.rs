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
    ops::{DTypeClass, OpDef, OpKind, family, math_function},
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

type Make = fn(&mut Sketch) -> Result<Vec<Value>, Diagnostic>;

/// The way in which an op is tried.
struct Recipe {
    make: Make,
    /// The tolerance for floats.
    nearness: Nearness,
    varied: Varied,
}

/// The value whose element types the cases of an op go through.
#[derive(Clone, Copy)]
enum Varied {
    /// The first operand; of an op without operands, the first result.
    First,
    Operand(usize),
    Result(usize),
}

impl Recipe {
    fn new(make: Make, nearness: Nearness) -> Self {
        Self { make, nearness, varied: Varied::First }
    }

    fn varying(self, varied: Varied) -> Self {
        Self { varied, ..self }
    }
}

impl Varied {
    fn class(self, def: &OpDef) -> DTypeClass {
        match self {
            Varied::First => def.operands.first().or(def.results.first()).expect("an op has operands or results").class,
            Varied::Operand(index) => def.operands[index].class,
            Varied::Result(index) => def.results[index].class,
        }
    }
}

/// Returns the programs for one op, each for one element type that the op admits and one of
/// `shapes`; none for an op of kernels.
///
/// # Errors
/// Never: a recipe makes only admitted ops.
pub fn cases(kind: OpKind, shapes: &[Shapes]) -> Result<Vec<Case>, Diagnostic> {
    let Some(recipe) = recipe(kind) else { return Ok(Vec::new()) };
    let mut made = Vec::new();
    for dtype in recipe.varied.class(kind.def()).members() {
        for &shapes in shapes {
            let mut sketch = Sketch::new(kind, dtype, shapes);
            let results = (recipe.make)(&mut sketch)?;
            let nearness = if dtype.is_float() { recipe.nearness } else { Nearness::Exact };
            made.push(sketch.finish(&results, nearness)?);
        }
    }
    Ok(made)
}

/// Returns the recipe of an op; none for an op of kernels.
// tidy: allow(function-length): one arm per op
fn recipe(kind: OpKind) -> Option<Recipe> {
    use {Nearness::*, OpKind as K};
    let by = Recipe::new;
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
        | K::Sqrt => by(elementwise::plain, Exact),
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
        | K::Compare => by(elementwise::plain, Exact),
        K::Select => by(elementwise::plain, Exact).varying(Varied::Operand(1)),
        K::Maximum | K::Minimum | K::Clamp => by(elementwise::plain, Value),
        K::BitcastConvert | K::Convert => by(elementwise::conversions, Exact),
        K::Power | K::Rsqrt => by(elementwise::plain, Function),
        math_function!() => {
            let math = kind.def().math.expect("a math function declares itself");
            by(elementwise::plain, if math.cancels { Cancelling } else { Function })
        }
        K::BroadcastInDim => by(movement::broadcast, Exact),
        K::Concatenate => by(movement::concatenate, Exact),
        K::Constant => by(movement::constant, Exact),
        K::DimValue => by(movement::dim, Exact),
        K::GetDimensionSize => by(movement::dimension_size, Exact),
        K::Iota => by(movement::iota, Exact),
        K::Pad => by(movement::pad, Exact),
        K::Reshape => by(movement::reshape, Exact),
        K::Reverse => by(movement::reverse, Exact),
        K::Slice => by(movement::slice, Exact),
        K::Transpose => by(movement::transpose, Exact),
        K::Weight => by(movement::weight, Exact),
        K::DynamicSlice => by(index::dynamic_slice, Exact),
        K::DynamicUpdateSlice => by(index::dynamic_update_slice, Exact),
        K::Gather => by(index::gather, Exact),
        K::Scatter => by(index::scatter, Sum),
        K::Cumulative => by(combine::cumulative, Sum),
        K::Reduce => by(combine::reduce, Sum),
        K::Im2col => by(movement::im2col, Exact),
        K::Winograd => by(combine::winograd, Exact),
        K::ReduceWindow => by(combine::window, Sum),
        K::Convolution => by(combine::convolution, Sum),
        K::UnpackInt4 => by(combine::unpack_int4, Exact),
        K::DotGeneral => by(combine::dot_general, Sum),
        K::Sort => by(control::sort, Exact),
        K::TopK => by(control::top_k, Exact),
        K::BindDim => by(sizes::bind_dim, Exact),
        K::Nonzero => by(sizes::nonzero, Exact),
        K::RngBitGenerator => by(control::random_bits, Exact).varying(Varied::Result(1)),
        K::Assert => by(control::assert, Exact).varying(Varied::Operand(1)),
        K::Call => by(control::call, Exact),
        K::If => by(control::if_, Exact).varying(Varied::Result(0)),
        K::Return => by(control::ret, Exact),
        K::While => by(control::while_, Exact),
        K::Fusion | family!(kernel) | family!(grid) | family!(host) | family!(library) => return None,
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
