//! Schedules convolutions of three times three windows by Winograd's methods F(4x4, 3x3) and F(2x2,
//! 3x3) ([`method`]): versions of a product's group, for sizes with enough tiles.
//!
//! Results are cut into tiles of four times four (two times two), numbered along rows, images and
//! batches. A unit is a block of neighbouring tiles, one or two vectors of them, and some blocks of
//! output features. It transforms the six times six (four times four) elements that each tile
//! reads, for all input features, into task memory `[places][features][tiles]`. Then, for each
//! block of output features, it multiplies each place by the transformed kernel, and transforms
//! these products to results, with the epilogue of the group.
//!
//! Sums of a tile's elements spread a NaN, an infinity or a number near the largest one from some
//! of its results to all of them. If a result of a vector of tiles is not finite, [`nonfinite`]
//! computes that output feature of these tiles as sums of products.
//!
//! Invariants:
//! - Results of lanes and rows after the last tile and feature are never stored.
//! - A result is written once, with its epilogue: an output may share memory with an input that is
//!   read at the same place.
//! - A result is finite exactly where a sum of products is, but for the rounding of those next to
//!   the largest number.
mod gemm;
mod input_transform;
pub(in crate::schedule) mod method;
mod nonfinite;
mod output_transform;
mod plan;

use super::matmul;
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::{Group, Scheduled, Version, common::kernel_frame::KernelFrame},
};
use disc_ir::{DType, Dim, Inst, TensorType, Value};
use disc_kernel_macros::expr;
use method::{KERNEL_SIDE, Method};
use plan::WinogradPlan;

/// Gives the versions of a group that use the methods, if the group allows it: the one with large
/// tiles first.
pub(in crate::schedule) fn schedule(group: &Group<'_>) -> Vec<Version> {
    let (mut versions, mut group) = (Vec::new(), group.clone());
    for method in Method::ALL {
        let plans = WinogradPlan::all(&group, method);
        let Some(code) = launches(&group, &plans) else { break };
        group.first_site += code.sites.len() as i64;
        let guard = plans.iter().flat_map(WinogradPlan::guard).collect();
        versions.push(Version { kind: method.kind(), guard, code, workspaces: Vec::new() });
    }
    versions
}

/// Emits the launches of the plans, and those of the products that are interleaved with them.
fn launches(group: &Group<'_>, plans: &[WinogradPlan]) -> Option<Scheduled> {
    let first = plans.first()?;
    if first.interleaved.is_none() {
        return Some(launch(group, first));
    }
    let part = |number: usize, sites: usize| Group {
        name: format!("{}.{}_{number}", group.name, first.method.suffix()).into(),
        first_site: group.first_site + sites as i64,
        ..group.clone()
    };
    let products: Vec<Inst> = plans.iter().map(|plan| plan.dot).collect();
    let mut all = matmul::schedule_without(&part(0, 0), &products).ok()?;
    for (number, plan) in (1..).zip(plans) {
        all.append(launch(&part(number, all.sites.len()), plan));
    }
    Some(all)
}

fn launch(group: &Group<'_>, plan: &WinogradPlan) -> Scheduled {
    let name = format!("{}.{}", group.name, plan.method.suffix());
    let mut frame = KernelFrame::new(group, &name, plan.lanes);
    let mut scratch = |elements: i64| frame.kb.scratch(TensorType::new([Dim::constant(elements)], DType::F32));
    let slack = i64::from(plan.lanes);
    let held = scratch(plan.method.places() * plan.tiles_pitch() + slack);
    let made = scratch(plan.method.places() * plan.products_pitch() + slack);
    let (input, kernel) = (frame.memory.at(plan.input), frame.memory.at(plan.kernel));
    let (buffers, targets) = (frame.memory.pairs().map(|(_, buffer)| buffer).collect(), frame.memory.outputs());
    let mut code = frame.units(plan.tile_blocks() * plan.chunks(), plan.cost(), |frame, unit| {
        let elements = &mut frame.elements;
        let mut emitter = Emitter { group, plan, elements, targets, buffers, input, kernel, held, made, name: &name };
        emitter.unit(&mut frame.kb, unit);
    });
    code.kernels.extend([1, 2].map(|segments| gemm::emit(group, plan, &name, segments)));
    let (again, sites) = nonfinite::emit(group, plan, &name, group.first_site + code.sites.len() as i64);
    code.kernels.push(again);
    code.sites.extend(sites);
    code
}

