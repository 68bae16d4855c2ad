//! Schedules products on a grid: a block computes a tile of the result from tiles of the operands
//! that its threads bring to shared memory, step by step along the sums.
//!
//! Operands are computed where they are brought, so ops in front of the product cost once per
//! block; ops behind it are computed from the sums in registers.
use super::{align, candidates::Candidates, few_rows, frame::GridFrame};
use crate::{
    element::matmul::{multiply_add, packed_columns},
    kernel::{Index, KernelBuilder, accumulator_dtype, compute_dtype},
    schedule::{
        Group, Scheduled, VersionKind, Versioned,
        common::iteration_space::{Merged, positions_of},
        cpu::{depends, order},
    },
    target::GpuModel,
};
use disc_ir::{DType, Dim, Grid, Inst, OpKind, TensorType, Value};
use disc_passes::analysis::query::Query;

/// Rows and columns of a tile of the result.
const TILE: i64 = 64;
/// Terms of the sums that are in shared memory at a time.
const STEP: i64 = 16;
/// Rows and columns of a thread.
const OWN: i64 = 4;
/// Threads along the rows and along the columns of a tile.
const SIDE: i64 = TILE / OWN;
/// Elements from one term to the next in shared memory: threads that write a column of terms meet
/// in few banks, and vectors stay aligned.
const PITCH: i64 = TILE + 4;
/// Terms whose products are written one after the other.
const UNROLLED: i64 = 4;

/// Schedules a group of products, each output of which is computed element by element from one of
/// them.
///
/// # Errors
/// The reason that the group is another one.
pub(super) fn versions(group: &Group<'_>) -> Result<Versioned, String> {
    let parts = parts(group)?;
    let mut candidates = Candidates::of(group);
    few_rows::versions(&mut candidates, &parts);
    let tiles = |group: &Group<'_>| written(group, &parts, &|product| product.scheduled());
    Ok(candidates.in_narrow_positions((VersionKind::GridProducts, "s"), tiles))
}

/// A product of the group, with the positions of the outputs that are computed from it.
pub(super) struct Part {
    pub(super) dot: Inst,
    wanted: Vec<usize>,
}

fn parts(group: &Group<'_>) -> Result<Vec<Part>, String> {
    let function = group.function;
    let is_dot = |inst: &Inst| function.kind_of(*inst) == OpKind::DotGeneral;
    let dots: Vec<Inst> = function.insts(function.body).iter().copied().filter(is_dot).collect();
    let mut parts: Vec<Part> = dots.into_iter().map(|dot| Part { dot, wanted: Vec::new() }).collect();
    for &position in &group.wanted {
        let output = group.output(position);
        let mut sources = parts.iter_mut().filter(|part| depends(function, function.result(part.dot), output));
        let (Some(part), None) = (sources.next(), sources.next()) else {
            return Err("an output is computed from several products, or from none".into());
        };
        order(function, &group.solver, function.result(part.dot), output)?;
        part.wanted.push(position);
    }
    if parts.iter().any(|part| packed_columns(function, part.dot).is_some()) {
        return Err("an operand is packed for a CPU".into());
    }
    parts.retain(|part| !part.wanted.is_empty());
    Ok(parts)
}

/// Writes the kernel of each product.
pub(super) fn written(group: &Group<'_>, parts: &[Part], schedule: &dyn Fn(&Product<'_>) -> Scheduled) -> Scheduled {
    let mut all = Scheduled::default();
    for (number, part) in parts.iter().enumerate() {
        let name = if parts.len() > 1 { format!("{}_{number}", group.name) } else { group.name.to_string() };
        let first_site = group.first_site + all.sites.len() as i64;
        let own = Group { wanted: part.wanted.clone(), name: name.into(), first_site, ..group.clone() };
        all.append(schedule(&Product::of(&own, part.dot)));
    }
    all
}

/// An operand: the dimensions that are batches, free and summed.
pub(super) struct Side {
    pub(super) value: Value,
    pub(super) batch: Vec<usize>,
    pub(super) free: Vec<usize>,
    pub(super) sum: Vec<usize>,
    /// The sums are the innermost dimension: neighbouring threads bring neighbouring terms.
    pub(super) terms_first: bool,
}

