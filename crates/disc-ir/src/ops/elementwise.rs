//! Declares element-wise ops: on tensors of one shape, and with the same meaning on the lanes of a
//! kernel's vectors. Those that kernels have as arithmetic only are in [`super::math`].
//!
//! Invariants: integer arithmetic wraps and never traps: `x / 0 = 0`, `x rem 0 = x`,
//! `MIN / -1 = MIN`, and shifting by the width or more gives 0 (or the sign, for an arithmetic
//! right shift). Floats follow IEEE 754; `maximum` and `minimum` propagate NaN.
use super::{
    class::DTypeClass,
    declare::{Stages, one, required},
};
use crate::{
    attr::AttrKind,
    diag::Code,
    infer::{InferCx, Inferred},
    types::{DType, Type},
};

pub(super) use super::math::*;

const FLOAT: DTypeClass = DTypeClass::FLOAT;
/// Floats that are computed in their own precision.
const WIDE: DTypeClass = DTypeClass::of(&[DType::F32, DType::F64]);
const NUMBER: DTypeClass = DTypeClass::NUMBER;
const BITS: DTypeClass = DTypeClass::BITS;
const INTEGER: DTypeClass = DTypeClass::INTEGER;
const ANY: DTypeClass = DTypeClass::ANY;
const BOOL: DTypeClass = DTypeClass::BOOL;
/// Numbers that have a sign.
const SIGNED: DTypeClass = DTypeClass::FLOAT.or(DTypeClass::SIGNED);