struct Emitter<'e, 'g> {
    group: &'e Group<'g>,
    plan: &'e WinogradPlan,
    elements: &'e mut Elements<'g>,
    targets: Vec<Value>,
    /// All memory of the launch, for routines.
    buffers: Vec<Value>,
    input: Value,
    kernel: Value,
    /// Transformed tiles, and products of them.
    held: Value,
    made: Value,
    name: &'e str,
}

/// Neighbouring tiles of one row of tiles.
struct Segment {
    /// The image, and the row and first column of tiles.
    batch: Value,
    row: Value,
    column: Value,
    /// The number of the first tile within the unit's block, and the number of tiles: at most
    /// `lanes`.
    first: Value,
    count: Value,
    lanes: u32,
}

impl Emitter<'_, '_> {
    fn unit(&mut self, kb: &mut KernelBuilder, unit: Value) {
        let plan = self.plan;
        let (one, chunks) = (kb.int(1), kb.int(plan.chunks()));
        let (chunk, block) = (expr!(kb, unit % chunks), expr!(kb, unit / chunks));
        let most = plan.tiles_of_block(kb);
        let first = expr!(kb, block * most);
        let tiles = kb.dim(&plan.tiles());
        let end = expr!(kb, min(first + most, tiles));
        self.segments(kb, [first, end], &mut |emitter, kb, segment| emitter.transform(kb, segment));
        let per_chunk = kb.int(plan.chunk_blocks());
        let low = expr!(kb, chunk * per_chunk);
        let high = expr!(kb, min(low + per_chunk, int(plan.blocks)));
        kb.for_each([low, high, one], |kb, features| {
            self.elements.open_scope();
            let count = expr!(kb, end - first);
            self.multiply(kb, features, count);
            let block = features;
            self.segments(kb, [first, end], &mut |emitter, kb, segment| emitter.finish(kb, segment, block));
            self.elements.close_scope();
        });
    }

    /// Runs `body` for the tiles from `first` to below `end`, row by row and a vector at a time.
    /// Short rows take vectors of half as many lanes.
    fn segments(
        &mut self,
        kb: &mut KernelBuilder,
        [first, end]: [Value; 2],
        body: &mut dyn FnMut(&mut Self, &mut KernelBuilder, &Segment),
    ) {
        let plan = self.plan;
        let half = plan.lanes / 2;
        let is_short = expr!(kb, dim(&plan.tile_columns()) <= int(i64::from(half)));
        kb.when(is_short, |kb| {
            self.rows_of_tiles(kb, [first, end], half, body);
        });
        let is_long = expr!(kb, !is_short);
        kb.when(is_long, |kb| {
            self.rows_of_tiles(kb, [first, end], plan.lanes, body);
        });
    }

    fn rows_of_tiles(
        &mut self,
        kb: &mut KernelBuilder,
        [first, end]: [Value; 2],
        lanes: u32,
        body: &mut dyn FnMut(&mut Self, &mut KernelBuilder, &Segment),
    ) {
        let plan = self.plan;
        let (zero, vector) = (kb.int(0), kb.int(i64::from(lanes)));
        let (columns, rows) = (kb.dim(&plan.tile_columns()), kb.dim(&plan.tile_rows()));
        let mut walk = kb.open_while(&[first], |kb, carried| expr!(kb, carried[0] < end));
        self.elements.open_scope();
        let tile = walk.carried[0];
        let (number, column) = (expr!(kb, tile / columns), expr!(kb, tile % columns));
        let (batch, row) = (expr!(kb, number / rows), expr!(kb, number % rows));
        let length = expr!(kb, min(columns - column, end - tile));
        kb.for_each([zero, length, vector], |kb, pieces| {
            self.elements.open_scope();
            let here = expr!(kb, tile + pieces);
            let count = expr!(kb, min(length - pieces, vector));
            let segment =
                Segment { batch, row, column: expr!(kb, column + pieces), first: expr!(kb, here - first), count, lanes };
            let wide = std::mem::replace(&mut self.elements.lanes, lanes);
            body(self, kb, &segment);
            self.elements.lanes = wide;
            self.elements.close_scope();
        });
        self.elements.close_scope();
        walk.next = vec![expr!(kb, tile + length)];
        kb.close_while(walk);
    }

