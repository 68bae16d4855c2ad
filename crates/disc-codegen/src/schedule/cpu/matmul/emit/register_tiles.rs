//! Multiplies blocks of rows by tile registers: see the plan's
//! [`register_tiles`](crate::schedule::cpu::matmul::plan::register_tiles).
use super::{
    blocks::{Blocks, Part},
    epilogue_routine::finish_rows,
    parameters::{Parameters, RowBufferParameters},
    prefetch,
    step::Step,
    write,
};
use crate::{
    kernel::{KernelBuilder, Site},
    schedule::{
        Group,
        cpu::matmul::plan::{
            MatmulPlan,
            register_tiles::BLOCK_ROWS,
            rounds::round_steps,
            source::{Piece, Source},
        },
    },
};
use disc_ir::{DType, Function, FunctionKind, Value, fragment::REGISTER_ROWS};
use disc_kernel_macros::expr;

/// Names the routine for blocks of up to two tiles of rows.
pub(in crate::schedule) fn name(part: &str, source: Source) -> String {
    source.kernel_name(part, BLOCK_ROWS as u32) + ".tiles"
}

/// Tests if a chunk has the rows of a tile.
pub(in crate::schedule) fn fills(kb: &mut KernelBuilder, [first, last]: [Value; 2]) -> Value {
    expr!(kb, int(REGISTER_ROWS) <= last - first)
}

impl Blocks<'_> {
    /// Calls the routine for blocks of two tiles of rows. The chunk has the rows of one.
    pub(in crate::schedule) fn call_register_tiles(&self, kb: &mut KernelBuilder, part: &Part<'_>, source: Source, right: Value) {
        let (plan, [first, last]) = (part.plan, self.rows);
        let (zero, one, tall) = (kb.int(0), kb.int(1), kb.int(BLOCK_ROWS));
        let blocks = expr!(kb, (last - first + int(BLOCK_ROWS - 1)) / tall);
        let fetches = if source == Source::Panels { prefetch::share(kb, plan, part.operands.right(), blocks) } else { zero };
        kb.for_each([zero, blocks, one], |kb, block| {
            let row = expr!(kb, first + block * tall);
            let height = expr!(kb, min(last - row, tall));
            let left = self.left_of(kb, plan, row);
            let mut arguments = self.arguments(part, [left, right], [row, self.column], [block, fetches]);
            arguments.push(height);
            kb.call(&name(&part.name, source), &arguments);
        });
    }
}

/// Emits the routine for a block of up to two tiles of rows, with its sites of failure.
pub(in crate::schedule) fn emit(group: &Group<'_>, plan: &MatmulPlan, part: &str, source: Source) -> (Function, Vec<Site>) {
    let mut kb = group.builder(&name(part, source), FunctionKind::Routine);
    let parameters = Parameters::declare(&mut kb, group, plan);
    let height = kb.position("height");
    let (zero, rows) = (kb.int(0), kb.int(REGISTER_ROWS));
    // From the first row of the block to that of the tile that ends with the last row.
    let last = expr!(kb, height - rows);
    let is_tall = expr!(kb, zero < last);
    let both = |kb: &mut KernelBuilder| {
        multiply(kb, plan, &parameters, source, &[(zero, zero), (last, last)]);
        Vec::new()
    };
    let one = |kb: &mut KernelBuilder| {
        multiply(kb, plan, &parameters, source, &[(last, zero)]);
        Vec::new()
    };
    kb.if_(is_tall, both, one);
    // A tile that starts above the block leaves the sums of these rows first.
    let before = expr!(kb, max(rows - height, zero));
    let sites = finish_rows(&mut kb, group, plan, parameters, source, [before, height]);
    (kb.finish(), sites)
}

/// Emits the routine for a block of rows that another schedule keeps in task memory, with its sites
/// of failure. The rows of whole tiles are there: those after the last row of the block are
/// multiplied too, and their results are ignored. One call multiplies by some panels, since the
/// registers are configured for each call.
pub(in crate::schedule) fn emit_block(group: &Group<'_>, plan: &MatmulPlan, part: &str) -> (Function, Vec<Site>) {
    let source = Source::Task;
    let mut kb = group.builder(&name(part, source), FunctionKind::Routine);
    let parameters = Parameters::declare(&mut kb, group, plan);
    let [height, panels] = ["height", "panels"].map(|name| kb.position(name));
    let (zero, one, rows) = (kb.int(0), kb.int(1), kb.int(REGISTER_ROWS));
    let (size, width) = (kb.dim(&plan.packed_panel_elements()), kb.int(i64::from(plan.tile.columns)));
    let is_tall = expr!(kb, rows < height);
    let panel_loop = kb.open_for([zero, panels, one]);
    let [offset, columns] = [size, width].map(|size| expr!(kb, panel_loop.index * size));
    let (right, column) = (expr!(kb, parameters.right + offset), expr!(kb, parameters.column + columns));
    let parameters = Parameters { right, column, ..parameters };
    let both = |kb: &mut KernelBuilder| {
        multiply(kb, plan, &parameters, source, &[(zero, zero), (rows, rows)]);
        Vec::new()
    };
    let first = |kb: &mut KernelBuilder| {
        multiply(kb, plan, &parameters, source, &[(zero, zero)]);
        Vec::new()
    };
    kb.if_(is_tall, both, first);
    let sites = match parameters.held {
        RowBufferParameters::Parts { totals, factors, .. } => {
            add_rows_to_totals(&mut kb, plan, parameters, [totals, factors], height);
            Vec::new()
        }
        _ => finish_rows(&mut kb, group, plan, parameters, source, [zero, height]),
    };
    kb.close_for(panel_loop);
    (kb.finish(), sites)
}

