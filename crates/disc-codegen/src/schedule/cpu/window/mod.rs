//! Schedules windows: convolutions in groups of few features, depthwise ones above all, and
//! pooling.
//!
//! A unit is a block of rows of one plane of the result (for a convolution, of the planes of one
//! group). It copies the elements that its windows read into task memory, with the padding around
//! it ([`pack`]), so that no window is cut; then it computes a few rows of a few vectors at once,
//! with one sum for each in a register, and applies the epilogue of the group to them.
//!
//! If a vector holds a row of results, and masks are free, rows are read in place ([`in_place`]):
//! the copy would take as long as the computation.
//!
//! A unit that walks a plane ([`plane_walk`]) is the whole plane, and writes results to the memory
//! in which the input may be.
//!
//! Small kernels stay in registers, and each vector of the input is read once for all rows that
//! need it. Of larger ones each element is read in turn, for all sums.
//!
//! Invariant: the elements of a window are taken in their order, regardless of how many results are
//! computed at once.
mod in_place;
mod pack;
mod plan;
mod plane_walk;

use crate::{
    element::{Elements, matmul::multiply_add},
    kernel::{Index, KernelBuilder, OpenFor},
    schedule::{Group, Scheduled, common::kernel_frame::KernelFrame},
    target::CpuModel,
};
use disc_ir::{Dim, TensorType, Value};
use disc_kernel_macros::expr;
use in_place::{InPlace, is_narrow};
use pack::{Packing, Place};
use plan::{Form, UNIT_COLUMNS, WindowPlan, rows_read};

/// Schedules a group of one op on windows and element-wise ops on its result, or returns the reason
/// why it cannot.
///
/// # Errors
/// Windows of such a form are computed element by element.
pub(in crate::schedule) fn schedule(group: &Group<'_>) -> Result<Scheduled, String> {
    let plan = WindowPlan::of(group)?;
    let result = group.function.result(plan.inst);
    let outputs = group.outputs();
    for &output in &outputs {
        super::matmul::check_elementwise(group, result, output)?;
    }
    let mut frame = KernelFrame::new(group, &group.name, plan.lanes);
    let held = TensorType::new([plan.phase() * plan.columns().step * plan.held_rows() * plan.held_planes()], plan.compute);
    let held = frame.kb.scratch(held);
    let targets = frame.memory.outputs();
    Ok(frame.units(plan.units(group), plan.cost(group), |frame, unit| {
        let mut emitter = Emitter { group, plan: &plan, elements: &mut frame.elements, targets, outputs, held };
        emitter.unit(&mut frame.kb, unit);
    }))
}

impl WindowPlan {
    /// The dimensions before those that windows slide along, as units count them: a convolution's
    /// features by group.
    fn lead_sizes(&self, group: &Group<'_>) -> Vec<Dim> {
        let mut sizes = group.tensor(group.function.result(self.inst)).dims[..self.lead].to_vec();
        if let Form::Products { groups, .. } = self.form {
            sizes[1] = Dim::constant(groups);
        }
        sizes
    }

    /// The units along the dimensions that windows slide along: none if a unit is a plane.
    fn chunks(&self) -> Vec<Dim> {
        if self.walks {
            return Vec::new();
        }
        let mut chunks: Vec<Dim> = self.layers().map(|layers| layers.count.clone()).into_iter().collect();
        chunks.extend(self.rows().map(|rows| rows.count.ceil_div(&Dim::constant(CpuModel::UNIT_ROWS))));
        chunks.push(self.columns().count.ceil_div(&Dim::constant(UNIT_COLUMNS)));
        chunks
    }

    fn units(&self, group: &Group<'_>) -> Dim {
        Dim::product(self.lead_sizes(group).into_iter().chain(self.chunks()))
    }

    /// The estimated nanoseconds: two vectors of products each, and the copy.
    fn cost(&self, group: &Group<'_>) -> Dim {
        let taps: i64 = self.slides.iter().map(|slide| slide.taps).product();
        let channels = if let Form::Products { channels, .. } = self.form { channels } else { 2 };
        let count = group.tensor(group.function.result(self.inst)).element_count();
        (count * (taps * channels + 6)).ceil_div(&Dim::constant(i64::from(self.lanes) * 3))
    }
}

