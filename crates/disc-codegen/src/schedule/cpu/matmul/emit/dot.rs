//! Multiplies along memory: blocks of a few rows and columns, with vectors along the sums.
//!
//! Products of few columns or few rows are computed this way, for which packing panels, or padding
//! them with zeros, would cost more than the products. Each block's sums are vectors, which are
//! reduced at the end.
use super::{operands::Operands, partial_sums, step::starts, write::store};
use crate::{
    element::matmul::multiply_add,
    kernel::{Index, KernelBuilder, Site},
    schedule::{Group, cpu::matmul::plan::MatmulPlan},
};
use disc_ir::{Function, FunctionKind, Solver, Value};
use disc_kernel_macros::expr;

/// Vectors of a lone sum that are added to in turn.
const CHAINS: usize = 4;

pub(in crate::schedule) fn name(part: &str, rows: u32, columns: u32) -> String {
    format!("{part}.dot{rows}x{columns}")
}

/// Emits the routine for a block.
pub(in crate::schedule) fn emit(
    group: &Group<'_>,
    plan: &MatmulPlan,
    part: &str,
    rows: u32,
    columns: u32,
) -> (Function, Vec<Site>) {
    let mut kb = group.builder(&name(part, rows, columns), FunctionKind::Routine);
    let operands = Operands::parameters(&mut kb, group, plan);
    let mut scalar = |name: &str| kb.position(name);
    let [left, right, row, column] = ["left", "right", "row", "column"].map(&mut scalar);
    let outer: Vec<Value> = (0..plan.shape.outer.len()).map(|i| scalar(&format!("outer{i}"))).collect();

    let lefts = starts(&mut kb, left, &plan.shape.m.left, rows);
    let rights = starts(&mut kb, right, &plan.shape.n.right, columns);
    let sums = accumulate(&mut kb, group, plan, [(operands.left(), lefts), (operands.right(), rights)]);
    let mut elements = operands.elements(group, plan, 1);
    for (i, &sum) in sums.iter().enumerate() {
        let mut at = vec![Index::uniform(kb.int(0)); plan.shape.rank];
        for (run, &position) in plan.shape.outer.iter().zip(&outer) {
            at[run.run.axis] = Index::uniform(position);
        }
        for (axis, base, offset) in [(plan.shape.m.dim, row, i as u32 / columns), (plan.shape.n.dim, column, i as u32 % columns)]
        {
            if let Some(axis) = axis {
                let offset = kb.int(i64::from(offset));
                at[axis] = Index::uniform(expr!(kb, base + offset));
            }
        }
        elements.scoped(|elements| store(&mut kb, group, plan, &operands, elements, &at, sum));
    }
    (kb.finish(), elements.sites)
}

/// Rows and columns that are multiplied along memory.
struct Block<'p> {
    plan: &'p MatmulPlan,
    /// The memory of the rows and of the columns, and the start of each.
    left: (Value, Vec<Value>),
    right: (Value, Vec<Value>),
}

impl Block<'_> {
    fn read(&self, kb: &mut KernelBuilder, buffer: Value, at: Value, mask: Option<Value>) -> Value {
        let loaded = kb.load(buffer, at, self.plan.tile.lanes, mask);
        kb.convert(loaded, self.plan.compute)
    }

    /// Adds the products of a vector of each row and each column, from `k` on, to the sums.
    fn step(&self, kb: &mut KernelBuilder, k: Value, sums: &[Value], mask: Option<Value>) -> Vec<Value> {
        let mut columns = Vec::with_capacity(self.right.1.len());
        for &start in &self.right.1 {
            let here = expr!(kb, start + k);
            columns.push(self.read(kb, self.right.0, here, mask));
        }
        let mut next = Vec::with_capacity(sums.len());
        for (&start, sums) in self.left.1.iter().zip(sums.chunks(columns.len())) {
            let here = expr!(kb, start + k);
            let row = self.read(kb, self.left.0, here, mask);
            let products = sums.iter().zip(&columns);
            next.extend(products.map(|(&sum, &column)| multiply_add(kb, self.plan.compute, row, column, sum)));
        }
        next
    }

    /// Adds one sum in `CHAINS` vectors in turn; gives it and the step it ends at, with less than a
    /// turn left of `size`.
    fn in_turn(&self, kb: &mut KernelBuilder, solver: &Solver, none: Value, size: Value) -> (Value, Value) {
        let lanes = i64::from(self.plan.tile.lanes);
        let (zero, turn) = (kb.int(0), kb.int(lanes * CHAINS as i64));
        let whole = expr!(kb, size / turn * turn);
        let block =
            partial_sums::block(self.plan, solver, &self.plan.shape.k.size, lanes * CHAINS as i64 * partial_sums::VECTORS);
        let sums = partial_sums::in_blocks(kb, self.plan, [zero, whole], block, &[none; CHAINS], &mut |kb, [from, to], sums| {
            kb.for_([from, to, turn], sums, |kb, k, carried| {
                let mut next = Vec::with_capacity(CHAINS);
                for (chain, sum) in carried.chunks(1).enumerate() {
                    let here = expr!(kb, k + int(chain as i64 * lanes));
                    next.extend(self.step(kb, here, sum, None));
                }
                next
            })
        });
        (sums[1..].iter().fold(sums[0], |a, &b| expr!(kb, a + b)), whole)
    }
}

/// Gives the sums of rows and columns, row by row, from their memory and the start of each.
pub(in crate::schedule) fn accumulate(
    kb: &mut KernelBuilder,
    group: &Group<'_>,
    plan: &MatmulPlan,
    [left, right]: [(Value, Vec<Value>); 2],
) -> Vec<Value> {
    let lanes = plan.tile.lanes;
    let count = left.1.len() * right.1.len();
    let block = Block { plan, left, right };
    let none = kb.zero(plan.compute, lanes);
    let (low, size, vector) = (kb.int(0), kb.dim(&plan.shape.k.size), kb.int(i64::from(lanes)));
    let (sums, low) = match count {
        1 => {
            let (sum, low) = block.in_turn(kb, &group.solver, none, size);
            (vec![sum], low)
        }
        count => (vec![none; count], low),
    };
    let whole = expr!(kb, size / vector * vector);
    let long = partial_sums::block(plan, &group.solver, &plan.shape.k.size, i64::from(lanes) * partial_sums::VECTORS)
        .filter(|_| count > 1);
    let sums = partial_sums::in_blocks(kb, plan, [low, whole], long, &sums, &mut |kb, [from, to], sums| {
        kb.for_([from, to, vector], sums, |kb, k, carried| block.step(kb, k, carried, None))
    });
    let sums = match group.solver.divisible(&plan.shape.k.size, i64::from(lanes)) {
        true => sums,
        // At most one turn, for what is left.
        false => kb.for_([whole, size, vector], &sums, |kb, k, carried| {
            let left = expr!(kb, size - k);
            let mask = kb.lane_mask(left, lanes);
            block.step(kb, k, carried, Some(mask))
        }),
    };
    sums.into_iter().map(|sum| kb.reduce_lanes(sum, "add")).collect()
}
