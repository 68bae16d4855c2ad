//! Multiplies few rows on a GPU, as in a step of decoding, or few columns: the other operand is
//! read once, in the order of its memory, and each of its elements is multiplied with all rows.
//!
//! If its sums are innermost, a warp has a few of its lines; otherwise a block has a few columns,
//! whose sums are in parts. The parts of a block meet in shared memory, and each thread computes a
//! result from them.
//!
//! Invariant: sums are added in an order that depends only on sizes and on the chip's warp.
use super::{
    Matmul, Part, Side,
    side_by_side::{self, InBlocks},
    size,
};
use crate::{
    element::matmul::multiply_add,
    kernel::{Index, KernelBuilder},
    schedule::{
        VersionKind,
        common::iteration_space::{Merged, positions_of},
        gpu::{
            candidates::{Candidate, Candidates},
            conditions::{at_most, divides},
            frame::{GridFrame, grid_of},
            vectors::vector_lanes,
        },
    },
};
use disc_ir::{Dim, Grid, TensorType, Value};
use disc_kernel_macros::expr;

versions! {
    /// Matmuls of a grid of one row, or one column, in vectors.
    RowVectors {
        kernels: "`kN_matmul_row_v`",
        sizes: "grids: matmuls of one row, or of one column if that is known; vectors of 16 bytes divide the innermost \
            dimension of the other operand, else as `kN_pointwise_v`",
        unit: "a warp has a line of the other operand, or a block has 32 columns of it",
    }

    /// Matmuls of a grid of few rows, or few columns, in vectors.
    FewRowVectors {
        kernels: "`kN_matmul_rows_v`",
        sizes: "grids: matmuls of at most 8 rows, or of as few columns if that is known; else as `kN_matmul_row_v`",
        unit: "a warp has two lines of the other operand, or a block has 32 columns of it",
    }

    /// Matmuls of a grid of few rows, or few columns.
    FewRows {
        kernels: "`kN_matmul_rows`",
        sizes: "grids: matmuls of at most 8 rows, or of as few columns if that is known; all tensors have fewer than 2^31 \
            elements",
        unit: "as `kN_matmul_rows_v`",
    }
}

/// The most rows that are few.
const FEW: i64 = 8;
/// Columns of a block whose sums are in parts.
const COLUMNS: u32 = 32;
/// Columns of a warp that has whole sums of several rows.
const LINES: u32 = 2;
/// Terms, or vectors of them, that a thread reads at once for several rows, and for a single one.
const TERMS: u32 = 2;
const ROW_TERMS: u32 = 4;

/// Adds the versions of matmuls all of which have few rows or columns.
pub(super) fn add_versions(candidates: &mut Candidates<'_>, parts: &[Part]) {
    let lanes = vector_lanes(&candidates.next);
    if let Some(lanes) = lanes {
        add_version(candidates, parts, (VersionKind::RowVectors, "row_v"), (1, lanes));
        add_version(candidates, parts, (VersionKind::FewRowVectors, "rows_v"), (FEW, lanes));
    }
    add_version(candidates, parts, (VersionKind::FewRows, "rows"), (FEW, 1));
}

fn add_version(candidates: &mut Candidates<'_>, parts: &[Part], (kind, suffix): (VersionKind, &str), (most, lanes): (i64, u32)) {
    let group = &candidates.next;
    let mut conditions = Vec::new();
    // Under a guard that other matmuls ask for, both rows and columns may be few.
    let mut transposed = Vec::new();
    for part in parts {
        let matmul = Matmul::of(group, part.dot);
        let is_transposed = Few::has_few_columns(&matmul, most);
        let few = Few::of(&matmul, is_transposed, most, lanes);
        for condition in at_most(group, most, &few.rows).into_iter().chain(divides(group, few.lanes, &few.vectors)) {
            if !conditions.contains(&condition) {
                conditions.push(condition);
            }
        }
        if is_transposed {
            transposed.push(part.dot);
        }
    }
    candidates.add(Candidate::new(kind, suffix, conditions).in_vectors(lanes), |group, _| {
        let is_transposed = |matmul: &Matmul<'_>| transposed.contains(&matmul.dot);
        Some(side_by_side::written(group, parts, &|matmul| Box::new(Few::of(matmul, is_transposed(matmul), most, lanes))))
    });
}

