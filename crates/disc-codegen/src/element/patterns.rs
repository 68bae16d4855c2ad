//! Emits cheaper code for compositions that are recognised by their structure.
//!
//! - `y / sum(exp(x - max(x)))`: the divisor is at least 1, so that its reciprocal is exact enough,
//!   and computed once a row.
//! - `x * 0.5 * (1 + erf(x / sqrt 2))` is one function.
//! - `exp(x - max(x))`, whose operand is not above 0.
//! - `sum(exp(x - max(x)))`, if the powers have no other reader: the sum is at least 1, which
//!   denormal ones do not change.
//! - `arange(n) // 4` and `arange(n) % 4`: [`super::repeat`].
//! - `tanh(log1p(exp x))`, the factor of mish, is `m / (m + 2)` with `m = n (n + 2)`, `n = exp x`:
//!   `tanh(log t) = (t^2 - 1) / (t^2 + 1)`.
//!
//! Invariant: a pattern is a proof, for all values and sizes; a composition that is not recognised
//! is computed as written. One that skips roundings of its parts is of f32 or f64.
use super::Elements;
use crate::{
    kernel::{
        Index, KernelBuilder, compute_dtype, expand_math,
        monoid::{Monoid, monoid_of},
    },
    math::MathFn,
};
use disc_ir::{Attr, DType, Function, Inst, OpKind, Value};
use disc_kernel_macros::expr;
use disc_passes::analysis::query::Query;
use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};

impl Elements<'_> {
    /// Computes an op that starts a pattern; returns `None` if there is none.
    pub(super) fn pattern(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Option<Value> {
        let operands = self.group.operands(inst);
        match self.group.kind_of(inst) {
            OpKind::Divide if is_wide(self.group, operands[0]) && is_softmax_sum(self.group, operands[1]) => {
                let (x, sum) = (self.element(kb, operands[0], at), self.element(kb, operands[1], at));
                let one = kb.float(kb.dtype(sum), 1.0, 1);
                let reciprocal = expr!(kb, one / sum);
                Some(expr!(kb, x * reciprocal))
            }
            OpKind::Divide | OpKind::Remainder => self.counted_quotient(kb, inst, at),
            OpKind::Multiply => {
                let x = gelu_operand(self.group, inst)?;
                let x = self.element(kb, x, at);
                expand_math::function(kb, MathFn::GeluErf, &[x], self.arithmetic)
            }
            OpKind::Exponential => {
                let function = power_of_distance(self.group, inst)?;
                let x = self.element(kb, operands[0], at);
                expand_math::function(kb, function, &[x], self.arithmetic)
            }
            OpKind::Tanh => {
                let x = softplus_operand(self.group, operands[0])?;
                let x = self.element(kb, x, at);
                self.tanh_of_softplus(kb, x)
            }
            _ => None,
        }
    }

    fn tanh_of_softplus(&mut self, kb: &mut KernelBuilder, x: Value) -> Option<Value> {
        // From here on the result is 1, in f64 too; NaN is kept.
        let dtype = kb.dtype(x);
        let (most, two) = (kb.float(dtype, 20.0, 1), kb.float(dtype, 2.0, 1));
        let x = expr!(kb, select(most < x, most, x));
        let n = expand_math::function(kb, MathFn::Exp, &[x], self.arithmetic)?;
        let m = expr!(kb, n * (n + two));
        let bottom = expr!(kb, m + two);
        Some(expr!(kb, m / bottom))
    }
}

/// Returns `x` if `value` is `log1p(exp x)`.
fn softplus_operand(group: &Function, value: Value) -> Option<Value> {
    let power = made_by(group, value, OpKind::LogPlusOne)?[0];
    let x = made_by(group, power, OpKind::Exponential)?[0];
    is_wide(group, x).then_some(x)
}

/// Returns true if values of the type are not rounded between two ops: they are computed in it.
fn is_wide(group: &Function, value: Value) -> bool {
    matches!(group.ty(value).dtype(), DType::F32 | DType::F64)
}

fn made_by(group: &Function, value: Value, kind: OpKind) -> Option<&[Value]> {
    group.defining(value).filter(|&inst| group.kind_of(inst) == kind).map(|inst| group.operands(inst))
}

/// The operand of which `value` is a reduction by `monoid`, broadcast along the very dimensions
/// that were reduced.
fn row_total(group: &Function, value: Value, monoid: Monoid) -> Option<Value> {
    let repeat = group.defining(value).filter(|&inst| group.kind_of(inst) == OpKind::BroadcastInDim)?;
    let reduce = group.defining(group.operands(repeat)[0]).filter(|&inst| group.kind_of(inst) == OpKind::Reduce)?;
    let &[x, _] = group.operands(reduce) else { return None };
    let reduced = group.axes(reduce, "dims");
    let mut kept = (0..group.ty(x).shaped()?.rank()).filter(|d| !reduced.contains(d));
    let in_place = group.axes(repeat, "dims").into_iter().eq(kept.by_ref());
    let same_shape = group.ty(x).shaped()?.dims == group.ty(value).shaped()?.dims;
    (in_place && same_shape && monoid_of(group, reduce) == Some(monoid)).then_some(x)
}