/// A product as a matrix `[rows, terms] x [terms, columns]` for each batch.
pub(super) struct Product<'g> {
    pub(super) group: &'g Group<'g>,
    pub(super) dot: Inst,
    pub(super) left: Side,
    pub(super) right: Side,
    pub(super) batches: Vec<Merged>,
    pub(super) rows: Vec<Merged>,
    pub(super) columns: Vec<Merged>,
    pub(super) terms: Vec<Merged>,
    /// The type of the sums, and that of the operands in shared memory.
    pub(super) sum: DType,
}

/// The positions of a thread's tile.
struct Tile {
    /// Along the batches.
    batch: Vec<Value>,
    /// The first row and the first column of the block.
    row: Value,
    column: Value,
    thread: Value,
    /// The first row and the first column of the thread, in the tile.
    own: [Value; 2],
}

impl<'g> Product<'g> {
    pub(super) fn of(group: &'g Group<'g>, dot: Inst) -> Self {
        let function = group.function;
        let [left, right] = function.operands(dot)[..] else { panic!("`dot_general` has two operands") };
        let side = |value: Value, name: &str| {
            let axes = |which: &str| function.axes(dot, &format!("{name}_{which}"));
            let (batch, sum) = (axes("batching_dims"), axes("contracting_dims"));
            let rank = group.tensor(value).rank();
            let free = (0..rank).filter(|d| !batch.contains(d) && !sum.contains(d)).collect();
            let terms_first = rank > 0 && sum.contains(&(rank - 1));
            Side { value, batch, free, sum, terms_first }
        };
        let (left, right) = (side(left, "lhs"), side(right, "rhs"));
        let sizes = |side: &Side, axes: &[usize]| -> Vec<Merged> {
            let dims = &group.tensor(side.value).dims;
            axes.iter().enumerate().map(|(axis, &d)| Merged { size: dims[d].clone(), axis }).collect()
        };
        let sum = accumulator_dtype(group.tensor(function.result(dot)).dtype);
        Self {
            group,
            dot,
            batches: sizes(&left, &left.batch),
            rows: sizes(&left, &left.free),
            columns: sizes(&right, &right.free),
            terms: sizes(&left, &left.sum),
            left,
            right,
            sum,
        }
    }

    fn scheduled(&self) -> Scheduled {
        let model = GpuModel::of(self.group.target).expect("a schedule of GPUs");
        let grid = Grid { threads: (SIDE * SIDE) as u32, warp: model.warp };
        let mut frame = GridFrame::new(self.group, 1, grid);
        let size = |runs: &[Merged]| Dim::product(runs.iter().map(|run| run.size.clone()));
        let (rows, columns, terms) = (size(&self.rows), size(&self.columns), size(&self.terms));
        let tiles = |size: &Dim| size.ceil_div(&Dim::constant(TILE));
        let blocks = size(&self.batches) * &tiles(&rows) * &tiles(&columns);
        let memory = [(), ()].map(|()| frame.kb.shared(TensorType::new([Dim::constant(STEP * PITCH)], self.sum)));
        let tile = self.tile(&mut frame.kb, [&tiles(&rows), &tiles(&columns)]);
        let [high, step] = [frame.kb.dim(&terms), frame.kb.int(STEP)];
        let zero = frame.kb.zero(self.sum, 1);
        let start = vec![zero; (OWN * OWN) as usize];
        let low = frame.kb.int(0);
        let mut open = frame.kb.open_for_carrying([low, high, step], &start);
        frame.elements.open_scope();
        // The threads have read the tiles of the step before.
        frame.kb.barrier();
        self.bring(&mut frame, &tile, (&self.left, memory[0]), (open.index, &terms), &rows);
        self.bring(&mut frame, &tile, (&self.right, memory[1]), (open.index, &terms), &columns);
        frame.kb.barrier();
        open.next = self.multiply(&mut frame.kb, &tile, memory, &open.carried);
        frame.elements.close_scope();
        let sums = frame.kb.close_for(open);
        self.write(&mut frame, &tile, &sums, [&rows, &columns]);
        let mut code = frame.finish(blocks);
        align::mark(&mut code.kernels[0], &self.group.solver);
        code
    }

