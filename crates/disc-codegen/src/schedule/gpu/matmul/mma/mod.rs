//! Multiplies matrices by matmuls of tiles on a GPU: a block computes a part of the result, and
//! each of its warps some tiles of it, from operands in shared memory.
//!
//! Operands are brought several steps along the sums ahead: those in memory by asynchronous copies
//! where the chip has them, others are computed vector by vector before a step's products, and
//! stored after these. Sums stay in registers; at the end each warp passes them through shared
//! memory, so that its threads have neighbouring results.
//!
//! Invariants: lines after the last row or column are copies of the last, whose results nobody
//! keeps; terms after the last are zeros in both operands.
mod shape;
mod write;

use super::{
    Matmul, Part, Side,
    side_by_side::{self, InBlocks},
};
use crate::{
    kernel::KernelBuilder,
    schedule::{
        Condition, Group, Scheduled, VersionKind,
        common::iteration_space::{Merged, positions_of},
        gpu::{
            align,
            candidates::{Candidate, Candidates},
            conditions::{at_least, divides},
            fragments::{
                CHUNK, LaneParts, PAIR_COLUMNS, STEP_CHUNKS, Share, TILE_ROWS,
                panel::{Later, Panel, Team, Wanted, unwidened},
                passage::{RUN, passage_elements},
                tile_of,
            },
            frame::{GridFrame, warp_of},
            vectors,
        },
    },
    target::GpuModel,
};
use disc_ir::{DType, Dim, Grid, TensorType, Value, fragment::Tile};
use disc_kernel_macros::expr;
use shape::Shape;

versions! {
    /// Matmuls of a GPU by matmuls of tiles, for which a block has 128 by 128 results.
    LargeMmaTiles {
        kernels: "`kN_matmul_mma128`",
        sizes: "grids of chips that multiply tiles, from `sm_75` on: other matmuls of f16, and from `sm_80` on of bf16 and of \
            8-bit integers, with at least 128 rows, 128 columns and 2^20 results; of f32 too, if `matmul_precision` allows \
            tf32; chunks of 16 bytes divide the innermost dimension of each operand, and memory is aligned for them",
        unit: "a block has 128 by 128 results, and its 8 warps tiles of them",
    }

    /// Matmuls of a GPU by matmuls of tiles, for which a block has 64 by 64 results.
    MmaTiles {
        kernels: "`kN_matmul_mma64`",
        sizes: "grids: other results of as many rows, columns and batches as there are, else as `kN_matmul_mma128`",
        unit: "a block has 64 by 64 results, and its 4 warps tiles of them",
    }
}

/// Matmuls of tiles along the terms of a step.
const STEPS: i64 = 2;

/// Adds the versions of matmuls all of which a chip multiplies by tiles.
pub(super) fn add_versions(candidates: &mut Candidates<'_>, parts: &[Part]) {
    for (kind, suffix, shape) in
        [(VersionKind::LargeMmaTiles, "mma128", Shape::LARGE), (VersionKind::MmaTiles, "mma64", Shape::SMALL)]
    {
        let conditions: Option<Vec<Vec<Condition>>> =
            parts.iter().map(|part| conditions(&candidates.next, part, shape)).collect();
        let Some(conditions) = conditions else { return };
        candidates.add(Candidate::new(kind, suffix, conditions.into_iter().flatten()), |group, _| schedule(group, parts, shape));
    }
}

/// Returns the conditions of a version; `None` if it cannot be.
fn conditions(group: &Group<'_>, part: &Part, shape: Shape) -> Option<Vec<Condition>> {
    let matmul = Matmul::of(group, part.dot);
    let mma = Mma::of(&matmul, shape)?;
    let mut conditions = Vec::new();
    for (panel, places) in mma.panels.iter().zip([&matmul.rows, &matmul.columns]) {
        let last = if panel.along_terms { matmul.terms.last() } else { places.last() };
        conditions.extend(last.and_then(|run| divides(group, panel.together() as u32, &run.size)));
    }
    conditions.extend(at_least(group, 1, &mma.terms));
    for (least, size) in [(shape.rows, &mma.rows), (shape.columns, &mma.columns)] {
        conditions.extend(shape.least_blocks().and_then(|_| at_least(group, least, size)));
    }
    if let Some(blocks) = shape.least_blocks() {
        let results = Dim::product(matmul.batches.iter().map(|run| run.size.clone())) * &mma.rows * &mma.columns;
        conditions.extend(at_least(group, blocks * shape.rows * shape.columns, &results));
    }
    Some(conditions)
}

/// Writes the kernels; `None` if one cannot be.
fn schedule(group: &Group<'_>, parts: &[Part], shape: Shape) -> Option<Scheduled> {
    if parts.iter().any(|part| Mma::of(&Matmul::of(group, part.dot), shape).is_none()) {
        return None;
    }
    // Results are computed one by one where threads cannot have vectors of them.
    [RUN, 1].into_iter().find_map(|lanes| {
        let code = side_by_side::written(group, parts, &|matmul| {
            Box::new(Blocks { mma: Mma::of(matmul, shape).expect("it was asked"), lanes })
        });
        let suits = |kernel| vectors::suits_threads(kernel) && align::are_copies_aligned(kernel, &group.solver);
        code.kernels.iter().all(suits).then_some(code)
    })
}