/// Adds `height` rows of sums in task memory to totals.
fn add_rows_to_totals(
    kb: &mut KernelBuilder,
    plan: &MatmulPlan,
    parameters: Parameters,
    [totals, factors]: [Value; 2],
    height: Value,
) {
    let (zero, one, stride) = (kb.int(0), kb.int(1), kb.int(plan.sums_stride()));
    kb.for_each([zero, height, one], |kb, rows| {
        let start = expr!(kb, rows * stride);
        let load = |piece: Piece| {
            let place = expr!(kb, start + int(piece.shift));
            kb.load(parameters.operands.sums(), place, piece.lanes, None)
        };
        let sums: Vec<Value> = plan.pieces(Source::Task).into_iter().map(load).collect();
        let row = expr!(kb, parameters.row + rows);
        write::add_to_totals(kb, plan, &Parameters { row, ..parameters }, [totals, factors], &sums, sums.len());
    });
}

/// Multiplies tiles of rows, each given by its first row and by that of its sums in task memory.
fn multiply(kb: &mut KernelBuilder, plan: &MatmulPlan, parameters: &Parameters, source: Source, tiles: &[(Value, Value)]) {
    let tile = plan.register_tiles().expect("the plan has tiles");
    let (word, masks) = (plan.word.expect("tiles are of words"), [None, None]);
    let step = Step::of(kb, plan, parameters, (source, 1), &masks);
    let (a_stride, b_stride) = (kb.dim(&plan.shape.m.left), step.b_step);
    let starts: Vec<Value> = tiles.iter().map(|&(row, _)| expr!(kb, parameters.left + row * a_stride)).collect();
    let shifts: Vec<Value> = (0..2).map(|v| kb.int(v * REGISTER_ROWS * step.spread)).collect();
    let sums: Vec<Value> = (0..tiles.len() * shifts.len()).map(|_| kb.zero_tile(plan.compute)).collect();
    let (zero, words) = (kb.int(0), kb.int(REGISTER_ROWS));
    let size = match parameters.held {
        // Of a part of a word, the other elements are zeros.
        RowBufferParameters::Parts { depth, .. } => {
            let (up, count) = (kb.int(word.count() - 1), kb.int(word.count()));
            expr!(kb, (depth + up) / count)
        }
        _ => kb.dim(&plan.word_steps()),
    };
    let sums = kb.for_([zero, size, words], &sums, |kb, k, carried| {
        if source == Source::Panels {
            for round in (0..REGISTER_ROWS).step_by(round_steps(plan.tile) as usize) {
                let k = expr!(kb, k + int(round));
                prefetch::next_panel(kb, plan, parameters, k);
            }
        }
        let along = expr!(kb, k * step.a_step);
        let left: Vec<Value> = starts
            .iter()
            .map(|&start| {
                let at = expr!(kb, start + along);
                kb.load_tile(step.a, at, a_stride)
            })
            .collect();
        let from = expr!(kb, k * b_stride + step.b_base);
        let right: Vec<Value> = shifts
            .iter()
            .map(|&shift| {
                let at = expr!(kb, from + shift);
                let loaded = kb.load_tile(step.b, at, b_stride);
                as_elements(kb, loaded, word.elements)
            })
            .collect();
        let pairs = left.iter().flat_map(|&a| right.iter().map(move |&b| (a, b)));
        pairs.zip(carried).map(|((a, b), &sum)| kb.multiply_tiles(tile, [a, b, sum])).collect()
    });
    leave(kb, plan, parameters, tiles, &sums);
}

/// Leaves the sums of tiles in task memory.
fn leave(kb: &mut KernelBuilder, plan: &MatmulPlan, parameters: &Parameters, tiles: &[(Value, Value)], sums: &[Value]) {
    let stride = kb.int(plan.sums_stride());
    for (&(_, row), sums) in tiles.iter().zip(sums.chunks(2)) {
        let start = expr!(kb, row * stride);
        for (v, &sum) in (0..).zip(sums) {
            let at = expr!(kb, start + int(v * REGISTER_ROWS));
            kb.store_tile(parameters.operands.sums(), at, stride, sum);
        }
    }
}

/// Reads the words of a tile as elements.
fn as_elements(kb: &mut KernelBuilder, tile: Value, elements: DType) -> Value {
    if kb.dtype(tile) == elements { tile } else { kb.recast(tile, elements) }
}
