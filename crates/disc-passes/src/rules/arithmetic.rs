//! Identities of arithmetic.
//!
//! Floats have two zeros, infinities and NaN, so fewer identities hold than in algebra: `x + 0.0`
//! is not `x` for `x = -0.0` (but `x + -0.0` is); `x * 0` and `x - x` are not 0 for infinities.
use crate::{
    analysis::query::Query,
    rules::rewrite::{Rewriter, Rule, rule},
};
use disc_ir::{DType, Inst, Literal, OpKind, Value, ops::Trait};

pub(super) const RULES: &[Rule] = &[
    rule("constant-right-add", "c + x => x + c", OpKind::Add, constant_right),
    rule("constant-right-multiply", "c * x => x * c", OpKind::Multiply, constant_right),
    rule("constant-right-maximum", "max(c, x) => max(x, c), c not 0.0", OpKind::Maximum, extremum_right),
    rule("constant-right-minimum", "min(c, x) => min(x, c), c not 0.0", OpKind::Minimum, extremum_right),
    rule("add-zero", "x + 0 => x; x + -0.0 => x", OpKind::Add, add_zero),
    rule("subtract-zero", "x - 0 => x; x - 0.0 => x", OpKind::Subtract, subtract_zero),
    rule("subtract-self", "x - x => 0 of integers", OpKind::Subtract, subtract_self),
    rule("add-negated", "x + -y => x - y", OpKind::Add, add_negated),
    rule("subtract-negated", "x - -y => x + y", OpKind::Subtract, subtract_negated),
    rule("multiply-one", "x * 1 => x", OpKind::Multiply, multiply_one),
    rule("multiply-zero", "x * 0 => 0 of integers", OpKind::Multiply, multiply_zero),
    rule("multiply-minus-one", "x * -1 => -x", OpKind::Multiply, multiply_minus_one),
    rule("add-chain", "(x + a) + b => x + (a + b) of integers", OpKind::Add, chain),
    rule(
        "multiply-chain",
        "(x * a) * b => x * (a * b) of integers, and of floats by powers of two >= 1",
        OpKind::Multiply,
        chain,
    ),
    rule("divide-one", "x / 1 => x", OpKind::Divide, multiply_one),
    rule("divide-power-of-two", "x / c => x * (1 / c) of floats, c a power of two", OpKind::Divide, divide_power_of_two),
    rule("negate-negate", "--x => x", OpKind::Negate, involution),
    rule("abs-abs", "abs(abs(x)) => abs(x); abs(-x) => abs(x) of floats", OpKind::Abs, abs_abs),
    rule("maximum-self", "max(x, x) => x", OpKind::Maximum, idempotent),
    rule("minimum-self", "min(x, x) => x", OpKind::Minimum, idempotent),
    rule("maximum-lowest", "max(x, lowest) => x", OpKind::Maximum, extremum_neutral),
    rule("minimum-greatest", "min(x, greatest) => x", OpKind::Minimum, extremum_neutral),
    rule(
        "power-constant",
        "x^0 => 1; x^1 => x; x^2 => x*x; x^3 => x*x*x, not of f16 and bf16; x^-1 => 1/x of floats",
        OpKind::Power,
        power_constant,
    ),
];

/// Returns true if a literal is this float, including the sign of zero.
pub(super) fn is_float(literal: &Literal, value: f64) -> bool {
    literal.dtype.is_float() && literal.f64_at(0).to_bits() == value.to_bits()
}

fn is_int(literal: &Literal, value: i64) -> bool {
    literal.dtype.is_integer() && literal.i64_at(0) == value
}

fn is_number(literal: &Literal, value: i64) -> bool {
    is_float(literal, value as f64) || is_int(literal, value)
}

pub(super) fn operands<const N: usize>(rw: &Rewriter<'_>, inst: Inst) -> [Value; N] {
    std::array::from_fn(|i| rw.f.operands(inst)[i])
}

pub(super) fn constant_right(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [a, b] = operands(rw, inst);
    let swap = rw.f.splat(a).is_some() && rw.f.splat(b).is_none();
    let kind = rw.f.kind_of(inst);
    swap.then(|| rw.emit(kind, &[b, a])).flatten()
}