/// A matmul of few rows; of one with few columns, they are its rows here.
struct Few<'p, 'g> {
    matmul: &'p Matmul<'g>,
    is_transposed: bool,
    /// The operand of few rows, and the other one.
    few: &'p Side,
    many: &'p Side,
    /// The sizes of both, and of the sums.
    rows: Dim,
    columns: Dim,
    terms: Dim,
    /// The rows that are computed, which may be more than there are.
    most: i64,
    lanes: u32,
    /// The dimension that vectors are along.
    vectors: Dim,
    grid: Grid,
}

/// The place of a thread.
struct Here {
    batch: Vec<Value>,
    /// The first column of its block.
    column: Value,
    thread: Value,
    warp: Value,
    lane: Value,
}

impl InBlocks for Few<'_, '_> {
    fn grid(&self) -> Grid {
        self.grid
    }

    fn lanes(&self) -> u32 {
        self.lanes
    }

    fn blocks(&self) -> Dim {
        // No block has work if there are no rows.
        let some = Dim::min(&self.rows, &Dim::constant(1));
        Dim::product(self.runs().into_iter().map(|run| run.size)) * &some
    }

    fn shared(&self) -> Vec<TensorType> {
        let results = self.parts() * self.most * i64::from(self.width());
        vec![TensorType::new([Dim::constant(results)], self.matmul.sum)]
    }

    fn write(&self, frame: &mut GridFrame<'_>, block: Value, shared: &[Value]) {
        let kb = &mut frame.kb;
        let [thread, warp, lane] = ["thread", "warp", "lane"].map(|of| kb.place(of));
        let mut batch = positions_of(kb, block, &self.runs());
        let tile = batch.pop().expect("a block has columns");
        let several = kb.int(self.width().into());
        let here = Here { batch, column: expr!(kb, tile * several), thread, warp, lane };
        match self.many.terms_first {
            true => self.along_terms(frame, &here, shared[0]),
            false => self.along_columns(frame, &here, shared[0]),
        }
        frame.kb.barrier();
        self.conclude(frame, &here, (shared[0], self.parts()));
    }
}

impl<'p, 'g> Few<'p, 'g> {
    /// Returns true if columns are few, and rows need not be.
    fn has_few_columns(matmul: &Matmul<'_>, most: i64) -> bool {
        let are_few = |runs: &[Merged]| matmul.group.solver.range(&size(runs)).hi.is_some_and(|hi| hi <= most);
        !are_few(&matmul.rows) && are_few(&matmul.columns)
    }

    fn of(matmul: &'p Matmul<'g>, is_transposed: bool, most: i64, lanes: u32) -> Self {
        let group = matmul.group;
        let (rows, columns) = (size(&matmul.rows), size(&matmul.columns));
        let (few, many) = if is_transposed { (&matmul.right, &matmul.left) } else { (&matmul.left, &matmul.right) };
        let (rows, columns) = if is_transposed { (columns, rows) } else { (rows, columns) };
        let others = if is_transposed { &matmul.rows } else { &matmul.columns };
        let along = if many.terms_first { &matmul.terms } else { others };
        // Vectors are along the last dimension of the memory of the operand that is read once, and
        // of both if they are of terms.
        let is_last = |side: &Side, axes: &[usize]| axes.last().is_some_and(|&axis| axis + 1 == group.tensor(side.value).rank());
        let suits = if many.terms_first { is_last(few, &few.sum) && is_last(many, &many.sum) } else { is_last(many, &many.free) };
        Self {
            matmul,
            is_transposed,
            few,
            many,
            rows,
            columns,
            terms: size(&matmul.terms),
            most,
            lanes: if suits { lanes } else { 1 },
            vectors: along.last().map_or(Dim::constant(1), |run| run.size.clone()),
            grid: grid_of(group.target),
        }
    }

    fn warps(&self) -> u32 {
        self.grid.threads / self.grid.warp
    }

    /// The columns of a warp that has whole sums: the elements of few rows are read once for them.
    fn lines(&self) -> u32 {
        if self.most == 1 { 1 } else { LINES }
    }

    /// The terms, or vectors of them, that are read at once.
    fn unrolled(&self) -> u32 {
        if self.most == 1 { ROW_TERMS } else { TERMS }
    }

    /// The columns of a block.
    fn width(&self) -> u32 {
        if self.many.terms_first { self.warps() * self.lines() } else { COLUMNS }
    }

    /// The parts that the sums of a block's columns are in.
    fn parts(&self) -> i64 {
        if self.many.terms_first { 1 } else { self.warps().into() }
    }

