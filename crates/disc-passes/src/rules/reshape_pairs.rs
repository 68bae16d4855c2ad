//! Removes reshapes and transposes between ops that could be one kernel.
//!
//! A reshape costs nothing itself, but nothing fuses across it. If it only undoes an earlier one
//! before elementwise ops or a matmul, both are removed, and these ops are computed on the original
//! shape. Elementwise ops between a matmul and a movement that it can read through trade places
//! with the movement.
//!
//! Invariant: nothing is computed twice: an op that gets another shape has no other use.
use super::{arithmetic::operands, movement::unit_map};
use crate::{
    analysis::query::Query,
    rules::rewrite::{Rewriter, Rule, rule},
};
use disc_ir::{Attr, Dim, Inst, Literal, OpKind, Type, Value, ops::Trait};

pub(super) const RULES: &[Rule] = &[
    rule(
        "reshape-through",
        "reshape(f(reshape(x), ..)) => f(x, ..), f element-wise or a product",
        OpKind::Reshape,
        reshape_through,
    ),
    rule(
        "broadcast-through",
        "broadcast(f(reshape(x), ..)) => broadcast(f(x, ..)), f element-wise on sizes of 1",
        OpKind::BroadcastInDim,
        broadcast_through,
    ),
    rule(
        "dot-behind-left",
        "dot(f(move(x), c), y) => dot(move(f(x, c)), y), f element-wise, move a transpose or reshape",
        OpKind::DotGeneral,
        |rw, i| behind(rw, i, 0),
    ),
    rule(
        "dot-behind-right",
        "dot(x, f(move(y), c)) => dot(x, move(f(y, c))), f element-wise, move a transpose or reshape",
        OpKind::DotGeneral,
        |rw, i| behind(rw, i, 1),
    ),
];

/// The number of ops to look at: enough for an activation function.
const MOST_OPS: usize = 32;

fn reshape_through(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x] = operands(rw, inst);
    let dims = rw.f.shape(rw.f.result(inst)).to_vec();
    let passes = computes(rw, x)?;
    let mut budget = MOST_OPS;
    passes.then(|| regrouped(rw, x, &dims, &mut budget)).flatten()
}

fn broadcast_through(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let [x] = operands(rw, inst);
    let shape = rw.f.shape(x).to_vec();
    let kept: Vec<usize> = (0..shape.len()).filter(|&axis| !rw.is_one(&shape[axis])).collect();
    let passes = computes(rw, x)? && kept.len() < shape.len();
    let dims: Vec<Dim> = kept.iter().map(|&axis| shape[axis].clone()).collect();
    let mut budget = MOST_OPS;
    let narrow = passes.then(|| regrouped(rw, x, &dims, &mut budget)).flatten()?;
    let all = rw.f.axes(inst, "dims");
    let axes: Vec<usize> = kept.iter().map(|&axis| all[axis]).collect();
    let dims = rw.f.shape(rw.f.result(inst)).to_vec();
    rw.broadcast(narrow, &axes, dims)
}

/// Returns true if only this use needs the value, and the ops that compute it work on any shape.
fn computes(rw: &Rewriter<'_>, value: Value) -> Option<bool> {
    let inst = rw.f.defining(value)?;
    let kind = rw.f.def(inst).has(Trait::Elementwise) || rw.f.kind_of(inst) == OpKind::DotGeneral;
    Some(kind && rw.used_once(value))
}

/// Recomputes the value in the shape `dims`, elements in the same order, without a reshape.
fn regrouped(rw: &mut Rewriter<'_>, value: Value, dims: &[Dim], budget: &mut usize) -> Option<Value> {
    *budget = budget.checked_sub(1)?;
    let inst = rw.f.defining(value)?;
    let made = match rw.f.kind_of(inst) {
        OpKind::Reshape => {
            let x = rw.f.operands(inst)[0];
            rw.same_shape(rw.f.shape(x), dims).then_some(x)
        }
        OpKind::Constant => {
            let literal = rw.f.splat(value)?.clone();
            splat(rw, literal, dims)
        }
        OpKind::BroadcastInDim => {
            let axes = moved_axes(rw, rw.f.shape(value), dims, &rw.f.axes(inst, "dims"))?;
            let x = rw.f.operands(inst)[0];
            rw.broadcast(x, &axes, dims.iter().cloned())
        }
        OpKind::DotGeneral if rw.used_once(value) => regrouped_dot(rw, inst, dims),
        kind if kind.def().has(Trait::Elementwise) && rw.used_once(value) => {
            let old = rw.f.operands(inst).to_vec();
            let new: Option<Vec<Value>> = old.into_iter().map(|operand| regrouped(rw, operand, dims, budget)).collect();
            let (new, attrs) = (new?, rw.f.inst(inst).attrs.clone());
            rw.build(|b| b.op(kind).operands(&new).attrs(attrs).value())
        }
        _ => None,
    }?;
    rw.f.inherit_name(value, made);
    Some(made)
}