    fn tile(&self, kb: &mut KernelBuilder, tiles: [&Dim; 2]) -> Tile {
        let [block, thread] = ["block", "thread"].map(|of| kb.place(of));
        let runs: Vec<Merged> =
            self.batches.iter().cloned().chain(tiles.map(|size| Merged { size: size.clone(), axis: 0 })).collect();
        let mut batch = positions_of(kb, block, &runs);
        let size = kb.int(TILE);
        let column = batch.pop().expect("a tile has a place");
        let row = batch.pop().expect("a tile has a place");
        let (row, column) = (kb.mul(row, size), kb.mul(column, size));
        let (side, own) = (kb.int(SIDE), kb.int(OWN));
        let places = [kb.div(thread, side), kb.rem(thread, side)];
        let own = places.map(|place| kb.mul(place, own));
        Tile { batch, row, column, thread, own }
    }

    /// Brings a tile of an operand to shared memory: zeros behind the last term, anything behind
    /// the last row or column, whose results nobody keeps.
    fn bring(
        &self,
        frame: &mut GridFrame<'_>,
        tile: &Tile,
        (side, memory): (&Side, Value),
        (from, terms): (Value, &Dim),
        free: &Dim,
    ) {
        let GridFrame { kb, elements, .. } = frame;
        let start = if std::ptr::eq(side, &self.left) { tile.row } else { tile.column };
        let runs = if std::ptr::eq(side, &self.left) { &self.rows } else { &self.columns };
        let (threads, one) = (SIDE * SIDE, kb.int(1));
        let (last_term, last) = (kb.dim(terms), kb.dim(free));
        let (last_term, last) = (kb.sub(last_term, one), kb.sub(last, one));
        let inner = kb.int(if side.terms_first { STEP } else { TILE });
        let mut brought = Vec::new();
        for number in 0..TILE * STEP / threads {
            let offset = kb.int(number * threads);
            let element = kb.add(tile.thread, offset);
            let (outside, inside) = (kb.div(element, inner), kb.rem(element, inner));
            let (place, term) = if side.terms_first { (outside, inside) } else { (inside, outside) };
            let (there, summed) = (kb.add(start, place), kb.add(from, term));
            let exists = kb.compare("LE", summed, last_term);
            let there = kb.map(OpKind::Minimum, &[there, last]);
            let summed = kb.map(OpKind::Minimum, &[summed, last_term]);
            let at = self.operand_at(kb, side, tile, (there, runs), summed);
            let value = elements.element(kb, side.value, &at);
            let value = kb.convert(value, self.sum);
            let zero = kb.zero(self.sum, 1);
            let value = kb.select(exists, value, zero);
            let pitch = kb.int(PITCH);
            let line = kb.mul(term, pitch);
            brought.push((kb.add(line, place), value));
        }
        brought.into_iter().for_each(|(index, value)| kb.store(memory, index, value, None));
    }

    /// Returns the position of an element of an operand.
    fn operand_at(
        &self,
        kb: &mut KernelBuilder,
        side: &Side,
        tile: &Tile,
        (place, runs): (Value, &[Merged]),
        term: Value,
    ) -> Vec<Index> {
        let mut at = vec![Index::uniform(kb.int(0)); self.group.tensor(side.value).rank()];
        let (free, summed) = (positions_of(kb, place, runs), positions_of(kb, term, &self.terms));
        let parts = [(&side.batch, &tile.batch), (&side.free, &free), (&side.sum, &summed)];
        for (axes, positions) in parts {
            axes.iter().zip(positions).for_each(|(&axis, &position)| at[axis] = Index::uniform(position));
        }
        at
    }

