//! Simplifies slices, concatenations and paddings.
use super::{arithmetic::operands, movement::splat};
use crate::{
    analysis::query::Query,
    rules::rewrite::{Rewriter, Rule, rule},
};
use disc_ir::{Dim, Inst, OpKind, Value};

pub(super) const RULES: &[Rule] = &[
    rule("slice-all", "slice(x) of everything => x", OpKind::Slice, slice_all),
    rule("slice-splat", "slice(c) => c", OpKind::Slice, splat),
    rule("slice-slice", "slice(slice(x)) => slice(x), without strides", OpKind::Slice, slice_slice),
    rule(
        "slice-concatenate",
        "slice(concatenate(.., x, y, ..)) of x and y or parts of them => concatenate(slice(x), slice(y))",
        OpKind::Slice,
        slice_concatenate,
    ),
    rule("concatenate-one", "concatenate(x) => x", OpKind::Concatenate, concatenate_one),
    rule(
        "concatenate-empty",
        "concatenate(.., x, ..) without elements of x => concatenate(.., ..)",
        OpKind::Concatenate,
        concatenate_empty,
    ),
    rule(
        "concatenate-concatenate",
        "concatenate(concatenate(x, y), z) => concatenate(x, y, z)",
        OpKind::Concatenate,
        concatenate_flat,
    ),
    rule("pad-nothing", "pad(x) by nothing => x", OpKind::Pad, pad_nothing),
];

fn result_dims(rw: &Rewriter<'_>, inst: Inst) -> Vec<Dim> {
    rw.f.shape(rw.f.result(inst)).to_vec()
}

fn has_unit_strides(rw: &Rewriter<'_>, inst: Inst) -> bool {
    rw.f.ints(inst, "strides").iter().all(|&stride| stride == 1)
}

/// A slice with as many elements as its operand starts at 0 and leaves none out, whatever its
/// stride.
fn slice_all(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x] = operands(rw, inst);
    rw.same_shape(&result_dims(rw, inst), rw.f.shape(x)).then_some(x)
}

fn slice_slice(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [middle] = operands(rw, inst);
    let inner = rw.f.made_by(middle, OpKind::Slice)?;
    if !has_unit_strides(rw, inst) || !has_unit_strides(rw, inner) {
        return None;
    }
    let x = rw.f.operands(inner)[0];
    let shifted = |name: &str| -> Vec<Dim> {
        rw.f.dims(inst, name).iter().zip(rw.f.dims(inner, "start")).map(|(at, from)| at + from).collect()
    };
    let (start, limit) = (shifted("start"), shifted("limit"));
    rw.build(|b| b.op(OpKind::Slice).operands(&[x]).attr("start", start).attr("limit", limit).value())
}

/// Replaces a slice of a concatenation by slices of its operands. Several operands are taken only
/// if nothing but slices reads the concatenation: it is then not computed at all, while a slice of
/// a computed one is a view.
fn slice_concatenate(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [whole] = operands(rw, inst);
    let concatenate = rw.f.made_by(whole, OpKind::Concatenate)?;
    let axis = rw.f.int(concatenate, "dim") as usize;
    let (start, limit) = (rw.f.dims(inst, "start").to_vec(), rw.f.dims(inst, "limit").to_vec());
    let is_all = |d: usize| start[d].is_const(0) && rw.solver.equal(&limit[d], &rw.f.shape(whole)[d]);
    if !has_unit_strides(rw, inst) || !(0..start.len()).all(|d| d == axis || is_all(d)) {
        return None;
    }
    let mut from = Dim::constant(0);
    // The range that is taken of each operand; `None` for all of it.
    let mut parts: Vec<(Value, Option<[Dim; 2]>)> = Vec::new();
    for &piece in rw.f.operands(concatenate) {
        let to = &from + &rw.f.shape(piece)[axis];
        let at_most = |a: &Dim, b: &Dim| rw.solver.less_equal(a, b);
        if !at_most(&to, &start[axis]) && !at_most(&limit[axis], &from) {
            let low = if at_most(&start[axis], &from) { &from } else { &start[axis] };
            let high = if at_most(&to, &limit[axis]) { &to } else { &limit[axis] };
            // A slice with a bound that may be in this operand or in another one is kept.
            if !at_most(&from, low) || !at_most(low, high) || !at_most(high, &to) {
                return None;
            }
            let all = low == &from && high == &to;
            parts.push((piece, (!all).then(|| [low - &from, high - &from])));
        }
        from = to;
    }
    match parts.len() {
        0 => return None,
        1 => {}
        _ if !rw.only_sliced(whole) => return None,
        _ => {}
    }
    let pieces: Option<Vec<Value>> = parts
        .into_iter()
        .map(|(piece, part)| match part {
            Some(range) => part_of(rw, piece, axis, range),
            None => Some(piece),
        })
        .collect();
    match &pieces?[..] {
        [piece] => Some(*piece),
        pieces => concatenate_of(rw, axis as i64, pieces),
    }
}

/// A range of an operand along an axis.
fn part_of(rw: &mut Rewriter<'_>, piece: Value, axis: usize, [low, high]: [Dim; 2]) -> Option<Value> {
    let mut limit = rw.f.shape(piece).to_vec();
    let mut start = vec![Dim::constant(0); limit.len()];
    (start[axis], limit[axis]) = (low, high);
    rw.build(|b| b.op(OpKind::Slice).operands(&[piece]).attr("start", start).attr("limit", limit).value())
}

fn concatenate_one(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    match rw.f.operands(inst) {
        [x] => Some(*x),
        _ => None,
    }
}

fn concatenate_of(rw: &mut Rewriter<'_>, axis: i64, pieces: &[Value]) -> Option<Value> {
    rw.build(|b| b.op(OpKind::Concatenate).operands(pieces).attr("dim", axis).value())
}

fn concatenate_empty(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let axis = rw.f.int(inst, "dim");
    let pieces = rw.f.operands(inst);
    let has_some = |&&piece: &&Value| !rw.solver.equal(&rw.f.shape(piece)[axis as usize], &Dim::constant(0));
    let kept: Vec<Value> = pieces.iter().filter(has_some).copied().collect();
    (!kept.is_empty() && kept.len() < pieces.len()).then(|| concatenate_of(rw, axis, &kept)).flatten()
}

fn concatenate_flat(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let axis = rw.f.int(inst, "dim");
    let mut pieces = Vec::new();
    for &piece in rw.f.operands(inst) {
        let inner = rw.f.made_by(piece, OpKind::Concatenate).filter(|&i| rw.f.int(i, "dim") == axis && rw.used_once(piece));
        match inner {
            Some(inner) => pieces.extend_from_slice(rw.f.operands(inner)),
            None => pieces.push(piece),
        }
    }
    (pieces.len() > rw.f.operands(inst).len()).then(|| concatenate_of(rw, axis, &pieces)).flatten()
}

fn pad_nothing(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x, _] = operands(rw, inst);
    let no_edges =
        ["low", "high"].iter().all(|edge| rw.f.dims(inst, edge).iter().all(|amount| rw.solver.equal(amount, &Dim::constant(0))));
    let is_same =
        no_edges && rw.f.ints(inst, "interior").iter().all(|&n| n == 0) && rw.same_shape(&result_dims(rw, inst), rw.f.shape(x));
    is_same.then_some(x)
}