    /// The positions of the blocks: along the batches, then the columns.
    fn runs(&self) -> Vec<Merged> {
        let tiles = Merged { size: self.columns.ceil_div(&Dim::constant(self.width().into())), axis: 0 };
        self.matmul.batches.iter().cloned().chain([tiles]).collect()
    }

    /// Sums up whole lines of the operand, of which each warp has a few.
    fn along_terms(&self, frame: &mut GridFrame<'_>, here: &Here, memory: Value) {
        let kb = &mut frame.kb;
        let (lanes, lines) = (kb.int(self.lanes.into()), kb.int(self.lines().into()));
        let (first, own) = (expr!(kb, here.lane * lanes), expr!(kb, here.warp * lines));
        let column = expr!(kb, here.column + own);
        let columns = self.own_columns(kb, column, self.lines());
        let rows = self.own_rows(kb);
        let step = i64::from(self.grid.warp * self.lanes);
        let sums = self.sums(frame, (first, step), (columns.len(), self.lanes), &|few, frame, term| {
            let xs: Vec<Value> = rows.iter().map(|&row| few.element(frame, here, few.few, (row, term), few.lanes > 1)).collect();
            let ys = columns.iter().map(|&column| few.element(frame, here, few.many, (column, term), few.lanes > 1)).collect();
            (xs, ys)
        });
        let kb = &mut frame.kb;
        let total = |kb: &mut KernelBuilder, sum: Value| {
            let own = kb.reduce_lanes(sum, "add");
            kb.reduce_group(own, "add", self.grid.warp)
        };
        let totals: Vec<Value> = sums.into_iter().map(|sum| total(kb, sum)).collect();
        let is_first = expr!(kb, here.lane == 0);
        kb.when(is_first, |kb| {
            for (number, total) in totals.into_iter().enumerate() {
                let (row, line) = (number / columns.len(), number % columns.len());
                let start = kb.int(row as i64 * i64::from(self.width()) + line as i64);
                let place = expr!(kb, start + own);
                kb.store(memory, place, total, None);
            }
        });
    }

    /// Sums up parts of a block's columns: lanes that have vectors of one term are neighbours.
    fn along_columns(&self, frame: &mut GridFrame<'_>, here: &Here, memory: Value) {
        let kb = &mut frame.kb;
        let beside = COLUMNS / self.lanes;
        let (side, lanes) = (kb.int(beside.into()), kb.int(self.lanes.into()));
        let part = expr!(kb, here.thread / side);
        let own = expr!(kb, here.thread % side * lanes);
        let column = expr!(kb, here.column + own);
        // A vector that would end after the last column begins earlier.
        let (size, zero) = (kb.dim(&self.columns), kb.int(0));
        let column = expr!(kb, min(column, max(size - lanes, zero)));
        let rows = self.own_rows(kb);
        let step = i64::from(self.grid.threads / beside);
        let sums = self.sums(frame, (part, step), (1, self.lanes), &|few, frame, term| {
            let xs: Vec<Value> = rows.iter().map(|&row| few.element(frame, here, few.few, (row, term), false)).collect();
            (xs, vec![few.element(frame, here, few.many, (column, term), few.lanes > 1)])
        });
        let kb = &mut frame.kb;
        let mut totals = Vec::new();
        for sum in sums {
            for lane in 0..self.lanes {
                let mut total = if self.lanes > 1 { kb.extract_lane(sum, lane) } else { sum };
                let mut distance = self.grid.warp / 2;
                while distance >= beside {
                    let by = kb.int(distance.into());
                    let other = kb.shuffle("xor", total, by, self.grid.warp);
                    total = expr!(kb, total + other);
                    distance /= 2;
                }
                totals.push(total);
            }
        }
        let is_first = expr!(kb, here.lane < side);
        kb.when(is_first, |kb| {
            let start = expr!(kb, here.warp * int(self.most * i64::from(COLUMNS)) + own);
            for (number, total) in totals.into_iter().enumerate() {
                let (row, lane) = (number as u32 / self.lanes, number as u32 % self.lanes);
                let place = expr!(kb, start + int(i64::from(row * COLUMNS + lane)));
                kb.store(memory, place, total, None);
            }
        });
    }