    /// Multiplies the tiles in shared memory; returns the sums.
    fn multiply(&self, kb: &mut KernelBuilder, tile: &Tile, memory: [Value; 2], carried: &[Value]) -> Vec<Value> {
        let bounds = [kb.int(0), kb.int(STEP), kb.int(UNROLLED)];
        kb.for_(bounds, carried, |kb, term, carried| {
            let mut sums = carried.to_vec();
            for number in 0..UNROLLED {
                let (offset, pitch) = (kb.int(number), kb.int(PITCH));
                let term = kb.add(term, offset);
                let line = kb.mul(term, pitch);
                let [left, right] = [0, 1].map(|side| {
                    let at = kb.add(line, tile.own[side]);
                    self.own_elements(kb, memory[side], at)
                });
                for (row, &x) in left.iter().enumerate() {
                    for (column, &y) in right.iter().enumerate() {
                        let sum = &mut sums[row * OWN as usize + column];
                        *sum = multiply_add(kb, self.sum, x, y, *sum);
                    }
                }
            }
            sums
        })
    }

    /// Loads the elements of a thread from a line of shared memory.
    fn own_elements(&self, kb: &mut KernelBuilder, memory: Value, at: Value) -> Vec<Value> {
        let lanes = (GpuModel::ACCESS_BYTES / self.sum.size() as u32).min(OWN as u32);
        let mut found = Vec::new();
        for number in 0..OWN as u32 / lanes {
            let offset = kb.int(i64::from(number * lanes));
            let index = kb.add(at, offset);
            let vector = kb.load(memory, index, lanes, None);
            found.extend((0..lanes).map(|lane| if lanes == 1 { vector } else { kb.extract_lane(vector, lane) }));
        }
        found
    }

    /// Computes the outputs from the sums of a thread and stores them.
    fn write(&self, frame: &mut GridFrame<'_>, tile: &Tile, sums: &[Value], [rows, columns]: [&Dim; 2]) {
        let kb = &mut frame.kb;
        let [rows, columns] = [rows, columns].map(|dim| kb.dim(dim));
        let (row, column) = (kb.add(tile.row, tile.own[0]), kb.add(tile.column, tile.own[1]));
        for i in 0..OWN {
            for j in 0..OWN {
                let kb = &mut frame.kb;
                let [down, along] = [i, j].map(|number| kb.int(number));
                let (row, column) = (kb.add(row, down), kb.add(column, along));
                let [above, before] = [kb.compare("LT", row, rows), kb.compare("LT", column, columns)];
                let exists = kb.and(above, before);
                let open = kb.open_if(exists);
                frame.elements.open_scope();
                self.conclude(frame, &tile.batch, [row, column], sums[(i * OWN + j) as usize]);
                frame.elements.close_scope();
                frame.kb.close_if(open);
            }
        }
    }

    /// Computes the outputs at a place of the result, whose sum is known, then stores them.
    pub(super) fn conclude(&self, frame: &mut GridFrame<'_>, batch: &[Value], [row, column]: [Value; 2], sum: Value) {
        let outputs: Vec<(Value, Value)> =
            self.group.outputs().into_iter().map(|output| (output, frame.target(output))).collect();
        let GridFrame { kb, elements, .. } = frame;
        let (rows, columns) = (positions_of(kb, row, &self.rows), positions_of(kb, column, &self.columns));
        let at: Vec<Index> = batch.iter().chain(&rows).chain(&columns).map(|&p| Index::uniform(p)).collect();
        let product = self.group.function.result(self.dot);
        let total = kb.convert(sum, compute_dtype(self.group.tensor(product).dtype));
        elements.conclude(kb, product, &at, total);
        let mut computed = Vec::new();
        for (output, target) in outputs {
            let order = order(self.group.function, &self.group.solver, product, output).expect("it was checked");
            let place: Vec<Index> = order.iter().map(|&d| at[d]).collect();
            let value = elements.element(kb, output, &place);
            computed.push((output, target, place, value));
        }
        for (output, target, place, value) in computed {
            elements.store(kb, target, self.group.tensor(output), &place, value);
        }
    }
}