/// A matmul by tiles.
struct Mma<'m, 'g> {
    matmul: &'m Matmul<'g>,
    shape: Shape,
    tile: Tile,
    /// The type of the operands.
    dtype: DType,
    panels: [Panel; 2],
    rows: Dim,
    columns: Dim,
    terms: Dim,
}

/// A matmul by tiles, with the lanes of what it stores.
struct Blocks<'m, 'g> {
    mma: Mma<'m, 'g>,
    lanes: u32,
}

impl InBlocks for Blocks<'_, '_> {
    fn grid(&self) -> Grid {
        Grid::new(self.mma.shape.threads() as u32, warp_of(self.mma.matmul.group.target))
    }

    fn blocks(&self) -> Dim {
        let [down, along] = self.mma.tiles();
        Dim::product(self.mma.matmul.batches.iter().map(|run| run.size.clone())) * &down * &along
    }

    fn shared(&self) -> Vec<TensorType> {
        let Mma { shape, dtype, .. } = self.mma;
        let elements = self.mma.stages() * self.mma.stage_elements();
        let elements = elements.max(passage_elements(dtype, shape.warps[0] * shape.warps[1], shape.warp_columns()));
        vec![TensorType::new([Dim::constant(elements)], dtype)]
    }

    fn write(&self, frame: &mut GridFrame<'_>, block: Value, shared: &[Value]) {
        let here = self.mma.here(&mut frame.kb, block, shared[0]);
        let sums = self.mma.sums(frame, &here);
        self.mma.write(frame, &here, &sums, self.lanes);
    }
}

/// The place of a thread.
struct Here {
    batch: Vec<Value>,
    /// The first row and the first column of its block.
    first: [Value; 2],
    team: Team,
    lane: LaneParts,
    /// The first row and the first column of its warp, in the block.
    warp: [Value; 2],
    warp_number: Value,
}

impl<'m, 'g> Mma<'m, 'g> {
    fn of(matmul: &'m Matmul<'g>, shape: Shape) -> Option<Self> {
        let group = matmul.group;
        let values = [&matmul.left, &matmul.right].map(|side| unwidened(group, side.value));
        let [dtype, other] = values.map(|value| group.tensor(value).dtype);
        let tile = tile_of(group, dtype).filter(|tile| dtype == other && tile.c().dtypes == [matmul.sum])?;
        let size = |runs: &[Merged]| Dim::product(runs.iter().map(|run| run.size.clone()));
        let terms = STEPS * STEP_CHUNKS * CHUNK / dtype.size() as i64;
        let panel = |side: &Side, value, places, start| {
            let along = if side.terms_first { &side.sum } else { &side.free };
            let is_last = along.last().is_some_and(|&axis| axis + 1 == group.tensor(value).rank());
            is_last.then(|| Panel::of(group, value, side.terms_first, [places, terms], start)).flatten()
        };
        let left = panel(&matmul.left, values[0], shape.rows, 0)?;
        let right = panel(&matmul.right, values[1], shape.columns, left.chunks())?;
        Some(Self {
            matmul,
            shape,
            tile,
            dtype,
            panels: [left, right],
            rows: size(&matmul.rows),
            columns: size(&matmul.columns),
            terms: size(&matmul.terms),
        })
    }

    /// Steps in shared memory at a time.
    fn stages(&self) -> i64 {
        let model = GpuModel::of(self.matmul.group.target).expect("a schedule of GPUs");
        if model.has_async_copies { self.shape.stages } else { 2 }
    }

    /// Elements of both operands in shared memory for one step.
    fn stage_elements(&self) -> i64 {
        self.panels.iter().map(|panel| panel.chunks() * panel.per_chunk()).sum()
    }

    /// Terms of a step.
    fn step(&self) -> i64 {
        self.panels[0].terms
    }

    /// Returns the numbers of blocks along rows and along columns.
    fn tiles(&self) -> [Dim; 2] {
        let sizes = [(&self.rows, self.shape.rows), (&self.columns, self.shape.columns)];
        sizes.map(|(size, of)| size.ceil_div(&Dim::constant(of)))
    }

    fn here(&self, kb: &mut KernelBuilder, block: Value, memory: Value) -> Here {
        let [thread, warp_number] = ["thread", "warp"].map(|of| kb.place(of));
        let tiles = self.tiles();
        let tiles = tiles.iter().map(|size| Merged { size: size.clone(), axis: 0 });
        let runs: Vec<Merged> = self.matmul.batches.iter().cloned().chain(tiles).collect();
        let mut batch = positions_of(kb, block, &runs);
        let column = batch.pop().expect("a block has columns");
        let row = batch.pop().expect("a block has rows");
        let (height, width) = (kb.int(self.shape.rows), kb.int(self.shape.columns));
        let first = [expr!(kb, row * height), expr!(kb, column * width)];
        let across = kb.int(self.shape.warps[1]);
        let places = [expr!(kb, warp_number / across), expr!(kb, warp_number % across)];
        let own = [self.shape.warp_rows(), self.shape.warp_columns()].map(|size| kb.int(size));
        let warp = [expr!(kb, places[0] * own[0]), expr!(kb, places[1] * own[1])];
        let team = Team { thread, threads: self.shape.threads(), memory };
        Here { batch, first, team, lane: LaneParts::new(kb), warp, warp_number }
    }

