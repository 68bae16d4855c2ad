//! Prefetches memory in rows far apart while sums are computed: the inputs of an epilogue, the
//! lines of the results, the left operand, and the next panel.
//!
//! A block's rows of a residual are in lines of their own, a whole row of the tensor apart: nothing
//! else fetches them, and after the sums nothing is left to compute while they come. A row goes
//! with each step, or round of steps: all at once, they would keep the operands waiting.
//!
//! Invariant: nothing is read, so that a place may be after the last column, or after the memory.
use super::parameters::{Parameters, RowBufferParameters};
use crate::{
    kernel::{Index, KernelBuilder},
    schedule::{
        Group,
        cpu::matmul::plan::{MatmulPlan, epilogue::before_transpose, forms::RightForm, rounds::round_steps, source::Piece},
    },
    target::CpuModel,
};
use disc_ir::{Attr, Dim, OpKind, Value, ops::Trait};
use disc_kernel_macros::expr;
use std::collections::HashSet;

/// Up to this many rows, panels pass so fast that the hardware's own prefetching is better.
pub(in crate::schedule) const FETCHED_ROWS: u32 = 4;

/// Sums of up to so many products leave stores little time: the lines of results are prefetched
/// too. Beside panels of weights, with long blocks of rows, they are in any case.
const STORE_BOUND_SUM: i64 = 256;

/// The block of each input that outputs read element by element and, beside panels or short sums,
/// of outputs in the product's order.
pub(in crate::schedule) struct EpiloguePrefetch {
    /// Buffers, and the start of the block's first row in each.
    blocks: Vec<(Value, Value)>,
    stride: Value,
    last: Value,
    /// Columns of the block.
    width: i64,
}

impl EpiloguePrefetch {
    /// Finds the rows to prefetch for a block, if any. Results that are interleaved go to other
    /// lines.
    pub(in crate::schedule) fn of_block(
        kb: &mut KernelBuilder,
        group: &Group<'_>,
        plan: &MatmulPlan,
        parameters: &Parameters,
        rows: u32,
        pieces: &[Piece],
    ) -> Option<Self> {
        let columns = plan.shape.n.dim.filter(|&axis| axis + 1 == plan.shape.rank)?;
        let axis = plan
            .shape
            .m
            .dim
            .filter(|_| matches!(parameters.held, RowBufferParameters::None) && plan.result.interleaved().is_none())?;
        let mut values = read_beside(group, plan);
        let is_short = plan.shape.k.size.as_const().is_some_and(|size| size <= STORE_BOUND_SUM);
        if is_short || (plan.right.form == RightForm::Panels && rows > FETCHED_ROWS) {
            let straight = |(&value, order): (&Value, &Vec<usize>)| order.is_sorted().then_some(value);
            values.extend(plan.outputs.iter().zip(&plan.shape.orders).filter_map(straight));
        }
        let behind = &group.tensor(*values.first()?).dims[axis + 1..];
        // Elements of its own: after the sums, nothing from before them is to stay in registers.
        let mut elements = parameters.operands.elements(group, plan, plan.tile.lanes);
        for (&value, &buffer) in plan.outputs.iter().zip(&parameters.operands.outputs) {
            elements.bind(value, buffer);
        }
        let mut at = parameters.row_of_result(kb, plan, 0);
        at[columns] = Index::Affine { base: parameters.column, stride: 1 };
        let blocks = values.iter().map(|&value| (elements.buffer(value), elements.start_of(kb, value, &at))).collect();
        let stride = kb.dim(&behind.iter().fold(Dim::constant(1), |size, dim| size * dim));
        let width = pieces.iter().map(|piece| piece.shift + i64::from(piece.lanes)).max()?;
        Some(Self { blocks, stride, last: kb.int(i64::from(rows) - 1), width })
    }

    /// Prefetches a row of the block; after the last one, that one again.
    pub(in crate::schedule) fn fetch(&self, kb: &mut KernelBuilder, row: Value) {
        let along = expr!(kb, min(row, self.last) * self.stride);
        for &(buffer, start) in &self.blocks {
            let line = CpuModel::LINE_BYTES / kb.dtype(buffer).size() as i64;
            let start = expr!(kb, start + along);
            // Rows begin anywhere in a line.
            for shift in (0..self.width).step_by(line as usize).chain([self.width - 1]) {
                let place = expr!(kb, start + int(shift));
                kb.emit_all(OpKind::Prefetch, &[buffer, place], &[("locality", Attr::Int(2))], None);
            }
        }
    }
}

/// The left operand's rows: those of the next block or, if rows are long, the block's own some
/// steps ahead.
///
/// Weights on the left come from memory, and a block reads as many rows as it has at once, each of
/// which the hardware sees begin too late.
pub(in crate::schedule) struct RowPrefetch {
    buffer: Value,
    /// The start of the block's first row, and of the next block's.
    starts: [Value; 2],
    /// Elements from one row to the next.
    stride: Value,
    rows: i64,
    /// The steps ahead, and the number of steps; none if rows are short.
    near: Option<[Value; 2]>,
}

/// Bytes of a block's rows that may wait in the second-level cache.
const BLOCK_BYTES: i64 = 64 << 10;

/// Steps that longer rows are prefetched ahead: they take some 300 ns, in which the rows come from
/// memory.
const ROW_STEPS_AHEAD: i64 = 128;

