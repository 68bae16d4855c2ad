//! Moves slices before ops that compute more than is sliced: leading elements of a result are
//! computed from leading elements of the operands.
//!
//! Only if nothing else reads the result, so that nothing is computed twice; and only for slices
//! that start at 0 along every dimension.
use super::arithmetic::operands;
use crate::{
    analysis::query::Query,
    rules::rewrite::{Rewriter, Rule, as_ints, rule},
};
use disc_ir::{
    Dim, Inst, OpKind, Type, Value,
    ops::{Trait, body},
};

pub(super) const RULES: &[Rule] = &[
    rule("slice-elementwise", "slice(f(x, y)) from 0 on => f(slice(x), slice(y))", OpKind::Slice, elementwise),
    rule("slice-broadcast", "slice(broadcast(x)) from 0 on => broadcast(slice(x))", OpKind::Slice, broadcast),
    rule("slice-reduce", "slice(reduce(x, init)) from 0 on => reduce(slice(x), init)", OpKind::Slice, reduce),
];

/// The operand of a slice of leading elements, if nothing else uses it, and the number of elements
/// along each dimension.
fn leading(rw: &Rewriter<'_>, slice: Inst) -> Option<(Value, Vec<Dim>)> {
    let whole = rw.f.operands(slice)[0];
    let from_start = rw.f.dims(slice, "start").iter().all(|start| start.is_const(0));
    let side_by_side = rw.f.ints(slice, "strides").iter().all(|&stride| stride == 1);
    (from_start && side_by_side && rw.used_once(whole)).then(|| (whole, rw.f.dims(slice, "limit").to_vec()))
}

/// The leading elements of a value. An existing slice is reused, so that users of both still share
/// a value.
fn slice(rw: &mut Rewriter<'_>, value: Value, limit: Vec<Dim>) -> Option<Value> {
    if rw.same_shape(&limit, rw.f.shape(value)) {
        return Some(value);
    }
    let start = vec![Dim::constant(0); limit.len()];
    let is_it = |&inst: &Inst| {
        rw.f.kind_of(inst) == OpKind::Slice
            && rw.f.operands(inst) == [value]
            && (rw.f.dims(inst, "start"), rw.f.dims(inst, "limit")) == (&start[..], &limit[..])
            && rw.f.ints(inst, "strides").iter().all(|&stride| stride == 1)
    };
    if let Some(before) = rw.f.insts(rw.block).iter().copied().find(is_it) {
        return Some(rw.f.result(before));
    }
    rw.build(|b| b.op(OpKind::Slice).operands(&[value]).attr("start", start).attr("limit", limit).value())
}

/// An op that may fail stays: the elements that are cut off might fail.
fn elementwise(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let (whole, limit) = leading(rw, inst)?;
    let made = rw.f.defining(whole)?;
    let (def, data) = (rw.f.def(made), rw.f.inst(made).clone());
    let alike = data.operands.iter().all(|&operand| rw.same_shape(rw.f.shape(operand), rw.f.shape(whole)));
    if !def.has(Trait::Elementwise) || def.has(Trait::MayFail) || !data.regions.is_empty() || data.results.len() != 1 || !alike {
        return None;
    }
    let cut: Vec<Value> = data.operands.iter().map(|&operand| slice(rw, operand, limit.clone())).collect::<Option<_>>()?;
    let ty = Type::tensor(limit, rw.f.ty(whole).dtype());
    rw.build(|b| b.op(data.kind).operands(&cut).attrs(data.attrs).result(ty).value())
}

fn broadcast(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let (whole, limit) = leading(rw, inst)?;
    let made = rw.f.made_by(whole, OpKind::BroadcastInDim)?;
    let [x] = operands(rw, made);
    let axes = rw.f.axes(made, "dims");
    // A size of 1 is broadcast to any number of elements.
    let follows = |size: &Dim, axis: usize| rw.solver.equal(size, &rw.f.shape(whole)[axis]);
    let sizes = rw.f.shape(x).iter().zip(&axes);
    let cut: Vec<Dim> = sizes.map(|(size, &axis)| if follows(size, axis) { &limit[axis] } else { size }.clone()).collect();
    let x = slice(rw, x, cut)?;
    rw.broadcast(x, &axes, limit)
}

fn reduce(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let (whole, limit) = leading(rw, inst)?;
    let made = rw.f.made_by(whole, OpKind::Reduce)?;
    let &[x, init] = rw.f.operands(made) else { return None };
    let op = body::monoid(rw.f, rw.f.inst(made).regions[0])?;
    let reduced = rw.f.axes(made, "dims");
    let mut kept = limit.into_iter();
    let mut cut = rw.f.shape(x).to_vec();
    for (axis, size) in cut.iter_mut().enumerate().filter(|(axis, _)| !reduced.contains(axis)) {
        *size = kept.next().unwrap_or_else(|| panic!("dimension {axis} of a reduction is one of its result"));
    }
    let x = slice(rw, x, cut)?;
    let dtype = rw.f.ty(x).dtype();
    rw.build(|b| {
        let body = body::combine(b, op, dtype)?;
        b.op(OpKind::Reduce).operands(&[x, init]).attr("dims", as_ints(&reduced)).region(body).value()
    })
}
