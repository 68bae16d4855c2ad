//! Recognises plain reductions: those whose body is one commutative and associative op.
use super::KernelBuilder;
use disc_ir::{DType, Function, Inst, Literal, OpKind, Value, literal::encode_i64};
use disc_kernel_macros::expr;

/// A commutative, associative op with an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Monoid {
    Add,
    Multiply,
    Maximum,
    Minimum,
    And,
    Or,
}

/// The monoid of a reduction's body, if it is one.
pub fn monoid_of(function: &Function, inst: Inst) -> Option<Monoid> {
    let body = *function.inst(inst).regions.first()?;
    let [op, end] = function.insts(body) else { return None };
    let arguments = function.arguments(body);
    let operands = function.operands(*op);
    let straight = operands == arguments
        || (arguments.len() == 2 && operands.len() == 2 && operands[0] == arguments[1] && operands[1] == arguments[0]);
    if !straight || function.operands(*end) != function.results_of(*op) {
        return None;
    }
    match function.kind_of(*op) {
        OpKind::Add => Some(Monoid::Add),
        OpKind::Multiply => Some(Monoid::Multiply),
        OpKind::Maximum => Some(Monoid::Maximum),
        OpKind::Minimum => Some(Monoid::Minimum),
        OpKind::And => Some(Monoid::And),
        OpKind::Or => Some(Monoid::Or),
        _ => None,
    }
}

impl Monoid {
    pub fn op(self) -> OpKind {
        match self {
            Monoid::Add => OpKind::Add,
            Monoid::Multiply => OpKind::Multiply,
            Monoid::Maximum => OpKind::Maximum,
            Monoid::Minimum => OpKind::Minimum,
            Monoid::And => OpKind::And,
            Monoid::Or => OpKind::Or,
        }
    }

    /// Returns true if the op rounds on floats, so that the order matters.
    pub fn rounds(self) -> bool {
        matches!(self, Monoid::Add | Monoid::Multiply)
    }

    /// The attribute word of the op that combines lanes.
    pub fn lane_reducer(self) -> &'static str {
        self.op().name()
    }

    pub fn apply(self, kb: &mut KernelBuilder, a: Value, b: Value) -> Value {
        kb.map(self.op(), &[a, b])
    }

    /// The identity value of the op.
    pub fn identity(self, kb: &mut KernelBuilder, dtype: DType, lanes: u32) -> Value {
        let literal = match (self, dtype) {
            // The identity is minus zero: it preserves even minus zero.
            (Monoid::Add, _) if dtype.is_float() => Literal::splat_f64(dtype, -0.0),
            (Monoid::Add | Monoid::Or, _) => Literal::splat_i64(dtype, 0),
            (Monoid::Multiply, _) => Literal::splat_i64(dtype, 1),
            (Monoid::And, DType::I1) => Literal::splat_i64(dtype, 1),
            (Monoid::And, _) => Literal::splat_i64(dtype, -1),
            (Monoid::Maximum, _) if dtype.is_float() => Literal::splat_f64(dtype, f64::NEG_INFINITY),
            (Monoid::Minimum, _) if dtype.is_float() => Literal::splat_f64(dtype, f64::INFINITY),
            (Monoid::Maximum, _) => Literal::splat(dtype, &extreme(dtype, false)),
            (Monoid::Minimum, _) => Literal::splat(dtype, &extreme(dtype, true)),
        };
        kb.constant(literal, lanes)
    }
}

/// Returns a rounded sum and its rounding error (Knuth's two-sum).
pub fn two_sum(kb: &mut KernelBuilder, a: Value, b: Value) -> (Value, Value) {
    let sum = expr!(kb, a + b);
    let of_b = expr!(kb, sum - a);
    let (a, b) = (expr!(kb, a - (sum - of_b)), expr!(kb, b - of_b));
    (sum, expr!(kb, a + b))
}

/// Adds the rounding errors `lost` to a total. They are NaN if the total is infinite or NaN, and
/// are then left out; zero keeps the sign of a zero total.
pub fn with_lost(kb: &mut KernelBuilder, total: Value, lost: Value) -> Value {
    let (size, zero) = (kb.emit(OpKind::Abs, &[lost]), kb.zero(kb.dtype(lost), kb.lanes(lost)));
    expr!(kb, select(size > zero, total + lost, total))
}

/// The bytes of the greatest or least value of an integer type.
fn extreme(dtype: DType, greatest: bool) -> Vec<u8> {
    match (dtype, greatest) {
        (DType::I1, _) => vec![u8::from(greatest)],
        (_, true) if dtype.is_unsigned_integer() => encode_i64(dtype, -1),
        (_, false) if dtype.is_unsigned_integer() => encode_i64(dtype, 0),
        (_, true) => encode_i64(dtype, i64::MAX >> (64 - dtype.bits())),
        (_, false) => encode_i64(dtype, i64::MIN >> (64 - dtype.bits())),
    }
}
