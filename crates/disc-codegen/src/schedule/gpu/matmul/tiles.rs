//! Multiplies matrices by tiles on a grid: a block computes a tile of the result from tiles of the
//! operands that its threads bring to shared memory, step by step along the sums.
//!
//! Operands are computed where they are brought, so each block computes the ops before the matmul
//! once.
use super::{Matmul, Side, side_by_side::InBlocks, size};
use crate::{
    element::matmul::multiply_add,
    kernel::KernelBuilder,
    schedule::{
        common::iteration_space::{Merged, positions_of},
        gpu::frame::{GridFrame, warp_of},
    },
    target::GpuModel,
};
use disc_ir::{Dim, Grid, TensorType, Value};
use disc_kernel_macros::expr;

/// Rows and columns of a tile of the result.
const TILE: i64 = 64;
/// Terms of the sums that are in shared memory at a time.
const STEP: i64 = 16;
/// Rows and columns of a thread.
const OWN: i64 = 4;
/// Threads along the rows and along the columns of a tile.
const SIDE: i64 = TILE / OWN;
const THREADS: i64 = SIDE * SIDE;
/// Elements from one term to the next in shared memory: threads that write a column of terms meet
/// in few banks, and vectors stay aligned.
const PITCH: i64 = TILE + 4;
/// Terms of an iteration of the loop in a kernel.
const UNROLLED: i64 = 4;

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

/// A matmul whose blocks have a tile of the result each.
pub(super) struct Tiles<'m>(pub(super) &'m Matmul<'m>);

impl InBlocks for Tiles<'_> {
    fn grid(&self) -> Grid {
        Grid::new(THREADS as u32, warp_of(self.0.group.target))
    }

    fn blocks(&self) -> Dim {
        let [down, along] = self.0.tiles();
        size(&self.0.batches) * &down * &along
    }

    fn shared(&self) -> Vec<TensorType> {
        vec![TensorType::new([Dim::constant(STEP * PITCH)], self.0.sum); 2]
    }

    fn write(&self, frame: &mut GridFrame<'_>, block: Value, shared: &[Value]) {
        let matmul = self.0;
        let (rows, columns, terms) = (size(&matmul.rows), size(&matmul.columns), size(&matmul.terms));
        let memory = [shared[0], shared[1]];
        let tile = matmul.tile(&mut frame.kb, block);
        let [high, step] = [frame.kb.dim(&terms), frame.kb.int(STEP)];
        let zero = frame.kb.zero(matmul.sum, 1);
        let start = vec![zero; (OWN * OWN) as usize];
        let low = frame.kb.int(0);
        let mut open = frame.kb.open_for_carrying([low, high, step], &start);
        frame.elements.open_scope();
        // The threads have read the tiles of the step before.
        frame.kb.barrier();
        matmul.bring(frame, &tile, (&matmul.left, memory[0]), (open.index, &terms), &rows);
        matmul.bring(frame, &tile, (&matmul.right, memory[1]), (open.index, &terms), &columns);
        frame.kb.barrier();
        open.next = matmul.multiply(&mut frame.kb, &tile, memory, &open.carried);
        frame.elements.close_scope();
        let sums = frame.kb.close_for(open);
        matmul.write(frame, &tile, &sums, [&rows, &columns]);
    }
}