/// Ops of one operand whose result has its type.
macro_rules! unary {
    ($( $(#[doc = $doc:literal])+ $Kind:ident = $name:literal on $class:expr; )*) => { $( op! {
        $(#[doc = $doc])+
        #[doc = ""]
        #[doc = "(C1) `type(operand) = type(result)`."]
        $Kind = $name(operand: one($class)) -> (result: one($class)) traits [Pure, Elementwise] stages Stages::Both, infer same_type;
    } )* };
}

/// Ops of two operands of one type, which the result has too.
macro_rules! binary {
    ($( $(#[doc = $doc:literal])+ $Kind:ident = $name:literal on $class:expr $(, $tr:ident)*; )*) => { $( op! {
        $(#[doc = $doc])+
        #[doc = ""]
        #[doc = "(C1) `type(lhs) = type(rhs) = type(result)`."]
        $Kind = $name(lhs: one($class), rhs: one($class)) -> (result: one($class))
            traits [Pure, Elementwise $(, $tr)*] stages Stages::Both, infer same_type;
    } )* };
}

unary! {
    /// The absolute value; the smallest signed integer is its own. Not for unsigned integers, which
    /// have no sign.
    Abs = "abs" on SIGNED;
    /// The least integer that is not below.
    Ceil = "ceil" on FLOAT;
    /// The number of leading zero bits.
    CountLeadingZeros = "count_leading_zeros" on INTEGER;
    /// The greatest integer that is not above.
    Floor = "floor" on FLOAT;
    /// The negated value; wraps for integers.
    Negate = "negate" on NUMBER;
    /// Every bit inverted; logical not for `i1`.
    Not = "not" on BITS;
    /// The number of one bits.
    Popcnt = "popcnt" on INTEGER;
    /// The nearest integer, ties away from zero.
    RoundNearestAfz = "round_nearest_afz" on FLOAT;
    /// The nearest integer, ties to even.
    RoundNearestEven = "round_nearest_even" on FLOAT;
    /// `1 / sqrt(x)`.
    Rsqrt = "rsqrt" on FLOAT;
    /// -1, 0 or 1; keeps NaN and the sign of zero. Not for unsigned integers, which have no sign.
    Sign = "sign" on SIGNED;
    /// The square root.
    Sqrt = "sqrt" on FLOAT;
}

binary! {
    /// The sum; wraps for integers.
    Add = "add" on NUMBER, Commutative, Associative;
    /// Bitwise and; logical and for `i1`.
    And = "and" on BITS, Commutative, Associative;
    /// The quotient; truncated for integers, `x / 0 = 0` there.
    Divide = "divide" on NUMBER;
    /// The greater; NaN if either is. Of zeros with different signs, either.
    Maximum = "maximum" on ANY, Commutative, Associative;
    /// The lesser; NaN if either is. Of zeros with different signs, either.
    Minimum = "minimum" on ANY, Commutative, Associative;
    /// The product; wraps for integers.
    Multiply = "multiply" on NUMBER, Commutative, Associative;
    /// The next representable value from `lhs` towards `rhs`. Not for f16 and bf16, which kernels
    /// compute in f32.
    NextAfter = "next_after" on WIDE;
    /// Bitwise or; logical or for `i1`.
    Or = "or" on BITS, Commutative, Associative;
    /// `lhs` to the power of `rhs`; for integers wrapping, and 0 for a negative `rhs` unless `lhs`
    /// is 1 or -1.
    Power = "power" on NUMBER;
    /// The remainder of the truncated quotient: the sign of `lhs`; `x rem 0 = x` for integers.
    Remainder = "remainder" on NUMBER;
    /// `lhs` shifted left by `rhs` bits.
    ShiftLeft = "shift_left" on INTEGER;
    /// `lhs` shifted right by `rhs` bits, filled with its sign.
    ShiftRightArithmetic = "shift_right_arithmetic" on INTEGER;
    /// `lhs` shifted right by `rhs` bits, filled with zeros.
    ShiftRightLogical = "shift_right_logical" on INTEGER;
    /// The difference; wraps for integers.
    Subtract = "subtract" on NUMBER;
    /// Bitwise exclusive or; logical for `i1`.
    Xor = "xor" on BITS, Commutative, Associative;
}

/// Ops of one operand that return a truth value.
macro_rules! predicate {
    ($( $(#[doc = $doc:literal])+ $Kind:ident = $name:literal; )*) => { $( op! {
        $(#[doc = $doc])+
        #[doc = ""]
        #[doc = "(C1) `shape(operand) = shape(result)`; the result has element type `i1`."]
        $Kind = $name(operand: one(FLOAT)) -> (result: one(BOOL)) traits [Pure, Elementwise] stages Stages::Both, infer truth_of;
    } )* };
}

predicate! {
    /// True if the value is neither infinite nor NaN.
    IsFinite = "is_finite";
    /// True if the value is an infinity.
    IsInf = "is_inf";
    /// True if the value is not a number.
    IsNan = "is_nan";
}

/// The relations of `compare`.
pub(crate) const DIRECTIONS: &[&str] = &["EQ", "NE", "LT", "LE", "GT", "GE"];

op! {
    /// Compares two tensors. Every relation with a NaN is false, except NE.
    ///
    /// (C1) `type(lhs) = type(rhs)`; the result has their shape and element type `i1`.
    Compare = "compare"(lhs: one(ANY), rhs: one(ANY)) { direction: required(AttrKind::Enum(DIRECTIONS)) } -> (result: one(BOOL))
        traits [Pure, Elementwise] stages Stages::Both, infer truth_of;
}

op! {
    /// Takes `on_true` where `pred` holds, else `on_false`.
    ///
    /// (C1) `type(on_true) = type(on_false) = type(result)`.
    /// (C2) `shape(pred) = shape(result)`.
    Select = "select"(pred: one(BOOL), on_true: one(ANY), on_false: one(ANY)) -> (result: one(ANY))
        traits [Pure, Elementwise] stages Stages::Both, infer select;
}

op! {
    /// `minimum(maximum(operand, min), max)`.
    ///
    /// (C1) `type(min) = type(operand) = type(max) = type(result)`.
    Clamp = "clamp"(min: one(NUMBER), operand: one(NUMBER), max: one(NUMBER)) -> (result: one(NUMBER))
        traits [Pure, Elementwise] stages Stages::Both, infer same_type;
}

op! {
    /// Converts to another element type. A float becomes an integer by truncation, saturated to the
    /// range, NaN becomes 0; an integer becomes a narrower one by wrapping; a number becomes `i1`
    /// by comparison with 0.
    ///
    /// (C1) `shape(operand) = shape(result)`; the result has element type `dtype`.
    Convert = "convert"(operand: one(ANY)) { dtype: required(AttrKind::DType) } -> (result: one(ANY))
        traits [Pure, Elementwise] stages Stages::Both, infer convert;
}

op! {
    /// The same bits as another element type. Not for i1, whose byte has only two valid values.
    ///
    /// (C1) `shape(operand) = shape(result)`; the result has element type `dtype`.
    /// (C2) Both element types have the same width.
    BitcastConvert = "bitcast_convert"(operand: one(NUMBER)) { dtype: required(AttrKind::DType) } -> (result: one(NUMBER))
        traits [Pure, Elementwise] stages Stages::Both, infer bitcast;
}

/// Checks (C1): all operands have one type, which the result has too.
pub(super) fn same_type(cx: &InferCx<'_>) -> Inferred {
    all_equal(cx)?;
    Ok(vec![cx.ty(0).clone()])
}

fn all_equal(cx: &InferCx<'_>) -> Result<(), crate::diag::Diagnostic> {
    (1..cx.operands.len()).try_for_each(|i| cx.equal_types(1, (cx.operand_name(0), cx.ty(0)), (cx.operand_name(i), cx.ty(i))))
}

fn truth_of(cx: &InferCx<'_>) -> Inferred {
    all_equal(cx)?;
    Ok(vec![cx.ty(0).with_dtype(DType::I1)])
}

fn select(cx: &InferCx<'_>) -> Inferred {
    cx.equal_types(1, ("on_true", cx.ty(1)), ("on_false", cx.ty(2)))?;
    let wanted = cx.ty(1).with_dtype(DType::I1);
    cx.equal_types(2, ("pred", cx.ty(0)), ("shape of the result as i1", &wanted))?;
    Ok(vec![cx.ty(1).clone()])
}

fn convert(cx: &InferCx<'_>) -> Inferred {
    let dtype = cx.dtype("dtype").unwrap_or(cx.ty(0).dtype());
    Ok(vec![cx.ty(0).with_dtype(dtype)])
}

fn bitcast(cx: &InferCx<'_>) -> Inferred {
    let from: &Type = cx.ty(0);
    let dtype = cx.dtype("dtype").unwrap_or(from.dtype());
    if from.dtype().size() != dtype.size() {
        let message = format!("{} has {} bits, {dtype} has {}", from.dtype(), from.dtype().bits(), dtype.bits());
        return Err(cx.error(Code::E0204, 2, message));
    }
    Ok(vec![from.with_dtype(dtype)])
}
