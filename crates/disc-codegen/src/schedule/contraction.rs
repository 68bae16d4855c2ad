//! The contraction schedule: matrix products by register-blocked micro-kernels, with element-wise epilogues.
//!
//! Rows are cut into even blocks of at most `MR` rows and columns into panels of `NR`; the micro-kernel for a row count keeps its whole block of
//! results in registers, runs over the summed dimension, applies the rest of the group and stores. The right operand is read in one of
//! three ways: from panels `[n/NR][k][NR]` that were packed when the weights were loaded, in place where its columns are contiguous, or
//! from panels that the work unit packs into task memory.
//!
//! A work unit is a chunk of rows times one panel (or times all panels, where it packs), for one position along the batch dimensions. Units
//! of one chunk follow one another, so that threads split rows when there are many and panels when there are few.
//!
//! The tile sizes and the even blocks are those of the measurements in docs/performance.md.
mod block;
mod micro;
mod plan;

pub(super) use block::{BlockProduct, routines};
pub(crate) use plan::packed_columns;
pub use plan::{ContractionPlan, Tile, tile};

use super::{Argument, Group, Launch, Scheduled, loops::place_unit, scratch_bytes};
use crate::{
    build::KernelBuilder,
    element::{Elements, Site},
    index::Index,
};
use disc_ir::{DType, Dim, Function, FunctionKind, TensorType, Type, Value};
use plan::Right;

/// Schedules a group that has a plan.
pub fn schedule(group: &Group<'_>, plan: &ContractionPlan) -> Scheduled {
    let micro_kernels: Vec<_> = (1..=plan.tile.rows).map(|rows| micro::emit(group, plan, rows, None)).collect();
    let mut kb = KernelBuilder::new(&group.name, FunctionKind::Kernel);
    let mut arguments = Vec::new();
    let mut memory = Vec::new();
    for (i, &input) in group.inputs().iter().enumerate() {
        memory.push(kb.buffer(&format!("in{i}"), group.tensor(input).clone()));
        arguments.push(Argument::Input(i));
    }
    for (i, &output) in group.outputs().iter().enumerate() {
        memory.push(kb.buffer(&format!("out{i}"), group.tensor(output).clone()));
        arguments.push(Argument::Output(group.wanted[i]));
    }
    let begin = kb.parameter("begin", Type::scalar(DType::I64));
    let end = kb.parameter("end", Type::scalar(DType::I64));
    let shape = Shape::new(&mut kb, plan);
    let packed = match plan.right {
        Right::PackedByUnit => {
            let padded = plan.panels() * i64::from(plan.tile.columns);
            Some(kb.scratch(TensorType::new([padded * &plan.k.size], plan.compute)))
        }
        Right::Prepacked | Right::InPlace => None,
    };
    let one = kb.int(1);
    kb.for_([begin, end, one], &[], |kb, unit, _| {
        let zero = Index::uniform(kb.int(0));
        let mut at = vec![zero; plan.rank];
        let (chunk, panel, batch) = split_unit(kb, plan, &shape, unit);
        let runs: Vec<_> = plan.outer.iter().map(|o| o.run.clone()).collect();
        place_unit(kb, batch, &runs, &mut at);
        let bases = plan.bases(kb, &at);
        let [first, last] = plan.chunk_rows(kb, chunk);
        match packed {
            None => row_blocks(kb, plan, &memory, None, &group.name, &at, bases, [first, last], panel),
            Some(buffer) => {
                let right = memory[plan.right_input];
                pack_panels(kb, group, plan, right, bases[1], buffer);
                let (start, panels) = (kb.int(0), kb.dim(&plan.panels()));
                let one = kb.int(1);
                kb.for_([start, panels, one], &[], |kb, panel, _| {
                    row_blocks(kb, plan, &memory, Some(buffer), &group.name, &at, bases, [first, last], panel);
                    Vec::new()
                });
            }
        }
        Vec::new()
    });
    let kernel = kb.finish();
    let launch = Launch {
        kernel: kernel.name.clone(),
        arguments,
        units: plan.units(),
        cost: plan.cost(),
        scratch: scratch_bytes(&kernel),
    };
    let mut kernels = vec![kernel];
    let mut sites = Vec::new();
    merge_sites(&mut sites, &micro_kernels);
    kernels.extend(micro_kernels.into_iter().map(|(routine, _)| routine));
    Scheduled { kernels, launches: vec![launch], sites }
}

/// Adds the sites of micro-kernels, which are the same for all of one group.
pub(super) fn merge_sites(sites: &mut Vec<Site>, micro_kernels: &[(Function, Vec<Site>)]) {
    for site in micro_kernels.iter().flat_map(|(_, more)| more) {
        if !sites.contains(site) {
            sites.push(site.clone());
        }
    }
}

/// Run-time sizes that the driver needs.
struct Shape {
    chunks: Value,
    panels: Value,
}

impl Shape {
    fn new(kb: &mut KernelBuilder, plan: &ContractionPlan) -> Self {
        Self { chunks: kb.dim(&plan.chunks()), panels: kb.dim(&plan.panels()) }
    }
}

/// The chunk of rows, the panel and the batch position of a unit.
fn split_unit(kb: &mut KernelBuilder, plan: &ContractionPlan, shape: &Shape, unit: Value) -> (Value, Value, Value) {
    let (panel, rest) = match plan.right {
        Right::PackedByUnit => (kb.int(0), unit),
        Right::Prepacked | Right::InPlace => (kb.rem(unit, shape.panels), kb.div(unit, shape.panels)),
    };
    (kb.rem(rest, shape.chunks), panel, kb.div(rest, shape.chunks))
}