/// Returns true if a value is `x - max(x)`, where the maximum is over `x` itself, among others.
fn is_distance_to_maximum(group: &Function, value: Value) -> bool {
    match made_by(group, value, OpKind::Subtract) {
        Some(&[x, top]) => row_total(group, top, Monoid::Maximum) == Some(x),
        _ => false,
    }
}

/// Returns true if a value is `sum(exp(x - max(x)))`: at least 1, unless it is NaN, if there is an
/// element at all.
fn is_softmax_sum(group: &Function, value: Value) -> bool {
    let Some(powers) = row_total(group, value, Monoid::Add) else { return false };
    // The maximum has to be over the same dimensions as the sum, so that each sum has an element
    // that is 1.
    let dims = |v: Value| {
        let repeat = group.defining(v)?;
        Some(group.axes(group.defining(group.operands(repeat)[0])?, "dims"))
    };
    match made_by(group, powers, OpKind::Exponential) {
        Some(&[x]) if is_distance_to_maximum(group, x) => match made_by(group, x, OpKind::Subtract) {
            Some(&[_, top]) => dims(top) == dims(value),
            _ => false,
        },
        _ => false,
    }
}

/// The function for an exponential of `x - max(x)`.
fn power_of_distance(group: &Function, inst: Inst) -> Option<MathFn> {
    let x = group.operands(inst)[0];
    let dtype = group.ty(x).dtype();
    match () {
        () if !is_distance_to_maximum(group, x) || !matches!(compute_dtype(dtype), DType::F32 | DType::F64) => None,
        () if is_summed_alone(group, inst) => Some(MathFn::SoftmaxExp),
        () => Some(MathFn::ExpNonpositive),
    }
}

/// Returns true if the only readers of `exp(x - max(x))` are sums over the dimensions of the
/// maximum.
fn is_summed_alone(group: &Function, inst: Inst) -> bool {
    let (x, powers) = (group.operands(inst)[0], group.result(inst));
    let top = made_by(group, x, OpKind::Subtract).and_then(|operands| made_by(group, operands[1], OpKind::BroadcastInDim));
    let Some(maximum) = top.and_then(|operands| group.defining(operands[0])) else { return false };
    let mut users = group.walk(group.body).into_iter().filter(|&user| group.operands(user).contains(&powers));
    users.all(|user| {
        let sums = group.kind_of(user) == OpKind::Reduce && monoid_of(group, user) == Some(Monoid::Add);
        sums && group.operands(user).len() == 2 && group.axes(user, "dims") == group.axes(maximum, "dims")
    })
}

/// The splat float of a constant value.
fn constant(group: &Function, value: Value) -> Option<f64> {
    let inst = group.defining(value)?;
    match (group.kind_of(inst), group.inst(inst).attrs.first()) {
        (OpKind::Constant, Some(Some(Attr::Literal(literal)))) if literal.dtype.is_float() && literal.stored_len() == 1 => {
            Some(literal.f64_at(0))
        }
        (OpKind::BroadcastInDim, _) => constant(group, group.operands(inst)[0]),
        _ => None,
    }
}

/// The factors of a product, products among them taken apart to this depth; constants are
/// multiplied.
fn factors(group: &Function, value: Value, depth: usize, others: &mut Vec<Value>) -> f64 {
    if let Some(value) = constant(group, value) {
        return value;
    }
    match made_by(group, value, OpKind::Multiply) {
        Some(&[a, b]) if depth > 0 => factors(group, a, depth - 1, others) * factors(group, b, depth - 1, others),
        _ => {
            others.push(value);
            1.0
        }
    }
}

/// Returns `x` if `inst` computes `x * 0.5 * (1 + erf(x / sqrt 2))`, in any order of the factors.
fn gelu_operand(group: &Function, inst: Inst) -> Option<Value> {
    if !is_wide(group, group.result(inst)) {
        return None;
    }
    let mut others = Vec::new();
    let scale = factors(group, group.result(inst), 2, &mut others);
    let &[a, b] = &others[..] else { return None };
    let argument = |sum: Value| {
        let &[x, y] = made_by(group, sum, OpKind::Add)? else { return None };
        let erf = if constant(group, y) == Some(1.0) {
            x
        } else if constant(group, x) == Some(1.0) {
            y
        } else {
            return None;
        };
        made_by(group, erf, OpKind::Erf).map(|operands| operands[0])
    };
    let (x, scaled) = match (argument(a), argument(b)) {
        (None, Some(scaled)) => (a, scaled),
        (Some(scaled), None) => (b, scaled),
        _ => return None,
    };
    let near = |found: f64, wanted: f64| (found - wanted).abs() <= 1e-6 * wanted;
    let by_root = match (made_by(group, scaled, OpKind::Multiply), made_by(group, scaled, OpKind::Divide)) {
        (Some(&[p, q]), _) if p == x => near(constant(group, q)?, FRAC_1_SQRT_2),
        (Some(&[p, q]), _) if q == x => near(constant(group, p)?, FRAC_1_SQRT_2),
        (_, Some(&[p, q])) if p == x => near(constant(group, q)?, SQRT_2),
        _ => false,
    };
    (by_root && scale == 0.5).then_some(x)
}
