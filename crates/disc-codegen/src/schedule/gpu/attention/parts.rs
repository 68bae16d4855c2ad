//! Finds the parts of an attention group: its matmuls, the reductions of its rows, and sizes.
use super::super::matmul::{Side, sides};
use crate::{
    kernel::{
        accumulator_dtype,
        monoid::{Monoid, monoid_of},
    },
    schedule::{
        Group,
        cpu::{Mask, Softmax, depends, masks, order},
    },
};
use disc_ir::{DType, Dim, Function, Inst, OpKind, Value, ops::Trait};
use disc_passes::analysis::query::Query;

/// An operand of a matmul: the dimensions that are batches, the one that is free, and the one that
/// is summed.
pub(super) struct Operand {
    pub(super) value: Value,
    pub(super) batch: Vec<usize>,
    pub(super) free: usize,
    pub(super) sum: usize,
}

/// The function of a row of scores that gives its weights.
pub(super) enum RowFunction {
    Softmax(Softmax),
    /// Reductions, those that depend on others in a later phase.
    Phases(Vec<Vec<RowReduction>>),
}

/// A reduction along rows of scores.
pub(super) struct RowReduction {
    pub(super) inst: Inst,
    pub(super) monoid: Monoid,
}

/// The parts of a group without groups of its own.
pub(super) struct Parts {
    pub(super) scores: Inst,
    pub(super) weighted: Inst,
    /// The left operand of the second matmul.
    pub(super) weights: Value,
    pub(super) queries: Operand,
    pub(super) keys: Operand,
    pub(super) values: Operand,
    pub(super) function: RowFunction,
    /// The masks that hide scores, if the rows are a softmax.
    pub(super) masks: Vec<Mask>,
    pub(super) batches: Vec<Dim>,
    /// The sizes of rows, of keys, of the sums of scores, and of columns of values.
    pub(super) rows: Dim,
    pub(super) length: Dim,
    pub(super) terms: Dim,
    pub(super) columns: Dim,
    pub(super) sum: DType,
}

impl Parts {
    /// Finds the parts.
    ///
    /// # Errors
    /// The reason that a part is missing.
    pub(super) fn of(group: &Group<'_>) -> Result<Self, String> {
        let function = group.function;
        let is_dot = |inst: &Inst| function.kind_of(*inst) == OpKind::DotGeneral;
        let dots: Vec<Inst> = function.insts(function.body).iter().copied().filter(is_dot).collect();
        let &[scores, weighted] = &dots[..] else { return Err("the group does not hold two matmuls".into()) };
        let [[queries, keys], [left, values]] = [operands(group, scores)?, operands(group, weighted)?];
        let product = function.result(weighted);
        for output in group.outputs() {
            order(function, &group.solver, product, output)?;
        }
        let dims = &group.tensor(function.result(scores)).dims;
        let (batches, [rows, length]) = match &dims[..] {
            [batches @ .., rows, length] => (batches.to_vec(), [rows.clone(), length.clone()]),
            _ => return Err("scores have no rows".into()),
        };
        let is_in_order = left.batch.iter().copied().eq(0..batches.len()) && left.sum == batches.len() + 1;
        if !is_in_order {
            return Err("the second matmul does not sum along rows".into());
        }
        let [sum, other] = [scores, weighted].map(|dot| accumulator_dtype(group.tensor(function.result(dot)).dtype));
        if sum != other {
            return Err("the matmuls have sums of two types".into());
        }
        let size = |operand: &Operand, axis: usize| group.tensor(operand.value).dims[axis].clone();
        let (terms, columns) = (size(&queries, queries.sum), size(&values, values.free));
        let row_function = row_function(group, scores, left.value)?;
        let weights = left.value;
        let masks = match &row_function {
            RowFunction::Softmax(softmax) => masks(function, softmax.logits, batches.len()),
            RowFunction::Phases(_) => Vec::new(),
        };
        Ok(Self {
            scores,
            weighted,
            weights,
            queries,
            keys,
            values,
            function: row_function,
            masks,
            batches,
            rows,
            length,
            terms,
            columns,
            sum,
        })
    }
}

/// Returns the operands of a matmul with one free dimension each, and one that is summed.
fn operands(group: &Group<'_>, dot: Inst) -> Result<[Operand; 2], String> {
    let operand = |Side { value, batch, free, sum, .. }| match (&free[..], &sum[..]) {
        (&[free], &[sum]) => Ok(Operand { value, batch, free, sum }),
        _ => Err("a matmul has several dimensions of a kind".to_owned()),
    };
    let [left, right] = sides(group, dot).map(operand);
    Ok([left?, right?])
}

/// Returns the function that gives the weights of a row from its scores.
fn row_function(group: &Group<'_>, scores: Inst, weights: Value) -> Result<RowFunction, String> {
    let function = group.function;
    let result = function.result(scores);
    let dims = &group.tensor(result).dims;
    let last = dims.len() - 1;
    let softmax = Softmax::of(function, dims.len(), weights);
    if let Some(softmax) = softmax.filter(|softmax| softmax.from_top && is_same_along(function, softmax.divisor, last)) {
        return Ok(RowFunction::Softmax(softmax));
    }
    let mut levels: Vec<(usize, RowReduction)> = Vec::new();
    for &inst in function.insts(function.body).iter().filter(|&&inst| function.kind_of(inst) == OpKind::Reduce) {
        let operands = function.operands(inst);
        let is_along = operands.len() == 2 && group.tensor(operands[0]).dims == *dims && function.axes(inst, "dims") == [last];
        let (Some(monoid), true) = (monoid_of(function, inst), is_along) else {
            match operands.iter().any(|&operand| depends(function, result, operand)) {
                true => return Err("rows are combined in an order of their own".into()),
                false => continue,
            }
        };
        let is_behind =
            |earlier: &RowReduction| operands.iter().any(|&operand| depends(function, function.result(earlier.inst), operand));
        let before = levels.iter().filter(|(_, earlier)| is_behind(earlier)).map(|(level, _)| level + 1).max();
        levels.push((before.unwrap_or(0), RowReduction { inst, monoid }));
    }
    let mut phases: Vec<Vec<RowReduction>> = Vec::new();
    for (level, reduction) in levels {
        phases.resize_with(phases.len().max(level + 1), Vec::new);
        phases[level].push(reduction);
    }
    Ok(RowFunction::Phases(phases))
}

/// Returns true if a value is the same along a dimension, by the ops that compute it from results
/// of reductions.
fn is_same_along(function: &Function, value: Value, axis: usize) -> bool {
    let Some(inst) = function.defining(value) else { return false };
    let operands = function.operands(inst);
    match function.kind_of(inst) {
        OpKind::Constant => function.splat(value).is_some(),
        OpKind::BroadcastInDim => {
            let from = function.axes(inst, "dims").iter().position(|&dim| dim == axis);
            from.is_none_or(|from| function.shape(operands[0])[from].is_const(1))
        }
        _ => function.def(inst).has(Trait::Elementwise) && operands.iter().all(|&operand| is_same_along(function, operand, axis)),
    }
}
