//! Fuses attention: a matmul, a softmax of its rows, and a matmul with the result, as one group.
//!
//! It fuses finished groups without recognising the softmax: any reduction group between two
//! matmuls fits if each of its rows needs only the same row of the first matmul. The scores then
//! live for one block of rows at a time, in task memory.
//!
//! Invariant: an `attention` group holds three groups, each of which reads the previous one: a
//! matmul, a reduction group, and a matmul.
use super::{
    legality::same_shape,
    nested_group::{NestedGroup, is_group},
};
use crate::{
    analysis::query::Query,
    pass::{PassCx, PassDef},
};
use disc_ir::{
    Block, Diagnostic, Dim, Function, FunctionKind, FusionKind, Inst, Module, OpKind, Solver, Value,
    ops::{Stage, Trait},
};
use std::{collections::HashSet, sync::Arc};

/// Fuses a matmul, reductions of its rows, and a matmul of the result.
pub static PASS: PassDef = PassDef {
    name: "fuse-attention",
    doc: "Fuses a matmul, a softmax of its rows and a matmul with the result into one group.",
    stages: (Stage::Fused, Stage::Fused),
    run,
};

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let mut found = 0;
    for function in module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func) {
        let solver = Arc::new(Solver::new(&function.facts));
        found += in_block(function, function.body, &solver, cx)?;
    }
    Ok(found)
}

fn in_block(function: &mut Function, block: Block, solver: &Arc<Solver>, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let mut found = 0;
    for inst in function.insts(block).to_vec() {
        if matches!(function.kind_of(inst), OpKind::If | OpKind::While) {
            for region in function.inst(inst).regions.clone() {
                found += in_block(function, region, solver, cx)?;
            }
        }
    }
    let uses = function.use_counts();
    let once = |value: Value| uses[value.index()] == 1;
    let insts = function.insts(block);
    let most = cx.options.model.most_value_columns();
    let converts = cx.options.model.converts_queries();
    let chains = insts.iter().filter_map(|&last| chain(function, solver, (last, converts), &once));
    let chains: Vec<[Inst; 3]> =
        chains.filter(|&[_, _, last]| most.is_none_or(|most| may_have_columns(function, solver, last, most))).collect();
    for &chain in &chains {
        // Each group of a chain must be of this block: a region cannot take ops from outside of it.
        if chain.iter().all(|part| function.insts(block).contains(part)) && cx.spend() {
            let mut nest = NestedGroup::open(function, chain.to_vec());
            nest.keep();
            nest.end(solver)?;
            *function = nest.close(block, FusionKind::Attention, solver)?;
            found += 1;
        }
    }
    Ok(found)
}

/// The chain of groups that ends with the group `last`; in it, queries may be converted where they
/// are read.
fn chain(
    function: &Function,
    solver: &Solver,
    (last, converts): (Inst, bool),
    once: &impl Fn(Value) -> bool,
) -> Option<[Inst; 3]> {
    let weighted = Product::of(function, last, converts)?;
    let weights = function.operands(last)[weighted.left?];
    let rows = single_result(function, weights, FusionKind::Reduction).filter(|_| once(weights))?;
    let rank = function.shape(weights).len();
    let scores = (0..function.operands(rows).len()).find_map(|i| {
        let value = function.operands(rows)[i];
        let first = single_result(function, value, FusionKind::Matmul).filter(|_| once(value))?;
        let same = same_shape(solver, function.shape(value), function.shape(weights));
        (same && stays_in_rows(function, solver, rows, i)).then_some(first)
    })?;
    let product = Product::of(function, scores, converts)?;
    if product.batch == 0 && !reduces_maximum(function, rows) {
        // Linear layers around a norm: matmuls of their own read their weights once.
        return None;
    }
    let plain = product.rows.is_some() && product.right.is_some() && product.batch == rank.checked_sub(2)?;
    let along_rows = weighted.left_axes_in_order && weighted.left_sum == [rank as i64 - 1] && weighted.batch + 2 == rank;
    (plain && !product.transposed && along_rows).then_some([scores, rows, last])
}

/// Returns true if a group reduces rows to their largest elements, as a softmax does.
fn reduces_maximum(function: &Function, group: Inst) -> bool {
    let is_maximum = |inst: &Inst| function.kind_of(*inst) == OpKind::Maximum;
    let mut reductions =
        function.insts(function.inst(group).regions[0]).iter().filter(|&&inst| function.kind_of(inst) == OpKind::Reduce);
    reductions.any(|&inst| function.insts(function.inst(inst).regions[0]).iter().any(is_maximum))
}

/// Returns true if the right operand of a group's matmul may have so few columns.
fn may_have_columns(function: &Function, solver: &Solver, group: Inst, most: i64) -> bool {
    let region = function.inst(group).regions[0];
    let dots = function.insts(region).iter().filter(|&&inst| function.kind_of(inst) == OpKind::DotGeneral);
    let columns = dots.filter_map(|&dot| function.shape(function.result(dot)).last());
    columns.into_iter().all(|columns| solver.range(columns).lo.is_none_or(|least| least <= most))
}

/// The group of this kind that has this value as its only result.
fn single_result(function: &Function, value: Value, kind: FusionKind) -> Option<Inst> {
    let inst = function.defining(value)?;
    is_group(function, inst, kind).then_some(inst)
}

