//! Comparisons that are decided.
use super::arithmetic::operands;
use crate::{
    query::Query,
    rewrite::{Rewriter, Rule, rule},
};
use disc_ir::{DType, Dim, Inst, Literal, OpKind, Value};

pub(super) const RULES: &[Rule] = &[
    rule("compare-self", "x == x => true, x < x => false, .. of integers", OpKind::Compare, compare_self),
    rule("compare-dims", "m < n => true or false, of dims, where the facts decide it", OpKind::Compare, compare_dims),
    rule("compare-truth", "p == true => p; p != false => p; p != true => !p; p == false => !p", OpKind::Compare, compare_truth),
];

/// Not floats: NaN differs from itself.
fn compare_self(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [a, b] = operands(rw, inst);
    if a != b || rw.f.ty(a).dtype().is_float() {
        return None;
    }
    let holds = matches!(rw.f.word(inst, "direction"), "EQ" | "LE" | "GE");
    rw.constant(a, Literal::splat_i64(DType::I1, i64::from(holds)))
}

fn compare_dims(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [a, b] = operands(rw, inst);
    let (x, y) = (rw.f.as_dim(a)?, rw.f.as_dim(b)?);
    let less = |x: &Dim, y: &Dim| rw.solver.less_equal(x, &(y - 1));
    let at_most = |x: &Dim, y: &Dim| rw.solver.less_equal(x, y);
    let (equal, unequal) = (rw.solver.equal(&x, &y), less(&x, &y) || less(&y, &x));
    let (holds, fails) = match rw.f.word(inst, "direction") {
        "EQ" => (equal, unequal),
        "NE" => (unequal, equal),
        "LT" => (less(&x, &y), at_most(&y, &x)),
        "LE" => (at_most(&x, &y), less(&y, &x)),
        "GT" => (less(&y, &x), at_most(&x, &y)),
        "GE" => (at_most(&y, &x), less(&x, &y)),
        _ => return None,
    };
    (holds || fails).then(|| rw.constant(a, Literal::splat_i64(DType::I1, i64::from(holds)))).flatten()
}

fn compare_truth(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [p, c] = operands(rw, inst);
    let literal = rw.f.splat(c)?;
    if literal.dtype != DType::I1 {
        return None;
    }
    match (rw.f.word(inst, "direction"), literal.i64_at(0) != 0) {
        ("EQ", true) | ("NE", false) => Some(p),
        ("EQ", false) | ("NE", true) => rw.emit(OpKind::Not, &[p]),
        _ => None,
    }
}
