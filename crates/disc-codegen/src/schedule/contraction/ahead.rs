//! What an epilogue reads beside the sums, fetched while they are computed.
//!
//! A block's rows of a residual lie in lines of their own, a whole row of the tensor apart: nothing else fetches them, and behind the sums nothing
//! is left to compute while they come. A row goes with each step, or round of steps: all at once, they would keep the operands waiting. Not here:
//! panels, of which `micro` fetches the next one.
//!
//! Invariant: nothing is read, so that a place may lie behind the last column, or behind the memory.
use super::{
    epilogue::before_transpose,
    micro::{LINE, Piece},
    parameters::{HeldParameters, Parameters},
    plan::ContractionPlan,
};
use crate::{build::KernelBuilder, index::Index, schedule::Group};
use disc_ir::{Attr, Dim, OpKind, Value, ops::Trait};
use std::collections::HashSet;

/// The block of each input that outputs read element by element.
pub(super) struct Ahead {
    /// Buffers, and where the block's first row starts in each.
    inputs: Vec<(Value, Value)>,
    stride: Value,
    last: Value,
    /// Columns of the block.
    width: i64,
}

impl Ahead {
    /// What there is to fetch for a block, if anything; nothing is fetched here.
    pub(super) fn of_block(
        kb: &mut KernelBuilder,
        group: &Group<'_>,
        plan: &ContractionPlan,
        parameters: &Parameters,
        rows: u32,
        pieces: &[Piece],
    ) -> Option<Self> {
        let columns = plan.n_axis.filter(|&axis| axis + 1 == plan.rank)?;
        let axis = plan.m_axis.filter(|_| matches!(parameters.held, HeldParameters::None))?;
        let read = read_beside(group, plan);
        let behind = &group.tensor(*read.first()?).dims[axis + 1..];
        // Elements of its own: behind the sums, nothing from before them is to be held in registers.
        let elements = parameters.operands.elements(group, plan, plan.tile.lanes);
        let mut at = parameters.row_of_result(kb, plan, 0);
        at[columns] = Index::Affine { base: parameters.column, stride: 1 };
        let inputs = read.iter().map(|&input| (elements.buffer(input), elements.start_of(kb, input, &at))).collect();
        let stride = kb.dim(&behind.iter().fold(Dim::constant(1), |size, dim| size * dim));
        let width = pieces.iter().map(|piece| piece.shift + i64::from(piece.lanes)).max()?;
        Some(Self { inputs, stride, last: kb.int(i64::from(rows) - 1), width })
    }

    /// Fetches a row of the block; behind the last one, that one again.
    pub(super) fn fetch(&self, kb: &mut KernelBuilder, row: Value) {
        let row = kb.map(OpKind::Minimum, &[row, self.last]);
        let along = kb.mul(row, self.stride);
        for &(buffer, start) in &self.inputs {
            let line = LINE / kb.dtype(buffer).size() as i64;
            let start = kb.add(start, along);
            // Rows begin anywhere in a line.
            for shift in (0..self.width).step_by(line as usize).chain([self.width - 1]) {
                let shift = kb.int(shift);
                let place = kb.add(start, shift);
                kb.emit_all(OpKind::Prefetch, &[buffer, place], &[("locality", Attr::Int(2))], None);
            }
        }
    }
}

/// Inputs of the product's sizes that element-wise ops join with it.
fn read_beside(group: &Group<'_>, plan: &ContractionPlan) -> Vec<Value> {
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
