//! Packs into task memory: panels of the right operand `[k][NR]`, and rows of the left one
//! `[row][k]`, both in the type of the sums.
use super::{
    dot_words, im2col,
    masks::column_masks,
    operands::{Operands, operand_element},
};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::{
        common::vector_loop::vector_loop,
        cpu::matmul::plan::{MatmulPlan, im2col::Im2col},
    },
};
use disc_ir::Value;
use disc_kernel_macros::expr;

/// Copies a panel whose columns are contiguous.
pub(in crate::schedule) fn copy_panel(
    kb: &mut KernelBuilder,
    plan: &MatmulPlan,
    operands: &Operands,
    base: Value,
    column: Value,
) {
    let panel = operands.panel();
    let masks = column_masks(kb, plan, column);
    let (zero, one, depth) = (kb.int(0), kb.int(1), kb.dim(&plan.shape.k.size));
    let (stride, width) = (kb.dim(&plan.shape.k.right), kb.int(i64::from(plan.tile.columns)));
    let from = expr!(kb, base + column);
    kb.for_each([zero, depth, one], |kb, k| {
        let (step, to) = (expr!(kb, k * stride), expr!(kb, k * width));
        let here = expr!(kb, from + step);
        for (v, &mask) in masks.iter().enumerate() {
            let shift = kb.int(v as i64 * i64::from(plan.tile.lanes));
            let at = expr!(kb, here + shift);
            let loaded = kb.load(operands.right(), at, plan.tile.lanes, mask);
            let loaded = kb.convert(loaded, plan.compute);
            let there = expr!(kb, to + shift);
            kb.store(panel, there, loaded, None);
        }
    });
}

/// Transposes a panel that is contiguous along the sums, square by square.
pub(in crate::schedule) fn transpose_panel(
    kb: &mut KernelBuilder,
    plan: &MatmulPlan,
    operands: &Operands,
    base: Value,
    column: Value,
) {
    let panel = operands.panel();
    let (lanes, size) = (i64::from(plan.tile.lanes), plan.word_size());
    let (zero, side, wide) = (kb.int(0), kb.int(lanes), kb.int(lanes * size));
    let per_word = kb.int(size);
    let (depth, columns) = (kb.dim(&plan.shape.k.size), kb.dim(&plan.shape.n.size));
    let (stride, width) = (kb.dim(&plan.shape.n.right), kb.int(i64::from(plan.tile.columns)));
    for v in 0..plan.tile.columns / plan.tile.lanes {
        let shift = kb.int(i64::from(v) * lanes);
        let first = expr!(kb, column + shift);
        let across = expr!(kb, columns - first);
        // The micro-kernel of half a panel does not read the other half.
        let unread = plan.half_panel().is_some_and(|(_, half)| v * plan.tile.lanes >= half);
        let none = expr!(kb, across <= zero);
        let depth = if unread { kb.select(none, zero, depth) } else { depth };
        kb.for_each([zero, depth, wide], |kb, k| {
            let along = expr!(kb, depth - k);
            let is_whole = expr!(kb, (along >= wide) & (across >= side));
            let square = |kb: &mut KernelBuilder, whole: bool| {
                let mut rows = Vec::new();
                for i in 0..lanes {
                    let number = kb.int(i);
                    let at = expr!(kb, base + (first + number) * stride + k);
                    // A column after the last one has no lanes.
                    let mask = (!whole).then(|| {
                        let count = expr!(kb, select(number < across, along, zero));
                        kb.lane_mask(count, (lanes * size) as u32)
                    });
                    let loaded = kb.load(operands.right(), at, (lanes * size) as u32, mask);
                    let loaded = kb.convert(loaded, plan.rows_dtype());
                    rows.push(match plan.word {
                        Some(word) => kb.recast(loaded, word.dtype),
                        None => loaded,
                    });
                }
                let first = expr!(kb, k / per_word);
                for (i, row) in kb.transpose_lanes(&rows).into_iter().enumerate() {
                    let to = expr!(kb, (first + int(i as i64)) * width + shift);
                    kb.store(panel, to, row, None);
                }
                Vec::new()
            };
            kb.if_(is_whole, |kb| square(kb, true), |kb| square(kb, false));
        });
    }
}

