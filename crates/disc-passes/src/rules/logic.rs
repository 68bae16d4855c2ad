//! Identities of booleans, bits and selections.
use super::arithmetic::{constant_right, idempotent, involution, neutral, operands};
use crate::{
    analysis::query::Query,
    rules::rewrite::{Rewriter, Rule, rule},
};
use disc_ir::{Inst, Literal, OpKind, Value};

pub(super) const RULES: &[Rule] = &[
    rule("constant-right-and", "c & x => x & c", OpKind::And, constant_right),
    rule("constant-right-or", "c | x => x | c", OpKind::Or, constant_right),
    rule("constant-right-xor", "c ^ x => x ^ c", OpKind::Xor, constant_right),
    rule("and-ones", "x & 11..1 => x", OpKind::And, neutral_right),
    rule("and-zero", "x & 0 => 0", OpKind::And, absorbing_right),
    rule("and-self", "x & x => x", OpKind::And, idempotent),
    rule("or-zero", "x | 0 => x", OpKind::Or, neutral_right),
    rule("or-ones", "x | 11..1 => 11..1", OpKind::Or, absorbing_right),
    rule("or-self", "x | x => x", OpKind::Or, idempotent),
    rule("xor-zero", "x ^ 0 => x", OpKind::Xor, neutral_right),
    rule("not-not", "!!x => x", OpKind::Not, involution),
    rule("select-constant", "select(true, a, b) => a", OpKind::Select, select_constant),
    rule("select-equal", "select(p, a, a) => a", OpKind::Select, select_equal),
    rule("select-not", "select(!p, a, b) => select(p, b, a)", OpKind::Select, select_not),
    rule(
        "clamp-one-sided",
        "clamp(lowest, x, c) => min(x, c); clamp(c, x, greatest) => max(x, c)",
        OpKind::Clamp,
        clamp_one_sided,
    ),
];

fn neutral_right(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x, c] = operands(rw, inst);
    let literal = rw.f.splat(c)?;
    (literal.bytes == neutral(rw.f.kind_of(inst), literal.dtype)?.bytes).then_some(x)
}

/// The neutral element of `and` absorbs in `or`, and vice versa.
fn absorbing_right(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [_, c] = operands(rw, inst);
    let literal = rw.f.splat(c)?;
    let other = if rw.f.kind_of(inst) == OpKind::And { OpKind::Or } else { OpKind::And };
    (literal.bytes == neutral(other, literal.dtype)?.bytes).then_some(c)
}

fn select_constant(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [pred, on_true, on_false] = operands(rw, inst);
    let holds = rw.f.splat(pred)?.i64_at(0) != 0;
    Some(if holds { on_true } else { on_false })
}

fn select_equal(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [_, on_true, on_false] = operands(rw, inst);
    (on_true == on_false).then_some(on_true)
}

fn select_not(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [pred, on_true, on_false] = operands(rw, inst);
    let not = rw.f.made_by(pred, OpKind::Not)?;
    let pred = rw.f.operands(not)[0];
    rw.emit(OpKind::Select, &[pred, on_false, on_true])
}

fn clamp_one_sided(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [min, x, max] = operands(rw, inst);
    let is_open = |kind, value| {
        let literal: &Literal = rw.f.splat(value)?;
        Some(literal.bytes == neutral(kind, literal.dtype)?.bytes)
    };
    if is_open(OpKind::Maximum, min) == Some(true) {
        return rw.emit(OpKind::Minimum, &[x, max]);
    }
    (is_open(OpKind::Minimum, max) == Some(true)).then(|| rw.emit(OpKind::Maximum, &[x, min])).flatten()
}