impl RowPrefetch {
    /// Finds the rows to prefetch beside a block of `rows` rows, if any.
    pub(in crate::schedule) fn of_block(
        kb: &mut KernelBuilder,
        plan: &MatmulPlan,
        parameters: &Parameters,
        rows: u32,
    ) -> Option<Self> {
        let is_read =
            !plan.left.is_packed() && plan.shape.k.left.is_const(1) && plan.partition.blocks.is_none() && plan.word.is_none();
        if !is_read || rows <= FETCHED_ROWS {
            return None;
        }
        let buffer = parameters.operands.left();
        let stride = kb.dim(&plan.shape.m.left);
        let along = expr!(kb, int(i64::from(rows)) * stride);
        let starts = [parameters.left, expr!(kb, parameters.left + along)];
        let bytes = kb.dtype(buffer).size() as i64 * i64::from(rows);
        let is_short = plan.shape.k.size.as_const().is_some_and(|size| size * bytes <= BLOCK_BYTES);
        let near = (!is_short).then(|| {
            let steps = Dim::min(&plan.shape.k.size, &Dim::constant(ROW_STEPS_AHEAD));
            [kb.dim(&steps), kb.dim(&plan.shape.k.size)]
        });
        Some(Self { buffer, starts, stride, rows: i64::from(rows), near })
    }

    /// Prefetches a line of a row with step `k`, of two rows if lines have fewer elements than a
    /// block has rows: one of each row in turn, then the next line of each. Turns that are left
    /// repeat the last row.
    pub(in crate::schedule) fn fetch(&self, kb: &mut KernelBuilder, k: Value) {
        let elements = CpuModel::LINE_BYTES / kb.dtype(self.buffer).size() as i64;
        let turn = expr!(kb, k % int(elements));
        let first = expr!(kb, k - turn);
        let (start, along) = match self.near {
            None => (self.starts[1], first),
            Some([steps, size]) => {
                let ahead = expr!(kb, first + steps);
                let (is_behind, behind) = (expr!(kb, size <= ahead), expr!(kb, ahead - size));
                let start = kb.select(is_behind, self.starts[1], self.starts[0]);
                (start, kb.select(is_behind, behind, ahead))
            }
        };
        let start = expr!(kb, start + along);
        let last = kb.int(self.rows - 1);
        for shift in (0..self.rows).step_by(elements as usize) {
            let place = expr!(kb, start + min(turn + int(shift), last) * self.stride);
            kb.emit_all(OpKind::Prefetch, &[self.buffer, place], &[("locality", Attr::Int(2))], None);
        }
    }
}

/// Finds the inputs of the product's sizes that element-wise ops join with it.
fn read_beside(group: &Group<'_>, plan: &MatmulPlan) -> Vec<Value> {
    let function = group.function;
    let product = function.result(plan.dot);
    let sizes = &group.tensor(product).dims;
    let is_like = |value| {
        let dims = &group.tensor(value).dims;
        dims.len() == sizes.len() && dims.iter().zip(sizes).all(|(a, b)| group.solver.equal(a, b))
    };
    let mut open: Vec<Value> = plan.outputs.iter().map(|&output| before_transpose(function, output)).collect();
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    while let Some(value) = open.pop() {
        if value == product || !seen.insert(value) {
            continue;
        }
        match function.defining(value) {
            None if plan.inputs.contains(&value) && is_like(value) => found.push(value),
            Some(inst) if function.def(inst).has(Trait::Elementwise) => open.extend(function.operands(inst)),
            _ => {}
        }
    }
    found
}

/// Counts the lines of a panel of weights that are read in a round.
pub(in crate::schedule) fn round_lines(kb: &KernelBuilder, plan: &MatmulPlan, weights: Value) -> i64 {
    let step = i64::from(plan.tile.columns) * plan.word_size() * kb.dtype(weights).size() as i64;
    step * round_steps(plan.tile) / CpuModel::LINE_BYTES
}

/// Gives the lines of the next panel to prefetch in each round: all of them, spread over so many
/// blocks.
pub(in crate::schedule) fn share(kb: &mut KernelBuilder, plan: &MatmulPlan, weights: Value, blocks: Value) -> Value {
    let lines = round_lines(kb, plan, weights);
    let one = kb.int(1);
    expr!(kb, (int(lines) + blocks - one) / blocks)
}

/// Prefetches this block's share of the next panel: `fetches` lines per round, the share of block
/// `b` after those of the blocks before.
pub(in crate::schedule) fn next_panel(kb: &mut KernelBuilder, plan: &MatmulPlan, parameters: &Parameters, k: Value) {
    let b = parameters.operands.right();
    let elements = CpuModel::LINE_BYTES / kb.dtype(b).size() as i64;
    let next = expr!(kb, parameters.right + dim(&plan.panel_size()));
    let rounds = expr!(kb, (parameters.block * dim(&plan.word_steps()) + k) / int(round_steps(plan.tile)));
    let lines = expr!(kb, rounds * parameters.fetches);
    let line = kb.int(elements);
    let from = expr!(kb, next + lines * line);
    let (zero, one) = (kb.int(0), kb.int(1));
    kb.for_([zero, parameters.fetches, one], &[from], |kb, _, carried| {
        kb.emit_all(OpKind::Prefetch, &[b, carried[0]], &[("locality", Attr::Int(2))], None);
        vec![expr!(kb, carried[0] + line)]
    });
}