/// Calls micro-kernels for the rows from `first` to below `last`, in even blocks, on one panel.
#[expect(clippy::too_many_arguments, reason = "the loop nest's state; a struct for it would be used once")]
fn row_blocks(
    kb: &mut KernelBuilder,
    plan: &ContractionPlan,
    memory: &[Value],
    packed: Option<Value>,
    name: &str,
    at: &[Index],
    [left, right]: [Value; 2],
    [first, last]: [Value; 2],
    panel: Value,
) {
    let (one, zero) = (kb.int(1), kb.int(0));
    let blocks = plan.row_blocks(kb, [first, last]);
    let width = kb.int(i64::from(plan.tile.columns));
    let column = kb.mul(panel, width);
    let base = match plan.right {
        Right::Prepacked => {
            let size = kb.dim(&(&plan.k.size * i64::from(plan.tile.columns)));
            let offset = kb.mul(panel, size);
            kb.add(right, offset)
        }
        Right::PackedByUnit => {
            let size = kb.dim(&(&plan.k.size * i64::from(plan.tile.columns)));
            kb.mul(panel, size)
        }
        Right::InPlace => kb.add(right, column),
    };
    // Lines of the next panel to fetch in each round: all of them, spread over the row blocks.
    let lines = kb.int(i64::from(plan.tile.columns) * plan.compute.size() as i64 * micro::ROUND / 64);
    let spread = kb.add(lines, blocks);
    let spread = kb.sub(spread, one);
    let fetches = if plan.right == Right::Prepacked { kb.div(spread, blocks) } else { zero };
    let row_stride = kb.dim(&plan.m.left);
    plan.for_row_blocks(kb, [first, last], |kb, block, [start, height]| {
        let offset = kb.mul(start, row_stride);
        let a = kb.add(left, offset);
        let mut arguments: Vec<Value> = memory.to_vec();
        arguments.extend(packed);
        arguments.extend([a, base, start, column, block, fetches]);
        arguments.extend(plan.outer.iter().map(|o| at[o.run.axis].as_uniform().expect("a batch position is a scalar")));
        dispatch(kb, name, &arguments, height, 1, plan.tile.rows);
    });
}

/// Calls the micro-kernel for `height` rows, known to lie in [`low`, `high`]: a balanced tree of comparisons.
fn dispatch(kb: &mut KernelBuilder, name: &str, arguments: &[Value], height: Value, low: u32, high: u32) {
    if low == high {
        kb.call(&micro::name(name, low), arguments);
        return;
    }
    let middle = (low + high).div_ceil(2);
    let limit = kb.int(i64::from(middle));
    let less = kb.compare("LT", height, limit);
    let below = |kb: &mut KernelBuilder| {
        dispatch(kb, name, arguments, height, low, middle - 1);
        Vec::new()
    };
    let above = |kb: &mut KernelBuilder| {
        dispatch(kb, name, arguments, height, middle, high);
        Vec::new()
    };
    kb.if_(less, below, above);
}

/// Packs the right operand of this batch position into panels, zeros after the last column.
fn pack_panels(kb: &mut KernelBuilder, group: &Group<'_>, plan: &ContractionPlan, right: Value, base: Value, packed: Value) {
    let lanes = plan.tile.lanes;
    let vectors = plan.tile.columns / lanes;
    let exact = group.solver.divisible(&plan.n.size, i64::from(plan.tile.columns));
    let (zero, one, width) = (kb.int(0), kb.int(1), kb.int(i64::from(plan.tile.columns)));
    let (panels, depth, columns) = (kb.dim(&plan.panels()), kb.dim(&plan.k.size), kb.dim(&plan.n.size));
    let (column_stride, depth_stride) = (kb.dim(&plan.n.right), kb.dim(&plan.k.right));
    let numbers = kb.lane_numbers(lanes);
    kb.for_([zero, panels, one], &[], |kb, panel, _| {
        let column = kb.mul(panel, width);
        let offset = kb.mul(column, depth);
        for v in 0..vectors {
            let shift = kb.int(i64::from(v * lanes));
            let start = kb.add(column, shift);
            let left = kb.sub(columns, start);
            let mask = (!exact).then(|| kb.lane_mask(left, lanes));
            let positions = kb.add(start, numbers);
            let positions = kb.mul(positions, column_stride);
            let positions = kb.add(positions, base);
            kb.for_([zero, depth, one], &[], |kb, k, _| {
                let step = kb.mul(k, depth_stride);
                let here = kb.add(positions, step);
                let loaded = kb.load(right, here, lanes, mask);
                let loaded = kb.convert(loaded, plan.compute);
                let to = kb.mul(k, width);
                let to = kb.add(to, offset);
                let to = kb.add(to, shift);
                kb.store(packed, to, loaded, None);
                Vec::new()
            });
        }
        Vec::new()
    });
}

/// The elements of a micro-kernel's epilogue: all memory is bound, the product is seeded by the caller.
fn epilogue_elements<'g>(group: &Group<'g>, memory: &[Value], lanes: u32) -> Elements<'g> {
    let mut elements = Elements::new(group.function, group.solver.clone(), lanes, group.target);
    elements.first_site = group.first_site;
    for (&input, &buffer) in group.inputs().iter().zip(memory) {
        elements.bind(input, buffer);
    }
    elements
}

/// The cost estimate of `flops` operations, in nanoseconds.
fn nanoseconds(flops: &Dim, tile: &Tile) -> Dim {
    flops.ceil_div(&Dim::constant(i64::from(tile.lanes) * 5))
}