    /// Adds up products of the elements that `read` reads at each `step`-th term from `first` on:
    /// of each row with each of some columns.
    fn sums(
        &self,
        frame: &mut GridFrame<'_>,
        (first, step): (Value, i64),
        (columns, lanes): (usize, u32),
        read: &Read<'_, 'p, 'g>,
    ) -> Vec<Value> {
        let dtype = self.matmul.sum;
        let unrolled = i64::from(self.unrolled());
        let kb = &mut frame.kb;
        let (size, zero) = (kb.dim(&self.terms), kb.zero(dtype, lanes));
        let (each, wide) = (kb.int(step), kb.int(step * unrolled));
        // After the last term of each thread's whole steps are the terms of the remaining ones.
        let full = expr!(kb, size / wide * wide);
        let rest = expr!(kb, full + first);
        let mut sums = vec![zero; self.most as usize * columns];
        for (bounds, count) in [([first, full, wide], unrolled), ([rest, size, each], 1)] {
            let mut open = frame.kb.open_for_carrying(bounds, &sums);
            frame.elements.open_scope();
            let mut found = Vec::new();
            for number in 0..count {
                let term = expr!(frame.kb, open.index + int(number * step));
                found.push(read(self, frame, term));
            }
            let kb = &mut frame.kb;
            let mut next = open.carried.clone();
            for (xs, ys) in found {
                for (number, sum) in next.iter_mut().enumerate() {
                    let (x, y) = (xs[number / columns], ys[number % columns]);
                    let (x, y) = (kb.convert(x, dtype), kb.convert(y, dtype));
                    let (x, y) = (kb.widen(x, lanes), kb.widen(y, lanes));
                    *sum = multiply_add(kb, dtype, x, y, *sum);
                }
            }
            open.next = next;
            frame.elements.close_scope();
            sums = frame.kb.close_for(open);
        }
        sums
    }

    /// Returns the rows; in place of those that do not exist, the last one again.
    fn own_rows(&self, kb: &mut KernelBuilder) -> Vec<Value> {
        let zero = kb.int(0);
        self.clamped(kb, zero, self.most, &self.rows)
    }

    fn own_columns(&self, kb: &mut KernelBuilder, first: Value, count: u32) -> Vec<Value> {
        self.clamped(kb, first, count.into(), &self.columns)
    }

    fn clamped(&self, kb: &mut KernelBuilder, first: Value, count: i64, size: &Dim) -> Vec<Value> {
        let last = expr!(kb, dim(size) - 1);
        let each = |number| expr!(kb, min(first + int(number), last));
        (0..count).map(each).collect()
    }

    /// Returns the element of an operand, or a vector of them along the last dimension.
    fn element(
        &self,
        frame: &mut GridFrame<'_>,
        here: &Here,
        side: &Side,
        (place, term): (Value, Value),
        is_vector: bool,
    ) -> Value {
        let GridFrame { kb, elements, .. } = frame;
        let mut at = self.matmul.operand_at(kb, side, &here.batch, [place, term]);
        if let Some(last) = at.last_mut().filter(|_| is_vector) {
            *last = Index::Affine { base: last.as_uniform().expect("it was a position"), stride: 1 };
        }
        elements.element(kb, side.value, &at)
    }

    /// Adds up the parts of each result of the block, and computes the outputs from it.
    fn conclude(&self, frame: &mut GridFrame<'_>, here: &Here, (memory, parts): (Value, i64)) {
        let width = i64::from(self.width());
        let results = self.most * width;
        for start in (0..results).step_by(self.grid.threads as usize) {
            let kb = &mut frame.kb;
            let (start, width) = (kb.int(start), kb.int(width));
            let number = expr!(kb, start + here.thread);
            let row = expr!(kb, number / width);
            let column = expr!(kb, here.column + number % width);
            let (rows, columns) = (kb.dim(&self.rows), kb.dim(&self.columns));
            let exists = expr!(kb, (row < rows) & (column < columns));
            let open = kb.open_if(exists);
            frame.elements.open_scope();
            let kb = &mut frame.kb;
            let mut total = kb.load(memory, number, 1, None);
            for part in 1..parts {
                let place = expr!(kb, number + int(part * results));
                let more = kb.load(memory, place, 1, None);
                total = expr!(kb, total + more);
            }
            let place = if self.is_transposed { [column, row] } else { [row, column] };
            self.matmul.conclude(frame, &here.batch, place, total);
            frame.elements.close_scope();
            frame.kb.close_if(open);
        }
    }
}

/// Reads, at a term, the elements of all rows and those of some columns.
type Read<'r, 'p, 'g> = dyn Fn(&Few<'p, 'g>, &mut GridFrame<'_>, Value) -> (Vec<Value>, Vec<Value>) + 'r;