    /// Multiplies a block of output features by `count` tiles, once for each place.
    fn multiply(&mut self, kb: &mut KernelBuilder, block: Value, count: Value) {
        let plan = self.plan;
        let (zero, one, places) = (kb.int(0), kb.int(1), kb.int(plan.method.places()));
        let is_narrow = expr!(kb, count <= int(i64::from(plan.lanes)));
        kb.for_each([zero, places, one], |kb, place| {
            let before = expr!(kb, block * int(KERNEL_SIDE * KERNEL_SIDE));
            let within = plan.method.place_in_kernel(kb, place);
            let number = expr!(kb, before + within);
            let size = kb.int(plan.channels * plan.rows);
            let left = expr!(kb, number * size);
            let next = expr!(kb, place + one);
            let next = plan.method.place_in_kernel(kb, next);
            let gap = expr!(kb, (next - within - one) * size);
            let (right, to) = (kb.int(plan.tiles_pitch()), kb.int(plan.products_pitch()));
            let (right, to) = (expr!(kb, place * right), expr!(kb, place * to));
            let arguments = [self.kernel, self.held, self.made, left, right, to, gap];
            let call = |vectors: i64| {
                let name = gemm::name(self.name, vectors);
                move |kb: &mut KernelBuilder| {
                    kb.call(&name, &arguments);
                    Vec::new()
                }
            };
            kb.if_(is_narrow, call(1), call(2));
        });
    }
}

/// Applies the epilogue to a vector of results at a position and stores it: all lanes, or those
/// that are left.
fn store(
    kb: &mut KernelBuilder,
    group: &Group<'_>,
    plan: &WinogradPlan,
    elements: &mut Elements<'_>,
    targets: &[Value],
    at: Position,
    (result, left): (Value, Option<Value>),
) {
    let outputs = group.outputs();
    let Position { batch, feature, y, x } = at;
    let (mut value, mut left) = (plan.product, left);
    let mut at = vec![Index::uniform(batch), Index::uniform(feature), Index::uniform(y), Index::Affine { base: x, stride: 1 }];
    let mut exists = None;
    if let Some(interleaved) = &plan.interleaved {
        let zero = kb.int(0);
        (value, at) = (interleaved.value, matmul::place(kb, interleaved, &[batch, zero, y], feature, x));
        exists = matmul::exists(kb, interleaved, &at).map(|exists| kb.open_if(exists));
        // The value may end before the last element of this phase.
        if let Some(Some(end)) = interleaved.ends.last() {
            let most = left.unwrap_or_else(|| kb.int(i64::from(elements.lanes)));
            left = matmul::counts(kb, interleaved, end, [feature, x, most], 1).pop();
        }
    }
    let mask = left.map(|left| kb.lane_mask(left, elements.lanes));
    elements.masked(mask, |elements| {
        elements.conclude(kb, value, &at, result);
        let computed: Vec<Value> = outputs.iter().map(|&output| elements.element(kb, output, &at)).collect();
        for ((&output, &target), value) in outputs.iter().zip(targets).zip(computed) {
            elements.store_apart(kb, target, group.tensor(output), &at, (value, left));
        }
    });
    if let Some(exists) = exists {
        kb.close_if(exists);
    }
}

/// The position of a vector of results.
#[derive(Clone, Copy)]
struct Position {
    batch: Value,
    feature: Value,
    y: Value,
    x: Value,
}