/// Of two zeros, a maximum is the left one.
fn extremum_right(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [a, _] = operands(rw, inst);
    let constant = rw.f.splat(a)?;
    let decides = constant.dtype.is_float() && constant.f64_at(0) == 0.0;
    if decides { None } else { constant_right(rw, inst) }
}

fn add_zero(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x, c] = operands(rw, inst);
    let zero = rw.f.splat(c)?;
    (is_int(zero, 0) || is_float(zero, -0.0)).then_some(x)
}

/// `-0.0 - 0.0` is -0.0, while `-0.0 - -0.0` is 0.0.
fn subtract_zero(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x, c] = operands(rw, inst);
    is_number(rw.f.splat(c)?, 0).then_some(x)
}

fn subtract_self(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [a, b] = operands(rw, inst);
    let dtype = rw.f.ty(a).dtype();
    (a == b && dtype.is_integer()).then(|| rw.constant(a, Literal::splat_i64(dtype, 0))).flatten()
}

fn negated(rw: &Rewriter<'_>, value: Value) -> Option<Value> {
    rw.f.made_by(value, OpKind::Negate).map(|inst| rw.f.operands(inst)[0])
}

fn add_negated(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [a, b] = operands(rw, inst);
    match (negated(rw, a), negated(rw, b)) {
        (_, Some(y)) => rw.emit(OpKind::Subtract, &[a, y]),
        (Some(x), None) => rw.emit(OpKind::Subtract, &[b, x]),
        (None, None) => None,
    }
}

fn subtract_negated(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [a, b] = operands(rw, inst);
    let y = negated(rw, b)?;
    rw.emit(OpKind::Add, &[a, y])
}

fn multiply_one(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x, c] = operands(rw, inst);
    is_number(rw.f.splat(c)?, 1).then_some(x)
}

fn multiply_zero(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [_, c] = operands(rw, inst);
    is_int(rw.f.splat(c)?, 0).then_some(c)
}

fn multiply_minus_one(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x, c] = operands(rw, inst);
    let literal = rw.f.splat(c)?;
    let wraps = literal.dtype.is_unsigned_integer();
    (!wraps && is_number(literal, -1)).then(|| rw.emit(OpKind::Negate, &[x])).flatten()
}

/// Returns true if the value is `2^k` or `-2^k`.
fn is_power_of_two(value: f64) -> bool {
    value.is_normal() && value.to_bits() & ((1 << 52) - 1) == 0
}

/// Integers wrap, so any grouping gives the same result. Floats round at each step, except for
/// powers of two: scaling up is exact until it overflows, and then it does in either grouping.
/// (Scaling down is not: below the normal numbers, each step rounds.)
fn chain(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [inner, b] = operands(rw, inst);
    let kind = rw.f.kind_of(inst);
    let [x, a] = operands(rw, rw.f.made_by(inner, kind)?);
    let (a, b) = (rw.f.splat(a)?, rw.f.splat(b)?);
    let dtype = a.dtype;
    let combined = match (kind, dtype.is_integer()) {
        (OpKind::Add, true) => Literal::splat_i64(dtype, a.i64_at(0).wrapping_add(b.i64_at(0))),
        (OpKind::Multiply, true) => Literal::splat_i64(dtype, a.i64_at(0).wrapping_mul(b.i64_at(0))),
        (OpKind::Multiply, false) => {
            let scales_up = |literal: &Literal| is_power_of_two(literal.f64_at(0)) && literal.f64_at(0).abs() >= 1.0;
            let product = a.f64_at(0) * b.f64_at(0);
            let literal = Literal::splat_f64(dtype, product);
            (scales_up(a) && scales_up(b) && literal.f64_at(0) == product).then_some(literal)?
        }
        _ => return None,
    };
    let c = rw.constant(inner, combined)?;
    rw.emit(kind, &[x, c])
}

/// Both sides round the same real number, if `1 / c` is a normal number too.
fn divide_power_of_two(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x, c] = operands(rw, inst);
    let literal = rw.f.splat(c)?;
    let (dtype, value) = (literal.dtype, literal.f64_at(0));
    let inverse = Literal::splat_f64(dtype, 1.0 / value);
    let exact = dtype.is_float() && is_power_of_two(value) && value.abs() != 1.0;
    if !exact || inverse.f64_at(0) != 1.0 / value || inverse.f64_at(0).abs() < smallest_normal(dtype) {
        return None;
    }
    let inverse = rw.constant(c, inverse)?;
    rw.emit(OpKind::Multiply, &[x, inverse])
}