    /// Adds up the products of a warp's tiles: row by row of tiles, the columns of each in order.
    fn sums(&self, frame: &mut GridFrame<'_>, here: &Here) -> Vec<Value> {
        let stages = self.stages();
        let kb = &mut frame.kb;
        let stage_elements = kb.int(self.stage_elements());
        for stage in 0..stages - 1 {
            let (term, to) = (frame.kb.int(stage * self.step()), frame.kb.int(stage * self.stage_elements()));
            self.bring(frame, here, (term, to)).into_iter().for_each(|later| later.store(&mut frame.kb));
            self.commit(&mut frame.kb);
        }
        let kb = &mut frame.kb;
        let bounds = [kb.int(0), kb.dim(&self.terms), kb.int(self.step())];
        let tiles = self.shape.warp_rows() / TILE_ROWS * (2 * self.shape.warp_columns() / PAIR_COLUMNS);
        let nothing = kb.zero(self.matmul.sum, self.tile.c().lanes);
        let mut start = vec![nothing; tiles as usize];
        // The stage that is read, and the one that is written.
        start.extend([kb.int(0), kb.int(stages - 1)]);
        let mut open = kb.open_for_carrying(bounds, &start);
        frame.elements.open_scope();
        let (sums, turns) = open.carried.split_at(tiles as usize);
        let kb = &mut frame.kb;
        if self.copies() {
            kb.wait_copies(stages - 2);
        }
        // After it, all threads see the step, and have read the previous one.
        kb.barrier();
        let term = expr!(kb, open.index + int((stages - 1) * self.step()));
        let [read, to] = [0, 1].map(|turn| expr!(kb, turns[turn] * stage_elements));
        let later = self.bring(frame, here, (term, to));
        self.commit(&mut frame.kb);
        let mut next = self.multiply(&mut frame.kb, here, read, sums);
        let kb = &mut frame.kb;
        later.into_iter().for_each(|later| later.store(kb));
        for &turn in turns {
            let (one, zero, end) = (kb.int(1), kb.int(0), kb.int(stages));
            let further = expr!(kb, turn + one);
            let is_last = expr!(kb, further == end);
            next.push(kb.select(is_last, zero, further));
        }
        open.next = next;
        frame.elements.close_scope();
        let mut sums = frame.kb.close_for(open);
        sums.truncate(tiles as usize);
        if self.copies() {
            frame.kb.wait_copies(0);
        }
        frame.kb.barrier();
        sums
    }

    /// Returns true if an operand is copied asynchronously.
    fn copies(&self) -> bool {
        self.panels.iter().any(|panel| panel.is_copied)
    }

    fn commit(&self, kb: &mut KernelBuilder) {
        if self.copies() {
            kb.commit_copies();
        }
    }

    /// Brings both operands' terms from `term` on to the stage at `to`.
    fn bring(&self, frame: &mut GridFrame<'_>, here: &Here, (term, to): (Value, Value)) -> Vec<Later> {
        let sides = [(&self.matmul.left, &self.rows), (&self.matmul.right, &self.columns)];
        let mut later = Vec::new();
        for (number, (panel, (side, places))) in self.panels.iter().zip(sides).enumerate() {
            let wanted = Wanted { first: [here.first[number], term], sizes: [places, &self.terms], to, exists: None };
            later.extend(panel.bring(frame, &here.team, &wanted, &|kb, at| self.matmul.operand_at(kb, side, &here.batch, at)));
        }
        later
    }

    /// Adds the products of the step at `read`.
    fn multiply(&self, kb: &mut KernelBuilder, here: &Here, read: Value, sums: &[Value]) -> Vec<Value> {
        let [left, right] = [0, 1].map(|side| self.panels[side].lines(here.team.memory));
        let [of_rows, of_columns] = [(0, self.shape.warp_rows()), (1, self.shape.warp_columns())].map(|(side, places)| Share {
            first: here.warp[side],
            places,
            steps: STEPS,
        });
        let mut next = sums.to_vec();
        for step in 0..STEPS {
            let columns = right.right(kb, &here.lane, read, &of_columns, step);
            let rows = left.left(kb, &here.lane, read, &of_rows, step);
            let pairs = rows.iter().flat_map(|&row| columns.iter().map(move |&column| (row, column)));
            for (sum, (row, column)) in next.iter_mut().zip(pairs) {
                *sum = kb.multiply_tiles(self.tile, [row, column, *sum]);
            }
        }
        next
    }
}
