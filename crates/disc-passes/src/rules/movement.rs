//! Removes data movement without effect, and merges pairs of movements into one.
use super::arithmetic::operands;
use crate::{
    analysis::query::Query,
    rules::rewrite::{Rewriter, Rule, rule},
};
use disc_ir::{Dim, Inst, OpKind, Value};

pub(super) const RULES: &[Rule] = &[
    rule("reshape-same", "reshape(x) to the shape of x => x", OpKind::Reshape, same_shape),
    rule("reshape-splat", "reshape(c) => c", OpKind::Reshape, splat),
    rule("reshape-reshape", "reshape(reshape(x)) => reshape(x)", OpKind::Reshape, reshape_reshape),
    rule(
        "reshape-broadcast",
        "reshape(broadcast(x)) that adds or drops sizes of 1 => broadcast(x)",
        OpKind::Reshape,
        reshape_broadcast,
    ),
    rule(
        "reshape-transpose",
        "reshape(transpose(reshape(x))) that splits dimensions or drops sizes of 1 => transpose(reshape(x))",
        OpKind::Reshape,
        reshape_transpose,
    ),
    rule("transpose-same", "transpose(x) in the order of x => x", OpKind::Transpose, transpose_same),
    rule("transpose-splat", "transpose(c) => c", OpKind::Transpose, splat),
    rule("transpose-transpose", "transpose(transpose(x)) => transpose(x)", OpKind::Transpose, transpose_transpose),
    rule("transpose-broadcast", "transpose(broadcast(x)) => broadcast(x)", OpKind::Transpose, transpose_broadcast),
    rule("transpose-units", "transpose(x) that only moves sizes of 1 => reshape(x)", OpKind::Transpose, transpose_units),
    rule("broadcast-same", "broadcast(x) to the shape of x => x", OpKind::BroadcastInDim, broadcast_same),
    rule("broadcast-splat", "broadcast(c) => c", OpKind::BroadcastInDim, splat),
    rule("broadcast-broadcast", "broadcast(broadcast(x)) => broadcast(x)", OpKind::BroadcastInDim, broadcast_broadcast),
    rule(
        "broadcast-reshape",
        "broadcast(reshape(x)) that adds or drops sizes of 1 => broadcast(x)",
        OpKind::BroadcastInDim,
        broadcast_reshape,
    ),
    rule("reverse-reverse", "reverse(reverse(x)) => x", OpKind::Reverse, reverse_reverse),
    rule("reverse-splat", "reverse(c) => c", OpKind::Reverse, splat),
];

fn result_dims(rw: &Rewriter<'_>, inst: Inst) -> Vec<Dim> {
    rw.f.shape(rw.f.result(inst)).to_vec()
}

fn same_shape(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x] = operands(rw, inst);
    rw.same_shape(rw.f.shape(x), rw.f.shape(rw.f.result(inst))).then_some(x)
}

/// A tensor of equal elements is the same after any movement.
pub(super) fn splat(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let literal = rw.f.splat(rw.f.operands(inst)[0])?.clone();
    let result = rw.f.result(inst);
    rw.constant(result, literal)
}

fn reshape_reshape(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [middle] = operands(rw, inst);
    let x = rw.f.operands(rw.f.made_by(middle, OpKind::Reshape)?)[0];
    let dims = result_dims(rw, inst);
    rw.reshape(x, dims)
}

/// Each dimension is split in place, so that the two reshapes are one.
fn reshape_transpose(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [turned] = operands(rw, inst);
    let transpose = rw.f.made_by(turned, OpKind::Transpose).filter(|_| rw.used_once(turned))?;
    let [middle] = operands(rw, transpose);
    let x = rw.f.operands(rw.f.made_by(middle, OpKind::Reshape)?)[0];
    let dims = result_dims(rw, inst);
    let mut rest = 0..dims.len();
    // For each dimension of the transposed operand, the dimensions that it becomes.
    let sizes = rw.f.shape(turned).iter();
    let mut split: Vec<Vec<usize>> = sizes.map(|size| parts(rw, &dims, &mut rest, size)).collect::<Option<_>>()?;
    if !rest.clone().all(|axis| rw.is_one(&dims[axis])) {
        return None;
    }
    split.last_mut()?.extend(rest);
    let order = rw.f.axes(transpose, "dims");
    let mut lies: Vec<usize> = (0..order.len()).collect();
    lies.sort_by_key(|&axis| order[axis]);
    let lies: Vec<usize> = lies.into_iter().flat_map(|axis| split[axis].clone()).collect();
    let reshaped = rw.reshape(x, lies.iter().map(|&axis| dims[axis].clone()))?;
    let order: Vec<usize> =
        (0..dims.len()).map(|axis| lies.iter().position(|&a| a == axis).expect("each is there once")).collect();
    rw.transpose(reshaped, &order)
}

