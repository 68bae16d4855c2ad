//! Micro-kernels: one block of results, kept in registers from the first multiplication to the store.
use super::{
    epilogue_elements,
    plan::{ContractionPlan, Right, before_transpose},
};
use crate::{
    build::KernelBuilder,
    element::{RowBlock, Site},
    index::Index,
    schedule::Group,
};
use disc_ir::{Attr, DType, Dim, Function, FunctionKind, OpKind, Space, TensorType, Type, Value};

/// Steps of the summed dimension between two rounds of prefetches. The steps of a round are a loop of their own and not unrolled: LLVM would
/// gather the loads of several steps and spill the sums.
pub(super) const ROUND: i64 = 8;
/// Elements of four bytes in a cache line.
const LINE: i64 = 16;

pub(super) fn name(group: &str, rows: u32) -> String {
    format!("{group}.rows{rows}")
}

/// The arguments of a micro-kernel.
struct Parameters {
    memory: Vec<Value>,
    packed: Option<Value>,
    left: Value,
    right: Value,
    row: Value,
    column: Value,
    block: Value,
    fetches: Value,
    outer: Vec<Value>,
}

/// The micro-kernel for `rows` rows and one panel, and where it can fail. Of the value `in_task`, an operand or an output, only the rows of
/// the block are in memory, in task memory.
pub(super) fn emit(group: &Group<'_>, plan: &ContractionPlan, rows: u32, in_task: Option<Value>) -> (Function, Vec<Site>) {
    let mut kb = KernelBuilder::new(&name(&group.name, rows), FunctionKind::Routine);
    let parameters = declare(&mut kb, group, plan, in_task);
    let masks = column_masks(&mut kb, group, plan, &parameters);
    let sums = accumulate(&mut kb, plan, &parameters, rows, &masks);
    let mut elements = epilogue_elements(group, &parameters.memory, plan.tile.lanes);
    if let Some(output) = group.outputs().iter().position(|&o| Some(o) == in_task) {
        let stride = kb.dim(&plan.n.size);
        elements.hold_rows(parameters.memory[group.inputs().len() + output], RowBlock { first: parameters.row, stride });
    }
    write(&mut kb, group, plan, &parameters, &mut elements, &sums, &masks);
    (kb.finish(), elements.sites)
}

fn declare(kb: &mut KernelBuilder, group: &Group<'_>, plan: &ContractionPlan, in_task: Option<Value>) -> Parameters {
    let mut memory = Vec::new();
    let declare = |kb: &mut KernelBuilder, name: String, value: Value| match in_task {
        Some(held) if held == value => {
            kb.parameter(&name, Type::Buffer { tensor: plan.row_block(group.tensor(value)), space: Space::Task })
        }
        _ => kb.buffer(&name, group.tensor(value).clone()),
    };
    for (i, &input) in group.inputs().iter().enumerate() {
        memory.push(declare(kb, format!("in{i}"), input));
    }
    for (i, &output) in group.outputs().iter().enumerate() {
        memory.push(declare(kb, format!("out{i}"), output));
    }
    let packed = (plan.right == Right::PackedByUnit).then(|| {
        let padded = plan.panels() * i64::from(plan.tile.columns);
        let tensor = TensorType::new([padded * &plan.k.size], plan.compute);
        kb.parameter("packed", Type::Buffer { tensor, space: Space::Task })
    });
    let mut scalar = |name: &str| kb.parameter(name, Type::scalar(DType::I64));
    let [left, right, row, column, block, fetches] = ["left", "right", "row", "column", "block", "fetches"].map(&mut scalar);
    let outer = (0..plan.outer.len()).map(|i| scalar(&format!("outer{i}"))).collect();
    Parameters { memory, packed, left, right, row, column, block, fetches, outer }
}

/// For each vector of the panel, which lanes are columns; `None` where all of them always are.
fn column_masks(
    kb: &mut KernelBuilder,
    group: &Group<'_>,
    plan: &ContractionPlan,
    parameters: &Parameters,
) -> Vec<Option<Value>> {
    let lanes = plan.tile.lanes;
    if group.solver.divisible(&plan.n.size, i64::from(plan.tile.columns)) {
        return vec![None; (plan.tile.columns / lanes) as usize];
    }
    let size = kb.dim(&plan.n.size);
    let left = kb.sub(size, parameters.column);
    let masks = (0..plan.tile.columns / lanes).map(|v| {
        let shift = kb.int(i64::from(v * lanes));
        let count = kb.sub(left, shift);
        Some(kb.lane_mask(count, lanes))
    });
    masks.collect()
}

