//! Comparisons whose result is known.
use super::arithmetic::operands;
use crate::{
    analysis::query::Query,
    rules::rewrite::{Rewriter, Rule, rule},
};
use disc_ir::{DType, Dim, Inst, Literal, OpKind, Value};

pub(super) const RULES: &[Rule] = &[
    rule("compare-self", "x == x => true, x < x => false, .. of integers", OpKind::Compare, compare_self),
    rule("compare-dims", "m < n => true or false, of dims, where the facts decide it", OpKind::Compare, compare_dims),
    rule(
        "compare-positions",
        "iota >= 0 => true, iota < size => true, .. where the facts decide it",
        OpKind::Compare,
        compare_positions,
    ),
    rule("compare-truth", "p == true => p; p != false => p; p != true => !p; p == false => !p", OpKind::Compare, compare_truth),
];

/// Not for floats: NaN differs from itself.
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
    decide(rw, inst, [&x, &x], [&y, &y])
}

/// Masks compare positions with bounds that these never cross.
fn compare_positions(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [a, b] = operands(rw, inst);
    if rw.f.ty(a).dtype() != DType::I64 {
        return None;
    }
    let ([x, y], [z, w]) = (bounds(rw, a, MAX_DEPTH)?, bounds(rw, b, MAX_DEPTH)?);
    decide(rw, inst, [&x, &y], [&z, &w])
}

/// The depth to which `bounds` follows operands.
const MAX_DEPTH: usize = 8;

/// The least and the largest element of an `i64` tensor of positions, sizes and constants that
/// cannot overflow. Any bounds hold for an empty tensor.
fn bounds(rw: &Rewriter<'_>, value: Value, depth: usize) -> Option<[Dim; 2]> {
    let constant = rw.f.splat(value).map(|literal| Dim::constant(literal.i64_at(0)));
    if let Some(dim) = constant.or_else(|| rw.f.as_dim(value)) {
        return dim.as_const().is_none_or(|c| i32::try_from(c).is_ok()).then(|| [dim.clone(), dim]);
    }
    let inst = rw.f.defining(value).filter(|_| depth > 0)?;
    let of = |i: usize| bounds(rw, rw.f.operands(inst)[i], depth - 1);
    match rw.f.kind_of(inst) {
        OpKind::Iota => {
            let axis = usize::try_from(rw.f.int(inst, "dim")).ok()?;
            Some([Dim::constant(0), rw.f.shape(value).get(axis)? - 1])
        }
        OpKind::BroadcastInDim | OpKind::Reshape | OpKind::Transpose | OpKind::Slice | OpKind::Reverse => of(0),
        OpKind::Add => {
            let ([a, b], [c, d]) = (of(0)?, of(1)?);
            Some([&a + &c, &b + &d])
        }
        OpKind::Subtract => {
            let ([a, b], [c, d]) = (of(0)?, of(1)?);
            Some([&a - &d, &b - &c])
        }
        // Division truncates, so it rounds non-negative values down.
        OpKind::Divide | OpKind::Remainder => {
            let ([least, most], by) = (of(0)?, rw.f.splat(rw.f.operands(inst)[1])?.i64_at(0));
            let by = (by > 0 && rw.solver.less_equal(&Dim::constant(0), &least)).then(|| Dim::constant(by))?;
            match rw.f.kind_of(inst) {
                OpKind::Divide => Some([least.floor_div(&by), most.floor_div(&by)]),
                _ => Some([Dim::constant(0), by - 1]),
            }
        }
        _ => None,
    }
}

/// Compares a value within `[x, y]` with one within `[z, w]`, if the bounds decide the result.
fn decide(rw: &mut Rewriter<'_>, inst: Inst, [x, y]: [&Dim; 2], [z, w]: [&Dim; 2]) -> Option<Value> {
    let less = |a: &Dim, b: &Dim| rw.solver.less_equal(a, &(b - 1));
    let at_most = |a: &Dim, b: &Dim| rw.solver.less_equal(a, b);
    let equal = x == y && z == w && rw.solver.equal(x, z);
    let unequal = less(y, z) || less(w, x);
    let (holds, fails) = match rw.f.word(inst, "direction") {
        "EQ" => (equal, unequal),
        "NE" => (unequal, equal),
        "LT" => (less(y, z), at_most(w, x)),
        "LE" => (at_most(y, z), less(w, x)),
        "GT" => (less(w, x), at_most(y, z)),
        "GE" => (at_most(w, x), less(y, z)),
        _ => return None,
    };
    let a = rw.f.operands(inst)[0];
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