fn splat(rw: &mut Rewriter<'_>, literal: Literal, dims: &[Dim]) -> Option<Value> {
    let ty = Type::tensor(dims.iter().cloned(), literal.dtype);
    rw.build(|b| b.op(OpKind::Constant).attr("value", Literal { splat: true, ..literal }).result(ty).value())
}

/// Maps `axes` of `from` to axes of `to`: they are in the common prefix, in the common suffix, or
/// beside sizes of 1.
fn moved_axes(rw: &Rewriter<'_>, from: &[Dim], to: &[Dim], axes: &[usize]) -> Option<Vec<usize>> {
    let same = |pair: &(&Dim, &Dim)| rw.solver.equal(pair.0, pair.1);
    let start = from.iter().zip(to).take_while(same).count();
    // Prefix and suffix must not overlap: of [1, 1, 4] and [1, 4], the first dimension is the
    // prefix of both.
    let end = from[start..].iter().rev().zip(to[start..].iter().rev()).take_while(same).count();
    let ends = |axis: usize| {
        if axis < start { Some(axis) } else { (axis + end >= from.len()).then(|| axis + to.len() - from.len()) }
    };
    let by_ends: Option<Vec<usize>> = axes.iter().map(|&axis| ends(axis)).collect();
    by_ends.or_else(|| {
        let map = unit_map(rw, from, to)?;
        axes.iter().map(|&axis| map.iter().position(|of| *of == Some(axis))).collect()
    })
}

/// A matmul whose free dimensions are reshaped: it computes those of the shape `dims` instead.
fn regrouped_dot(rw: &mut Rewriter<'_>, inst: Inst, dims: &[Dim]) -> Option<Value> {
    let [left, right] = operands(rw, inst);
    let x = rw.f.operands(rw.f.made_by(left, OpKind::Reshape)?)[0];
    let (shape, summed) = (rw.f.shape(left).to_vec(), rw.f.axes(inst, "lhs_contracting_dims"));
    // The contracted dimensions come last, in order.
    let rest = shape.len() - summed.len();
    let last = summed.iter().copied().eq(rest..shape.len());
    let columns = &rw.f.shape(rw.f.result(inst))[rest..];
    let rows = dims.len().checked_sub(columns.len())?;
    if !last || !rw.f.ints(inst, "lhs_batching_dims").is_empty() || !rw.same_shape(columns, &dims[rows..]) {
        return None;
    }
    let wanted: Vec<Dim> = dims[..rows].iter().chain(&shape[rest..]).cloned().collect();
    let left = match rw.same_shape(rw.f.shape(x), &wanted) {
        true => x,
        false => rw.solver.product_equal(rw.f.shape(x), &wanted).then(|| rw.reshape(x, wanted)).flatten()?,
    };
    let mut attrs = rw.f.inst(inst).attrs.clone();
    let position = rw.f.def(inst).attr_position("lhs_contracting_dims").expect("an attribute of the op");
    attrs[position] = Some(Attr::Ints((rows..rows + summed.len()).map(|axis| axis as i64).collect()));
    rw.build(|b| b.op(OpKind::DotGeneral).operands(&[left, right]).attrs(attrs).value())
}

/// Moves an elementwise op before a transpose: a matmul reads through transposes, and a scale
/// belongs to the matmul before it.
fn behind(rw: &mut Rewriter<'_>, inst: Inst, side: usize) -> Option<Value> {
    let mut values: [Value; 2] = operands(rw, inst);
    let op = rw.f.defining(values[side]).filter(|&op| rw.f.def(op).has(Trait::Elementwise) && rw.used_once(values[side]))?;
    let inputs = rw.f.operands(op).to_vec();
    let mut moving = inputs.iter().filter(|&&input| rw.f.splat(input).is_none());
    let (&moved, None) = (moving.next()?, moving.next()) else { return None };
    let movement = rw.f.defining(moved).filter(|&m| matches!(rw.f.kind_of(m), OpKind::Transpose | OpKind::Reshape))?;
    let x = rw.f.operands(movement)[0];
    let dims = rw.f.shape(x).to_vec();
    let mut new = Vec::with_capacity(inputs.len());
    for input in inputs {
        let value = match rw.f.splat(input).cloned() {
            Some(literal) => splat(rw, literal, &dims)?,
            None => x,
        };
        new.push(value);
    }
    let (kind, attrs) = (rw.f.kind_of(op), rw.f.inst(op).attrs.clone());
    let computed = rw.build(|b| b.op(kind).operands(&new).attrs(attrs).value())?;
    rw.f.inherit_name(values[side], computed);
    values[side] = match rw.f.kind_of(movement) {
        OpKind::Transpose => rw.transpose(computed, &rw.f.axes(movement, "dims"))?,
        _ => {
            let dims = rw.f.shape(moved).to_vec();
            rw.reshape(computed, dims)?
        }
    };
    let attrs = rw.f.inst(inst).attrs.clone();
    rw.build(|b| b.op(OpKind::DotGeneral).operands(&values).attrs(attrs).value())
}