/// The sums of products: `rows` times the panel's vectors, row by row.
fn accumulate(
    kb: &mut KernelBuilder,
    plan: &ContractionPlan,
    parameters: &Parameters,
    rows: u32,
    masks: &[Option<Value>],
) -> Vec<Value> {
    let (a, b) = (parameters.memory[plan.left_input], parameters.packed.unwrap_or(parameters.memory[plan.right_input]));
    let width = match plan.right {
        Right::InPlace => plan.k.right.clone(),
        Right::Prepacked | Right::PackedByUnit => Dim::constant(i64::from(plan.tile.columns)),
    };
    let (a_step, b_step) = (kb.dim(&plan.k.left), kb.dim(&width));
    let row_stride = kb.dim(&plan.m.left);
    let mut starts = vec![parameters.left];
    for _ in 1..rows {
        let next = kb.add(*starts.last().expect("there is a row"), row_stride);
        starts.push(next);
    }
    // Packed panels are padded: only memory that is read in place needs masks.
    let in_place = plan.right == Right::InPlace;
    let step = |kb: &mut KernelBuilder, k: Value, sums: &[Value]| -> Vec<Value> {
        let from = kb.mul(k, b_step);
        let from = kb.add(from, parameters.right);
        let mut panel = Vec::with_capacity(masks.len());
        for (v, &mask) in masks.iter().enumerate() {
            let shift = kb.int(v as i64 * i64::from(plan.tile.lanes));
            let here = kb.add(from, shift);
            let loaded = kb.load(b, here, plan.tile.lanes, mask.filter(|_| in_place));
            panel.push(kb.convert(loaded, plan.compute));
        }
        let along = kb.mul(k, a_step);
        let mut next = Vec::with_capacity(sums.len());
        for (row, &start) in starts.iter().enumerate() {
            let here = kb.add(start, along);
            let element = kb.load(a, here, 1, None);
            let element = kb.convert(element, plan.compute);
            let element = kb.widen(element, plan.tile.lanes);
            for (v, &column) in panel.iter().enumerate() {
                next.push(kb.fma(element, column, sums[row * panel.len() + v]));
            }
        }
        next
    };
    let zero = kb.zero(plan.compute, plan.tile.lanes);
    let sums = vec![zero; rows as usize * masks.len()];
    let (start, size) = (kb.int(0), kb.dim(&plan.k.size));
    let (round, one) = (kb.int(ROUND), kb.int(1));
    if plan.right != Right::Prepacked {
        return kb.for_([start, size, one], &sums, |kb, k, carried| step(kb, k, carried));
    }
    let whole = kb.div(size, round);
    let whole = kb.mul(whole, round);
    let sums = kb.for_([start, whole, round], &sums, |kb, k, carried| {
        prefetch(kb, plan, parameters, b, k);
        let end = kb.add(k, round);
        kb.for_([k, end, one], carried, |kb, k, carried| step(kb, k, carried))
    });
    kb.for_([whole, size, one], &sums, |kb, k, carried| step(kb, k, carried))
}

/// Fetches this block's share of the next panel: `fetches` lines per round, the share of block `b` after those of the blocks before.
fn prefetch(kb: &mut KernelBuilder, plan: &ContractionPlan, parameters: &Parameters, b: Value, k: Value) {
    let size = kb.dim(&(&plan.k.size * i64::from(plan.tile.columns)));
    let next = kb.add(parameters.right, size);
    let per_step = kb.int(LINE / ROUND);
    let share = kb.dim(&plan.k.size);
    let before = kb.mul(parameters.block, share);
    let done = kb.add(before, k);
    let lines = kb.mul(done, parameters.fetches);
    let from = kb.mul(lines, per_step);
    let from = kb.add(next, from);
    let (zero, one, line) = (kb.int(0), kb.int(1), kb.int(LINE));
    kb.for_([zero, parameters.fetches, one], &[from], |kb, _, carried| {
        kb.emit_all(OpKind::Prefetch, &[b, carried[0]], &[("locality", Attr::Int(2))], None);
        vec![kb.add(carried[0], line)]
    });
}

/// Applies the epilogue to each vector of results and stores it.
fn write(
    kb: &mut KernelBuilder,
    group: &Group<'_>,
    plan: &ContractionPlan,
    parameters: &Parameters,
    elements: &mut crate::element::Elements<'_>,
    sums: &[Value],
    masks: &[Option<Value>],
) {
    let product = group.function.result(plan.dot);
    let inputs = group.inputs().len();
    let zero = Index::uniform(kb.int(0));
    for (i, &sum) in sums.iter().enumerate() {
        let (row, v) = (i / masks.len(), i % masks.len());
        let mut at = vec![zero; plan.rank];
        for (outer, &position) in plan.outer.iter().zip(&parameters.outer) {
            at[outer.run.axis] = Index::uniform(position);
        }
        if let Some(axis) = plan.m_axis {
            let offset = kb.int(row as i64);
            at[axis] = Index::uniform(kb.add(parameters.row, offset));
        }
        let shift = kb.int(v as i64 * i64::from(plan.tile.lanes));
        let column = kb.add(parameters.column, shift);
        at[plan.n_axis] = Index::Affine { base: column, stride: 1 };
        elements.masked(masks[v], |elements| {
            elements.seed(product, &at, sum);
            let computed: Vec<Value> =
                group.outputs().iter().map(|&o| elements.element(kb, before_transpose(group.function, o), &at)).collect();
            for ((o, &output), value) in group.outputs().iter().enumerate().zip(computed) {
                let there: Vec<Index> = plan.orders[o].iter().map(|&d| at[d]).collect();
                elements.store(kb, parameters.memory[inputs + o], group.tensor(output), &there, value);
            }
        });
    }
}