fn smallest_normal(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-14),
        DType::F64 => f64::MIN_POSITIVE,
        _ => f64::from(f32::MIN_POSITIVE),
    }
}

/// An op that is its own inverse.
pub(super) fn involution(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x] = operands(rw, inst);
    let inner = rw.f.made_by(x, rw.f.kind_of(inst))?;
    Some(rw.f.operands(inner)[0])
}

/// Holds for integers too: the absolute value of the smallest one is itself, on either side. Floats
/// only clear a bit.
fn abs_abs(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x] = operands(rw, inst);
    if rw.f.made_by(x, OpKind::Abs).is_some() {
        return Some(x);
    }
    let y = negated(rw, x)?;
    rw.emit(OpKind::Abs, &[y])
}

/// NaN propagates, and equal operands give themselves.
pub(super) fn idempotent(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [a, b] = operands(rw, inst);
    (a == b).then_some(a)
}

/// NaN propagates from `x`, so the infinity on the neutral side never is the result in its place.
fn extremum_neutral(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x, c] = operands(rw, inst);
    let literal = rw.f.splat(c)?;
    let neutral = neutral(rw.f.kind_of(inst), literal.dtype)?;
    (literal.bytes == neutral.bytes).then_some(x)
}

/// The neutral element of a binary op.
pub(super) fn neutral(kind: OpKind, dtype: DType) -> Option<Literal> {
    debug_assert!(kind.def().has(Trait::Commutative));
    let bits = dtype.bits();
    Some(match (kind, dtype) {
        (OpKind::Add, _) if dtype.is_float() => Literal::splat_f64(dtype, -0.0),
        (OpKind::Add | OpKind::Or | OpKind::Xor, _) => Literal::splat_i64(dtype, 0),
        (OpKind::Multiply, _) => Literal::splat_i64(dtype, 1),
        (OpKind::And, DType::I1) => Literal::splat_i64(dtype, 1),
        (OpKind::And, _) => Literal::splat_i64(dtype, -1),
        (OpKind::Maximum, _) if dtype.is_float() => Literal::splat_f64(dtype, f64::NEG_INFINITY),
        (OpKind::Minimum, _) if dtype.is_float() => Literal::splat_f64(dtype, f64::INFINITY),
        (OpKind::Maximum, _) if dtype.is_signed_integer() => Literal::splat_i64(dtype, i64::MIN >> (64 - bits)),
        (OpKind::Minimum, _) if dtype.is_signed_integer() => Literal::splat_i64(dtype, i64::MAX >> (64 - bits)),
        (OpKind::Maximum, _) => Literal::splat_i64(dtype, 0),
        (OpKind::Minimum, DType::I1) => Literal::splat_i64(dtype, 1),
        (OpKind::Minimum, _) => Literal::splat_i64(dtype, -1),
        _ => return None,
    })
}

/// 0 and 1 are exact (`NaN^0` is 1), 2 and 3 round at most as much as `power` may, -1 is one
/// division. Not 0.5: `power(-0.0, 0.5)` is 0.0 and `power(-inf, 0.5)` is inf, the square roots are
/// -0.0 and NaN. Not -2: `x*x` overflows where the result is still a number.
fn power_constant(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x, c] = operands(rw, inst);
    let literal = rw.f.splat(c)?;
    let dtype = literal.dtype;
    let exponent = [-1, 0, 1, 2, 3].into_iter().find(|&e| is_number(literal, e))?;
    match exponent {
        0 => rw.constant(x, Literal::splat_i64(dtype, 1)),
        1 => Some(x),
        -1 if dtype.is_float() => {
            let one = rw.constant(x, Literal::splat_i64(dtype, 1))?;
            rw.emit(OpKind::Divide, &[one, x])
        }
        -1 => None,
        // The square would be rounded.
        3 if matches!(dtype, DType::F16 | DType::BF16) => None,
        _ => {
            let square = rw.emit(OpKind::Multiply, &[x, x])?;
            if exponent == 2 { Some(square) } else { rw.emit(OpKind::Multiply, &[square, x]) }
        }
    }
}