impl Matmul<'_> {
    /// Returns the number of tiles along the rows, and along the columns.
    fn tiles(&self) -> [Dim; 2] {
        [&self.rows, &self.columns].map(|runs| size(runs).ceil_div(&Dim::constant(TILE)))
    }

    fn tile(&self, kb: &mut KernelBuilder, block: Value) -> Tile {
        let thread = kb.place("thread");
        let runs: Vec<Merged> = self.batches.iter().cloned().chain(self.tiles().map(|size| Merged { size, axis: 0 })).collect();
        let mut batch = positions_of(kb, block, &runs);
        let size = kb.int(TILE);
        let column = batch.pop().expect("a tile has a place");
        let row = batch.pop().expect("a tile has a place");
        let (row, column) = (expr!(kb, row * size), expr!(kb, column * size));
        let (side, own) = (kb.int(SIDE), kb.int(OWN));
        let places = [expr!(kb, thread / side), expr!(kb, thread % side)];
        let own = places.map(|place| expr!(kb, place * own));
        Tile { batch, row, column, thread, own }
    }

    /// Brings a tile of an operand to shared memory: zeros after the last term, anything after the
    /// last row or column, whose results nobody keeps.
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
        let one = kb.int(1);
        let (last_term, last) = (kb.dim(terms), kb.dim(free));
        let (last_term, last) = (expr!(kb, last_term - one), expr!(kb, last - one));
        let inner = kb.int(if side.terms_first { STEP } else { TILE });
        let mut brought = Vec::new();
        for number in 0..TILE * STEP / THREADS {
            let element = expr!(kb, tile.thread + int(number * THREADS));
            let (outside, inside) = (expr!(kb, element / inner), expr!(kb, element % inner));
            let (place, term) = if side.terms_first { (outside, inside) } else { (inside, outside) };
            let (there, summed) = (expr!(kb, start + place), expr!(kb, from + term));
            let exists = expr!(kb, summed <= last_term);
            let there = kb.min(there, last);
            let summed = kb.min(summed, last_term);
            let at = self.operand_at(kb, side, &tile.batch, [there, summed]);
            let value = elements.element(kb, side.value, &at);
            let value = expr!(kb, select(exists, convert(value, self.sum), zero(self.sum, 1)));
            let line = expr!(kb, term * int(PITCH));
            brought.push((expr!(kb, line + place), value));
        }
        brought.into_iter().for_each(|(index, value)| kb.store(memory, index, value, None));
    }

    /// Multiplies the tiles in shared memory; returns the sums.
    fn multiply(&self, kb: &mut KernelBuilder, tile: &Tile, memory: [Value; 2], carried: &[Value]) -> Vec<Value> {
        let bounds = [kb.int(0), kb.int(STEP), kb.int(UNROLLED)];
        kb.for_(bounds, carried, |kb, term, carried| {
            let mut sums = carried.to_vec();
            for number in 0..UNROLLED {
                let (offset, pitch) = (kb.int(number), kb.int(PITCH));
                let line = expr!(kb, (term + offset) * pitch);
                let [left, right] = [0, 1].map(|side| {
                    let at = expr!(kb, line + tile.own[side]);
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
            let index = expr!(kb, at + int(i64::from(number * lanes)));
            let vector = kb.load(memory, index, lanes, None);
            found.extend((0..lanes).map(|lane| if lanes == 1 { vector } else { kb.extract_lane(vector, lane) }));
        }
        found
    }

    /// Computes the outputs from the sums of a thread and stores them.
    fn write(&self, frame: &mut GridFrame<'_>, tile: &Tile, sums: &[Value], [rows, columns]: [&Dim; 2]) {
        let kb = &mut frame.kb;
        let [rows, columns] = [rows, columns].map(|dim| kb.dim(dim));
        let (row, column) = (expr!(kb, tile.row + tile.own[0]), expr!(kb, tile.column + tile.own[1]));
        for i in 0..OWN {
            for j in 0..OWN {
                let kb = &mut frame.kb;
                let [down, along] = [i, j].map(|number| kb.int(number));
                let (row, column) = (expr!(kb, row + down), expr!(kb, column + along));
                let [above, before] = [expr!(kb, row < rows), expr!(kb, column < columns)];
                let exists = expr!(kb, above & before);
                let open = kb.open_if(exists);
                frame.elements.open_scope();
                self.conclude(frame, &tile.batch, [row, column], sums[(i * OWN + j) as usize]);
                frame.elements.close_scope();
                frame.kb.close_if(open);
            }
        }
    }
}