/// Computes a panel, element by element.
pub(in crate::schedule) fn compute_panel(
    kb: &mut KernelBuilder,
    plan: &MatmulPlan,
    operands: &Operands,
    elements: &mut Elements<'_>,
    at: &[Index],
    column: Value,
) {
    if let Some(windows) = Im2col::of(elements.group, plan) {
        im2col::pack(kb, &windows, plan, operands, at, column);
        if let Some(word) = plan.word {
            dot_words::weave_rows(kb, plan, word, operands.panel());
        }
        return;
    }
    let panel = operands.panel();
    let masks = column_masks(kb, plan, column);
    let width = kb.int(i64::from(plan.tile.columns));
    along_sums(kb, elements, plan, plan.shape.sums.len(), &mut |kb, elements, sums| {
        let k = linear(kb, plan, sums);
        let to = expr!(kb, k * width);
        for (v, &mask) in masks.iter().enumerate() {
            let shift = kb.int(v as i64 * i64::from(plan.tile.lanes));
            let mut at = at.to_vec();
            if let Some(axis) = plan.shape.n.dim {
                at[axis] = Index::Affine { base: expr!(kb, column + shift), stride: 1 };
            }
            let there = expr!(kb, to + shift);
            elements.masked(mask, |elements| {
                let value = operand_element(kb, &plan.right.operand, elements, &at, sums);
                let value = kb.convert(value, plan.compute);
                let value = kb.widen(value, plan.tile.lanes);
                kb.store(panel, there, value, None);
            });
        }
    });
}

/// Computes the rows from `first` to below `last`.
pub(in crate::schedule) fn compute_rows(
    kb: &mut KernelBuilder,
    plan: &MatmulPlan,
    operands: &Operands,
    elements: &mut Elements<'_>,
    at: &[Index],
    [first, last]: [Value; 2],
) {
    let rows = operands.rows();
    let (one, stride) = (kb.int(1), kb.dim(&plan.shape.m.left));
    let row_loop = kb.open_for([first, last, one]);
    let (row, mut at) = (row_loop.index, at.to_vec());
    if let Some(axis) = plan.shape.m.dim {
        at[axis] = Index::uniform(row);
    }
    let to = expr!(kb, (row - first) * stride);
    dot_words::end_row(kb, plan, rows, to);
    elements.scoped(|elements| {
        let Some((last_sum, others)) = plan.shape.sums.split_last() else {
            let value = operand_element(kb, &plan.left.operand, elements, &at, &[]);
            let value = kb.convert(value, plan.rows_dtype());
            let value = first_lane(kb, value);
            return kb.store(rows, to, value, None);
        };
        along_sums(kb, elements, plan, others.len(), &mut |kb, elements, outer| {
            let (zero, size) = (kb.int(0), kb.dim(last_sum));
            vector_loop(kb, elements, [zero, size], false, &mut |kb, elements, index| {
                let sums: Vec<Index> = outer.iter().copied().chain([index]).collect();
                let value = operand_element(kb, &plan.left.operand, elements, &at, &sums);
                let value = kb.convert(value, plan.rows_dtype());
                let value = kb.widen(value, plan.tile.lanes);
                let Index::Affine { base, .. } = index else { panic!("a loop counts in steps of one") };
                let mut start = sums.clone();
                *start.last_mut().expect("there is a sum") = Index::uniform(base);
                let k = linear(kb, plan, &start);
                let there = expr!(kb, to + k);
                kb.store(rows, there, value, elements.mask);
            });
        });
    });
    kb.close_for(row_loop);
}

fn first_lane(kb: &mut KernelBuilder, value: Value) -> Value {
    match kb.lanes(value) {
        1 => value,
        _ => kb.extract_lane(value, 0),
    }
}

/// Runs `body` for all positions along the first `count` sums.
fn along_sums(
    kb: &mut KernelBuilder,
    elements: &mut Elements<'_>,
    plan: &MatmulPlan,
    count: usize,
    body: &mut dyn FnMut(&mut KernelBuilder, &mut Elements<'_>, &[Index]),
) {
    let (zero, one) = (kb.int(0), kb.int(1));
    let mut loops = Vec::new();
    for size in &plan.shape.sums[..count] {
        let size = kb.dim(size);
        loops.push(kb.open_for([zero, size, one]));
    }
    let indices: Vec<Index> = loops.iter().map(|open| Index::uniform(open.index)).collect();
    elements.scoped(|elements| body(kb, elements, &indices));
    while let Some(open) = loops.pop() {
        kb.close_for(open);
    }
}

/// Gives the position in the order of the sums.
fn linear(kb: &mut KernelBuilder, plan: &MatmulPlan, sums: &[Index]) -> Value {
    let mut position = kb.int(0);
    for (index, size) in sums.iter().zip(&plan.shape.sums) {
        position = expr!(kb, position * dim(size));
        position = expr!(kb, position + index.as_uniform().expect("a loop's index is a scalar"));
    }
    position
}