/// A block of sums: its first row and column within the unit, and the number of vectors of each
/// row.
struct Block {
    row: Value,
    column: Value,
    vectors: i64,
    mask: Option<Value>,
}

struct Emitter<'e, 'g> {
    group: &'e Group<'g>,
    plan: &'e WindowPlan,
    elements: &'e mut Elements<'g>,
    targets: Vec<Value>,
    outputs: Vec<Value>,
    /// Task memory for the input.
    held: Value,
}

/// The positions and memory of the elements of a unit.
struct Unit {
    place: Place,
    /// Rows and columns of results.
    rows: Value,
    columns: Value,
    /// The kernel's elements as vectors, if they stay in registers.
    kernel: Vec<Value>,
    /// The value that sums start from, as a vector.
    start: Value,
    /// The plane of the result: the output feature of a convolution.
    lead: Vec<Index>,
    /// The state for input that is read in place.
    lying: Option<InPlace>,
}

impl<'g> Emitter<'_, 'g> {
    fn unit(&mut self, kb: &mut KernelBuilder, unit: Value) {
        let plan = self.plan;
        let (zero, one) = (kb.int(0), kb.int(1));
        let sizes: Vec<Dim> = plan.lead_sizes(self.group).into_iter().chain(plan.chunks()).collect();
        let mut parts = vec![zero; sizes.len()];
        let mut rest = unit;
        for (i, size) in sizes.iter().enumerate().rev() {
            let size = kb.dim(size);
            parts[i] = if i == 0 { rest } else { expr!(kb, rest % size) };
            rest = expr!(kb, rest / size);
        }
        let (lead, chunks) = parts.split_at(plan.lead);
        if plan.walks {
            return self.walk(kb, lead);
        }
        let mut first = chunks.to_vec();
        let last = first.len() - 1;
        let mut left = |kb: &mut KernelBuilder, i: usize, size: &Dim, most: i64| {
            let (most, size) = (kb.int(most), kb.dim(size));
            first[i] = expr!(kb, first[i] * most);
            expr!(kb, min(size - first[i], most))
        };
        let columns = left(kb, last, &plan.columns().count, UNIT_COLUMNS);
        let rows = match plan.rows() {
            Some(rows) => left(kb, last - 1, &rows.count, CpuModel::UNIT_ROWS),
            None => one,
        };
        let place = Place { lead: lead.to_vec(), first };
        let start = self.start(kb);
        let lead = place.lead.iter().map(|&value| Index::uniform(value)).collect();
        let mut unit = Unit { place, rows, columns, kernel: Vec::new(), start, lead, lying: None };
        self.either(kb, &mut unit, |emitter, kb, unit| {
            emitter.pack(kb, unit, zero);
            emitter.planes(kb, unit);
        });
    }

    /// Computes all results of a unit: reads them in place if a vector holds a row, otherwise as
    /// `packed` does it.
    fn either(&mut self, kb: &mut KernelBuilder, unit: &mut Unit, packed: impl FnOnce(&mut Self, &mut KernelBuilder, &mut Unit)) {
        let Some(is_narrow) = is_narrow(kb, self.group, self.plan) else { return packed(self, kb, unit) };
        kb.when(is_narrow, |kb| {
            self.elements.open_scope();
            unit.lying = Some(InPlace::of(kb, self.elements, self.plan, &unit.place));
            self.planes(kb, unit);
            self.elements.close_scope();
        });
        let is_wide = expr!(kb, !is_narrow);
        kb.when(is_wide, |kb| {
            self.elements.open_scope();
            unit.lying = None;
            packed(self, kb, unit);
            self.elements.close_scope();
        });
    }

    /// Copies the elements that the windows of a unit read, from the row of the copy with number
    /// `from` on.
    fn pack(&mut self, kb: &mut KernelBuilder, unit: &Unit, from: Value) {
        let plan = self.plan;
        let block_rows = kb.int(plan.block[0]);
        let padded = expr!(kb, (unit.rows + int(plan.block[0] - 1)) / block_rows * block_rows);
        let read = match plan.rows() {
            Some(slide) => {
                let (step, more) = (kb.int(slide.step), kb.int(rows_read(slide, 1) - slide.step));
                expr!(kb, padded * step + more)
            }
            None => kb.int(1),
        };
        let fills_itself = matches!(plan.form, Form::Products { .. }) && self.group.inputs().contains(&plan.input);
        let packing = Packing { plan, held: self.held, fill: unit.start, fills_itself };
        packing.pack(kb, self.elements, &unit.place, [from, read], unit.columns);
    }

    /// Computes all results of a unit.
    fn planes(&mut self, kb: &mut KernelBuilder, unit: &mut Unit) {
        let plan = self.plan;
        let (zero, one) = (kb.int(0), kb.int(1));
        let Form::Products { features, .. } = &plan.form else { return self.plane(kb, unit) };
        let features = kb.dim(features);
        kb.for_each([zero, features, one], |kb, feature| {
            self.elements.open_scope();
            let number = expr!(kb, unit.place.lead[1] * features + feature);
            unit.lead[1] = Index::uniform(number);
            if plan.holds_kernel {
                unit.kernel = (0..self.taps().len()).map(|tap| self.weight(kb, unit, zero, tap)).collect();
            }
            self.plane(kb, unit);
            self.elements.close_scope();
        });
    }

    /// The value that sums start from.
    fn start(&mut self, kb: &mut KernelBuilder) -> Value {
        let plan = self.plan;
        match plan.form {
            Form::Products { .. } => kb.zero(plan.compute, plan.lanes),
            Form::Fold { init, .. } => {
                let init = self.elements.element(kb, init, &[]);
                kb.widen(init, plan.lanes)
            }
        }
    }

    /// The elements of a window in their order: along layers, rows and columns.
    fn taps(&self) -> Vec<[i64; 3]> {
        let plan = self.plan;
        let [layers, rows] = [plan.layers(), plan.rows()].map(|slide| slide.map_or(1, |slide| slide.taps));
        let columns = plan.columns().taps;
        let of_row = |layer, row| (0..columns).map(move |column| [layer, row, column]);
        let of_layer = |layer| (0..rows).flat_map(move |row| of_row(layer, row));
        (0..layers).flat_map(of_layer).collect()
    }

    /// An element of the kernel for the unit's output feature, in every lane.
    fn weight(&mut self, kb: &mut KernelBuilder, unit: &Unit, channel: Value, tap: usize) -> Value {
        let plan = self.plan;
        let Form::Products { kernel, axes, reversed, .. } = &plan.form else { panic!("pooling has no kernel") };
        let places = self.taps()[tap];
        let mut at = vec![Index::uniform(channel); axes.len()];
        at[axes[0]] = unit.lead[1];
        for (i, &axis) in axes[2..].iter().enumerate() {
            let place = places[3 - plan.slides.len() + i];
            let place = if reversed[i] { plan.slides[i].taps - 1 - place } else { place };
            at[axis] = Index::uniform(kb.int(place));
        }
        let value = self.elements.element(kb, *kernel, &at);
        let value = kb.convert(value, plan.compute);
        kb.widen(value, plan.lanes)
    }

    /// Computes all results of one plane of a unit.
    fn plane(&mut self, kb: &mut KernelBuilder, unit: &Unit) {
        let plan = self.plan;
        if plan.walks && unit.lying.is_some() {
            return self.plane_later(kb, unit);
        }
        let (zero, height) = (kb.int(0), kb.int(plan.block[0]));
        let lanes = i64::from(plan.lanes);
        let (wide, narrow) = (kb.int(lanes * plan.block[1]), kb.int(lanes));
        kb.for_each([zero, unit.rows, height], |kb, rows| {
            self.elements.open_scope();
            let row = rows;
            let mut done = zero;
            let mut widths = vec![(wide, plan.block[1])];
            if plan.block[1] > 1 {
                widths.push((narrow, 1));
            }
            if unit.lying.is_some() {
                widths.clear();
            }
            for (width, vectors) in widths {
                let stop = expr!(kb, done + (unit.columns - done) / width * width);
                kb.for_each([done, stop, width], |kb, columns| {
                    let block = Block { row, column: columns, vectors, mask: None };
                    self.block(kb, unit, &block);
                });
                done = stop;
            }
            let left = expr!(kb, unit.columns - done);
            let any = expr!(kb, left > zero);
            kb.when(any, |kb| {
                let mask = Some(kb.lane_mask(left, plan.lanes));
                self.block(kb, unit, &Block { row, column: done, vectors: 1, mask });
            });
            self.elements.close_scope();
        });
    }

    /// Computes a few vectors of a few rows.
    fn block(&mut self, kb: &mut KernelBuilder, unit: &Unit, block: &Block) {
        self.elements.open_scope();
        let count = self.plan.block[0] * block.vectors;
        let mut sums = vec![unit.start; count as usize];
        let channels = match self.plan.form {
            Form::Products { channels, .. } if channels > 1 => Some(channels),
            _ => None,
        };
        let (zero, one) = (kb.int(0), kb.int(1));
        let mut open: Option<OpenFor> = channels.map(|channels| {
            let channels = kb.int(channels);
            kb.open_for_carrying([zero, channels, one], &sums)
        });
        let channel = open.as_ref().map_or(zero, |open| open.index);
        if let Some(open) = &open {
            sums = open.carried.clone();
        }
        self.elements.open_scope();
        match self.plan.holds_kernel {
            true => self.by_input(kb, unit, block, &mut sums),
            false => self.by_kernel(kb, unit, block, channel, &mut sums),
        }
        self.elements.close_scope();
        if let Some(mut open) = open.take() {
            open.next = sums;
            sums = kb.close_for(open);
        }
        self.finish(kb, unit, block, &sums);
        self.elements.close_scope();
    }

    /// Reads each vector of the input once, and accumulates it into all sums that it belongs to.
    fn by_input(&mut self, kb: &mut KernelBuilder, unit: &Unit, block: &Block, sums: &mut [Value]) {
        let plan = self.plan;
        let zero = kb.int(0);
        let (step, dilation, taps) = plan.rows().map_or((1, 1, 1), |rows| (rows.step, rows.dilation, rows.taps));
        let layers = plan.layers().map_or(1, |layers| layers.taps);
        let read = (plan.block[0] - 1) * step + (taps - 1) * dilation + 1;
        for (layer, row) in (0..layers).flat_map(|layer| (0..read).map(move |row| (layer, row))) {
            let users: Vec<(i64, i64)> = (0..plan.block[0])
                .filter_map(|result| {
                    let distance = row - result * step;
                    let tap = distance / dilation;
                    (distance >= 0 && distance % dilation == 0 && tap < taps).then_some((result, tap))
                })
                .collect();
            if users.is_empty() {
                continue;
            }
            let lying = unit.lying.as_ref().map(|lying| lying.row(kb, plan, &unit.place, block.row, row));
            let from = self.row_at(kb, block, zero, layer, row);
            for (column, vector) in (0..plan.columns().taps).flat_map(|c| (0..block.vectors).map(move |v| (c, v))) {
                let loaded = match &lying {
                    Some(row) => row.read(kb, plan, column),
                    None => self.read(kb, block, from, column, vector),
                };
                for &(result, tap) in &users {
                    let number = ((layer * taps + tap) * plan.columns().taps + column) as usize;
                    let sum = &mut sums[(result * block.vectors + vector) as usize];
                    *sum = self.take(kb, unit.kernel.get(number).copied(), loaded, *sum);
                }
            }
        }
    }

    /// Reads each element of the kernel once, and accumulates its products into all sums.
    fn by_kernel(&mut self, kb: &mut KernelBuilder, unit: &Unit, block: &Block, channel: Value, sums: &mut [Value]) {
        let plan = self.plan;
        let (step, dilation) = plan.rows().map_or((1, 1), |rows| (rows.step, rows.dilation));
        for (number, [layer, row, column]) in self.taps().into_iter().enumerate() {
            let weight = self.weight(kb, unit, channel, number);
            for result in 0..plan.block[0] {
                let from = self.row_at(kb, block, channel, layer, result * step + row * dilation);
                for vector in 0..block.vectors {
                    let loaded = self.read(kb, block, from, column, vector);
                    let sum = &mut sums[(result * block.vectors + vector) as usize];
                    *sum = self.take(kb, Some(weight), loaded, *sum);
                }
            }
        }
    }

    /// The start in task memory of the row that is `row` below the block's first one.
    fn row_at(&self, kb: &mut KernelBuilder, block: &Block, channel: Value, layer: i64, row: i64) -> Value {
        let plan = self.plan;
        let layers = kb.int(plan.layers().map_or(1, |layers| layers.taps));
        let (layer, rows, step) = (kb.int(layer), kb.int(plan.held_rows()), kb.int(plan.rows().map_or(1, |rows| rows.step)));
        let before = expr!(kb, (channel * layers + layer) * rows);
        let number = expr!(kb, block.row * step + int(row) + before);
        expr!(kb, number * (dim(&plan.phase()) * int(plan.columns().step)))
    }

    /// The elements that the windows of a vector have in one column.
    fn read(&self, kb: &mut KernelBuilder, block: &Block, from: Value, column: i64, vector: i64) -> Value {
        let (plan, columns) = (self.plan, self.plan.columns());
        let distance = column * columns.dilation;
        let (rest, shift) = (kb.int(distance % columns.step), kb.int(distance / columns.step + vector * i64::from(plan.lanes)));
        let at = expr!(kb, from + rest * dim(&plan.phase()) + block.column + shift);
        kb.load(self.held, at, plan.lanes, None)
    }

    fn take(&mut self, kb: &mut KernelBuilder, weight: Option<Value>, element: Value, sum: Value) -> Value {
        match self.plan.form {
            Form::Products { .. } => {
                let weight = weight.expect("a convolution has a kernel");
                multiply_add(kb, self.plan.compute, element, weight, sum)
            }
            Form::Fold { body, .. } => {
                let combined = self.elements.inline(kb, body, &[sum, element])[0];
                kb.widen(combined, self.plan.lanes)
            }
        }
    }

    /// Applies the epilogue of the group to the sums, and stores the results. Rows after the last
    /// one are skipped.
    fn finish(&mut self, kb: &mut KernelBuilder, unit: &Unit, block: &Block, sums: &[Value]) {
        let plan = self.plan;
        for row in 0..plan.block[0] {
            let row_number = expr!(kb, block.row + int(row));
            let guard = (row > 0).then(|| {
                let exists = expr!(kb, row_number < unit.rows);
                kb.open_if(exists)
            });
            for vector in 0..block.vectors {
                let mut at = unit.lead.clone();
                let last = plan.slides.len() - 1;
                for (i, &first) in unit.place.first.iter().enumerate() {
                    at.push(match last - i {
                        0 => {
                            let shift = kb.int(vector * i64::from(plan.lanes));
                            let column = expr!(kb, first + block.column);
                            Index::Affine { base: expr!(kb, column + shift), stride: 1 }
                        }
                        1 => Index::uniform(expr!(kb, first + row_number)),
                        _ => Index::uniform(first),
                    });
                }
                let sum = sums[(row * block.vectors + vector) as usize];
                self.store(kb, block, &at, sum);
            }
            if let Some(guard) = guard {
                kb.close_if(guard);
            }
        }
    }

    fn store(&mut self, kb: &mut KernelBuilder, block: &Block, at: &[Index], sum: Value) {
        let function = self.group.function;
        let result = function.result(self.plan.inst);
        let (outputs, targets, group) = (&self.outputs, &self.targets, self.group);
        self.elements.masked(block.mask, |elements| {
            elements.conclude(kb, result, at, sum);
            let computed: Vec<Value> = outputs.iter().map(|&output| elements.element(kb, output, at)).collect();
            for ((&output, &target), value) in outputs.iter().zip(targets).zip(computed) {
                elements.store(kb, target, group.tensor(output), at, value);
            }
        });
    }
}