/// The matmul of a group with one result, one contracted dimension, one row and one column
/// dimension.
struct Product {
    /// The operands, as positions among the group's inputs; the right one may be broadcast.
    left: Option<usize>,
    right: Option<usize>,
    /// As `left`, but the operand may be reshaped, or converted if that is allowed.
    rows: Option<usize>,
    batch: usize,
    left_sum: Vec<i64>,
    /// True if the batch dimensions of the left operand come first, in order.
    left_axes_in_order: bool,
    /// True if the result is transposed.
    transposed: bool,
}

impl Product {
    fn of(function: &Function, group: Inst, converts: bool) -> Option<Self> {
        if !is_group(function, group, FusionKind::Matmul) {
            return None;
        }
        let region = function.inst(group).regions[0];
        let dot = function.insts(region).iter().copied().find(|&i| function.kind_of(i) == OpKind::DotGeneral)?;
        let end = function.terminator(region)?;
        let returned = function.operands(end)[0];
        let transposed = function.made_by(returned, OpKind::Transpose).is_some();
        let float = function.ty(function.result(dot)).dtype().is_float();
        let packed = function.attr(dot, "packed_columns").is_some();
        let batching = function.ints(dot, "lhs_batching_dims");
        let (left_sum, right_sum) = (function.ints(dot, "lhs_contracting_dims"), function.ints(dot, "rhs_contracting_dims"));
        let [left, right] = function.operands(dot)[..] else { return None };
        let free = |value: Value| function.shape(value).len().checked_sub(batching.len() + 1);
        if !float || packed || left_sum.len() != 1 || right_sum.len() != 1 || free(left)? != 1 || free(right)? != 1 {
            return None;
        }
        let input = |value: Value| function.arguments(region).iter().position(|&a| a == value);
        Some(Self {
            left: input(left),
            right: input(stored(function, right)),
            rows: input(reshaped(function, left, converts)),
            batch: batching.len(),
            left_sum: left_sum.to_vec(),
            left_axes_in_order: batching.iter().zip(0..).all(|(&axis, i)| axis == i),
            transposed,
        })
    }
}

/// The value under reshapes, and under conversions if they count.
fn reshaped(function: &Function, value: Value, converts: bool) -> Value {
    let conversion = || function.made_by(value, OpKind::Convert).filter(|_| converts);
    let made = function.made_by(value, OpKind::Reshape).or_else(conversion);
    made.map_or(value, |inst| reshaped(function, function.operands(inst)[0], converts))
}

/// The value under broadcasts, reshapes and conversions, which read the same memory.
fn stored(function: &Function, value: Value) -> Value {
    let kinds = [OpKind::BroadcastInDim, OpKind::Reshape, OpKind::Convert];
    let made = function.defining(value).filter(|&inst| kinds.contains(&function.kind_of(inst)));
    made.map_or(value, |inst| stored(function, function.operands(inst)[0]))
}

/// Returns true if a row of the group's result needs only the same row of input `position`.
fn stays_in_rows(function: &Function, solver: &Solver, group: Inst, position: usize) -> bool {
    let region = function.inst(group).regions[0];
    let scores = function.arguments(region)[position];
    let domain = function.shape(scores).to_vec();
    let Some(columns) = domain.len().checked_sub(1) else { return false };
    // Values of the whole space, and values of one element per row, that depend on the scores.
    let (mut whole, mut rows): (HashSet<Value>, HashSet<Value>) = (HashSet::from([scores]), HashSet::new());
    for &inst in function.insts(region) {
        let operands = function.operands(inst);
        let (from_whole, from_rows) = (operands.iter().any(|v| whole.contains(v)), operands.iter().any(|v| rows.contains(v)));
        let results = function.results_of(inst);
        match function.kind_of(inst) {
            OpKind::Return => {}
            _ if !from_whole && !from_rows => {}
            OpKind::Reduce if from_whole && !from_rows && function.ints(inst, "dims") == [columns as i64] => rows.extend(results),
            _ if function.def(inst).has(Trait::Elementwise) && from_whole => whole.extend(results),
            _ if function.def(inst).has(Trait::Elementwise) => rows.extend(results),
            OpKind::Reshape | OpKind::BroadcastInDim
                if !from_whole && row_shaped(function, solver, inst, &domain[..columns], columns) =>
            {
                rows.extend(results)
            }
            _ => return false,
        }
    }
    true
}

/// Returns true if a reshape or broadcast of a value with one element per row keeps the rows.
fn row_shaped(function: &Function, solver: &Solver, inst: Inst, rows: &[Dim], columns: usize) -> bool {
    let fits = |dims: &[Dim]| dims.len() >= columns && dims.len() <= columns + 1 && same_shape(solver, &dims[..columns], rows);
    let (operand, result) = (function.operands(inst)[0], function.result(inst));
    let shapes = [function.shape(operand), function.shape(result)];
    let in_place = || match function.kind_of(inst) {
        OpKind::BroadcastInDim => function.ints(inst, "dims").iter().zip(0..).all(|(&axis, i)| axis == i),
        _ => shapes.iter().all(|dims| dims[columns..].iter().all(|d| solver.equal(d, &Dim::constant(1)))),
    };
    shapes.iter().all(|dims| fits(dims)) && in_place()
}