/// The next dimensions whose product is `size`.
fn parts(rw: &Rewriter<'_>, dims: &[Dim], rest: &mut std::ops::Range<usize>, size: &Dim) -> Option<Vec<usize>> {
    let (mut product, mut found) = (Dim::constant(1), Vec::new());
    while !rw.solver.equal(&product, size) {
        let axis = rest.next()?;
        product *= &dims[axis];
        found.push(axis);
    }
    Some(found)
}

/// Maps each axis of `to` to an axis of `from`, if the shapes differ only by sizes of 1, which map
/// to none.
pub(super) fn unit_map(rw: &Rewriter<'_>, from: &[Dim], to: &[Dim]) -> Option<Vec<Option<usize>>> {
    let mut rest = (0..from.len()).filter(|&axis| !rw.is_one(&from[axis]));
    let mut map = Vec::with_capacity(to.len());
    for size in to {
        map.push(match rw.is_one(size) {
            true => None,
            false => Some(rest.next().filter(|&axis| rw.solver.equal(&from[axis], size))?),
        });
    }
    rest.next().is_none().then_some(map)
}

fn reshape_broadcast(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [wide] = operands(rw, inst);
    let broadcast = rw.f.made_by(wide, OpKind::BroadcastInDim)?;
    let x = rw.f.operands(broadcast)[0];
    let dims = result_dims(rw, inst);
    let map = unit_map(rw, rw.f.shape(wide), &dims)?;
    // The map may pair a size of 1 of the operand with one that the broadcast drops; the rule
    // applies only if that size is dropped first.
    let axes = rw.f.axes(broadcast, "dims");
    let axes: Option<Vec<usize>> = axes.iter().map(|axis| map.iter().position(|from| *from == Some(*axis))).collect();
    rw.broadcast(x, &axes?, dims)
}

fn transpose_same(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x] = operands(rw, inst);
    rw.f.ints(inst, "dims").iter().enumerate().all(|(i, &axis)| i as i64 == axis).then_some(x)
}

fn transpose_transpose(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [middle] = operands(rw, inst);
    let inner = rw.f.made_by(middle, OpKind::Transpose)?;
    let (x, first) = (rw.f.operands(inner)[0], rw.f.axes(inner, "dims"));
    let order: Vec<usize> = rw.f.axes(inst, "dims").iter().map(|&axis| first[axis]).collect();
    rw.transpose(x, &order)
}

fn transpose_broadcast(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [wide] = operands(rw, inst);
    let broadcast = rw.f.made_by(wide, OpKind::BroadcastInDim)?;
    let (x, order) = (rw.f.operands(broadcast)[0], rw.f.axes(inst, "dims"));
    let place = |axis: &usize| order.iter().position(|from| from == axis).expect("an order names every axis");
    let axes: Vec<usize> = rw.f.axes(broadcast, "dims").iter().map(place).collect();
    let dims = result_dims(rw, inst);
    rw.broadcast(x, &axes, dims)
}

fn transpose_units(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x] = operands(rw, inst);
    let shape = rw.f.shape(x);
    let order = rw.f.axes(inst, "dims");
    let moved = order.iter().filter(|&&axis| !rw.is_one(&shape[axis])).is_sorted();
    let dims = result_dims(rw, inst);
    moved.then(|| rw.reshape(x, dims)).flatten()
}

fn broadcast_same(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let in_order = rw.f.ints(inst, "dims").is_sorted();
    in_order.then(|| same_shape(rw, inst)).flatten()
}

fn broadcast_broadcast(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [middle] = operands(rw, inst);
    let inner = rw.f.made_by(middle, OpKind::BroadcastInDim)?;
    let (x, outer) = (rw.f.operands(inner)[0], rw.f.axes(inst, "dims"));
    let axes: Vec<usize> = rw.f.axes(inner, "dims").iter().map(|&axis| outer[axis]).collect();
    let dims = result_dims(rw, inst);
    rw.broadcast(x, &axes, dims)
}

fn broadcast_reshape(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [middle] = operands(rw, inst);
    let x = rw.f.operands(rw.f.made_by(middle, OpKind::Reshape)?)[0];
    let map = unit_map(rw, rw.f.shape(middle), rw.f.shape(x))?;
    let outer = rw.f.axes(inst, "dims");
    // Sizes of 1 of `x` that the reshape moved or dropped have no axis.
    let axes: Option<Vec<usize>> = map.iter().map(|axis| axis.map(|axis| outer[axis])).collect();
    let dims = result_dims(rw, inst);
    rw.broadcast(x, &axes?, dims)
}

fn reverse_reverse(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [middle] = operands(rw, inst);
    let inner = rw.f.made_by(middle, OpKind::Reverse)?;
    let sorted = |inst| {
        let mut axes = rw.f.axes(inst, "dims");
        axes.sort_unstable();
        axes
    };
    (sorted(inner) == sorted(inst)).then(|| rw.f.operands(inner)[0])
}
