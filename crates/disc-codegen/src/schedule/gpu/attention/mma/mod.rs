//! Computes attention whose rows are a softmax by matmuls of tiles: a block has 64 queries, and
//! each of its warps 16 of them, whose fragments stay in registers.
//!
//! Keys and values are brought in turns: values are under way while scores are computed, the next
//! keys while values are weighed. The weights of a tile become a left fragment where they are: a
//! thread holds the same places of both.
//!
//! Invariant: weights are rounded to the type of values before they are divided by their sum, as
//! the program rounds them after the division; their sum is not.
mod keys;
mod write;

use super::{
    Attention,
    parts::{Operand, Parts, RowFunction},
    tile::Place,
};
use crate::{
    kernel::{Index, KernelBuilder},
    schedule::{
        Condition, Group, Scheduled,
        common::iteration_space::{Merged, positions_of},
        cpu::Softmax,
        gpu::{
            align,
            conditions::{at_least, at_most, divides},
            fragments::{
                LaneParts, Share,
                panel::{Panel, Team, Wanted, unwidened},
                passage::{RUN, passage_elements},
                tile_of,
            },
            frame::{GridFrame, warp_of},
            vectors,
        },
    },
};
use disc_ir::{DType, Dim, Grid, TensorType, Value, fragment::Tile};
use disc_kernel_macros::expr;

versions! {
    /// Attention on a GPU by matmuls of tiles.
    MmaAttention {
        kernels: "`kN_attention_mma`",
        sizes: "grids of chips that multiply tiles of the type: softmax attention of f16 or bf16, more than 16 queries of at \
            most 128 terms; 8 divides terms and columns, and memory is aligned for chunks of 16 bytes",
        unit: "a block has 64 queries and 64 or 128 columns of values, a warp 16 of the queries, and walks tiles of 64 keys, \
            of 32 if queries or values are wide",
    }
}

/// Queries of a block and of a warp.
const QUERIES: i64 = 64;
const OWN_QUERIES: i64 = 16;
/// Keys whose scores are in registers at a time: beside short queries and values, and others.
const KEYS: i64 = 64;
const FEW_KEYS: i64 = 32;
const WARPS: i64 = QUERIES / OWN_QUERIES;
const THREADS: i64 = 32 * WARPS;
/// The longest queries, and the most columns of values of a block; lines are whole or half as wide.
const WIDE: i64 = 128;
/// Terms of a matmul of tiles.
const STEP: i64 = 16;

/// Attention by tiles.
pub(super) struct Mma<'a, 'g> {
    attention: &'a Attention<'g>,
    softmax: &'a Softmax,
    tile: Tile,
    queries: Panel,
    keys: Panel,
    values: Panel,
}

/// The place of a thread.
struct Here {
    place: Place,
    team: Team,
    lane: LaneParts,
    warp: Value,
    /// The first key of the thread in a tile.
    own_key: Value,
    /// Memory in which warps tell each other what masks hide, if there are any.
    flags: Option<Value>,
}

/// Returns the conditions of the version; `None` if it cannot be.
pub(super) fn conditions(group: &Group<'_>, parts: &Parts) -> Option<Vec<Condition>> {
    let attention = Attention::new(group, parts, super::Tile::ANY);
    Mma::of(&attention)?;
    let whole = [&parts.terms, &parts.columns].map(|size| divides(group, 8, size));
    let some = [&parts.terms, &parts.length].map(|size| at_least(group, 1, size));
    let all = whole.into_iter().chain(some).chain([at_most(group, WIDE, &parts.terms)]);
    Some(all.flatten().collect())
}

/// Writes the kernel; `None` if it cannot be.
pub(super) fn schedule(group: &Group<'_>, parts: &Parts) -> Option<Scheduled> {
    let attention = Attention::new(group, parts, super::Tile::ANY);
    let mma = Mma::of(&attention)?;
    [RUN, 1].into_iter().find_map(|lanes| {
        let code = mma.scheduled(lanes);
        let suits = |kernel| vectors::suits_threads(kernel) && align::are_copies_aligned(kernel, &group.solver);
        code.kernels.iter().all(suits).then_some(code)
    })
}

impl<'a, 'g> Mma<'a, 'g> {
    fn of(attention: &'a Attention<'g>) -> Option<Self> {
        let (group, parts) = (attention.group, attention.parts);
        let RowFunction::Softmax(softmax) = &parts.function else { return None };
        let [queries, keys] = [&parts.queries, &parts.keys].map(|operand| unwidened(group, operand.value));
        let values = parts.values.value;
        let dtype = group.tensor(values).dtype;
        let is_half = |value: Value| group.tensor(value).dtype == dtype;
        let tile = tile_of(group, dtype).filter(|tile| *tile == Tile::M16N8K16)?;
        if ![queries, keys, parts.weights].into_iter().all(is_half) || group.tensor(softmax.logits).dtype != DType::F32 {
            return None;
        }
        let ends_in = |operand: &Operand, axis: usize| axis + 1 == group.tensor(operand.value).rank();
        if !ends_in(&parts.queries, parts.queries.sum) || !ends_in(&parts.keys, parts.keys.sum) {
            return None;
        }
        if !ends_in(&parts.values, parts.values.free) {
            return None;
        }
        let width = |size: &Dim| if attention.most(size) <= WIDE / 2 { WIDE / 2 } else { WIDE };
        let (terms, columns) = (width(&parts.terms), width(&parts.columns));
        let own_keys = if terms.max(columns) < WIDE { KEYS } else { FEW_KEYS };
        let keys = Panel::of(group, keys, true, [own_keys, terms], 0)?;
        // Queries are in registers before values come.
        let queries = Panel::of(group, queries, true, [QUERIES, terms], keys.chunks())?;
        let values = Panel::of(group, values, false, [columns, own_keys], keys.chunks())?;
        Some(Self { attention, softmax, tile, queries, keys, values })
    }

    fn parts(&self) -> &'g Parts {
        self.attention.parts
    }

    fn dtype(&self) -> DType {
        self.values.dtype
    }

    /// The columns of values of a block.
    fn columns(&self) -> i64 {
        self.values.places
    }

    /// The keys of a tile.
    fn own_keys(&self) -> i64 {
        self.keys.places
    }

    fn scheduled(&self, lanes: u32) -> Scheduled {
        let (group, parts) = (self.attention.group, self.parts());
        let mut grid = Grid::new(THREADS as u32, warp_of(group.target));
        // ptxas would make room for a further block by spilling.
        grid.resident = Some(1);
        let mut frame = GridFrame::new(group, 1, grid);
        let rows = parts.rows.ceil_div(&Dim::constant(QUERIES));
        let columns = parts.columns.ceil_div(&Dim::constant(self.columns()));
        let here = self.here(&mut frame.kb, [&rows, &columns]);
        let fragments = self.queries(&mut frame, &here);
        let found = self.walk(&mut frame, &here, &fragments);
        let totals = self.divided(&mut frame, &here, &found);
        self.write(&mut frame, &here, &totals, lanes);
        let blocks = Dim::product(parts.batches.iter().cloned()) * &rows * &columns;
        let mut code = frame.finish(blocks);
        align::mark(&mut code.kernels[0], &group.solver);
        code
    }

    fn here(&self, kb: &mut KernelBuilder, tiles: [&Dim; 2]) -> Here {
        let parts = self.parts();
        let of_both = self.keys.chunks() + self.queries.chunks().max(self.values.chunks());
        let elements = (of_both * self.keys.per_chunk()).max(passage_elements(self.dtype(), WARPS, self.columns()));
        let memory = kb.shared(TensorType::new([Dim::constant(elements)], self.dtype()));
        let flags = (!parts.masks.is_empty()).then(|| kb.shared(TensorType::new([Dim::constant(WARPS)], DType::I32)));
        let [block, thread, warp] = ["block", "thread", "warp"].map(|of| kb.place(of));
        let runs: Vec<Merged> = parts.batches.iter().chain(tiles).map(|size| Merged { size: size.clone(), axis: 0 }).collect();
        let mut batch = positions_of(kb, block, &runs);
        let column = batch.pop().expect("a tile has a place");
        let row = batch.pop().expect("a tile has a place");
        let [height, width] = [QUERIES, self.columns()].map(|size| kb.int(size));
        let (first_row, first_column) = (expr!(kb, row * height), expr!(kb, column * width));
        let lane = LaneParts::new(kb);
        let (members, two, own) = (kb.int(4), kb.int(2), kb.int(OWN_QUERIES));
        let (line, member) = (expr!(kb, lane.lane / members), expr!(kb, lane.lane % members));
        let (before, own_key) = (expr!(kb, warp * own), expr!(kb, member * two));
        let down = expr!(kb, before + line);
        let (count, one, first) = (kb.dim(&parts.rows), kb.int(1), expr!(kb, first_row + down));
        let last = expr!(kb, count - one);
        let rows = [0, 8].map(|below| expr!(kb, min(first + int(below), last)));
        let place = Place { batch, first_row, first_column, thread, along: member, down, rows: rows.to_vec() };
        Here { place, team: Team { thread, threads: THREADS, memory }, lane, warp, own_key, flags }
    }

    /// Begins to bring a part of an operand, by the place and the term where it begins.
    fn bring(
        &self,
        frame: &mut GridFrame<'_>,
        here: &Here,
        (panel, operand): (&Panel, &Operand),
        (first, sizes): ([Value; 2], [&Dim; 2]),
        exists: Option<Value>,
    ) {
        let position = self.position(here, operand);
        let to = frame.kb.int(0);
        let later = panel.bring(frame, &here.team, &Wanted { first, sizes, to, exists }, &position);
        later.into_iter().for_each(|later| later.store(&mut frame.kb));
        if panel.is_copied {
            frame.kb.commit_copies();
        }
    }

    /// Returns the position of an element of an operand, by its place and term.
    fn position(&self, here: &Here, operand: &Operand) -> impl Fn(&mut KernelBuilder, [Value; 2]) -> Vec<Index> {
        let rank = self.attention.group.tensor(operand.value).rank();
        move |kb, [place, term]| {
            let mut at = vec![Index::uniform(kb.int(0)); rank];
            operand.batch.iter().zip(&here.place.batch).for_each(|(&axis, &position)| at[axis] = Index::uniform(position));
            (at[operand.free], at[operand.sum]) = (Index::uniform(place), Index::uniform(term));
            at
        }
    }

    /// Waits for what was brought, and for all threads.
    fn meet(&self, kb: &mut KernelBuilder) {
        if [&self.queries, &self.keys, &self.values].into_iter().any(|panel| panel.is_copied) {
            kb.wait_copies(0);
        }
        kb.barrier();
    }

    fn bring_keys(&self, frame: &mut GridFrame<'_>, here: &Here, first: Value) {
        let parts = self.parts();
        let none = frame.kb.int(0);
        let exists = expr!(frame.kb, first < dim(&parts.length));
        self.bring(frame, here, (&self.keys, &parts.keys), ([first, none], [&parts.length, &parts.terms]), Some(exists));
    }

    fn bring_values(&self, frame: &mut GridFrame<'_>, here: &Here, first: Value) {
        let parts = self.parts();
        let from = [here.place.first_column, first];
        self.bring(frame, here, (&self.values, &parts.values), (from, [&parts.columns, &parts.length]), None);
    }

    /// Brings queries and the first keys; returns the fragments of the warp's queries.
    fn queries(&self, frame: &mut GridFrame<'_>, here: &Here) -> Vec<Value> {
        let parts = self.parts();
        let none = frame.kb.int(0);
        let from = [here.place.first_row, none];
        self.bring(frame, here, (&self.queries, &parts.queries), (from, [&parts.rows, &parts.terms]), None);
        self.bring_keys(frame, here, none);
        self.meet(&mut frame.kb);
        let kb = &mut frame.kb;
        let first = expr!(kb, here.warp * int(OWN_QUERIES));
        let lines = self.queries.lines(here.team.memory);
        let share = Share { first, places: OWN_QUERIES, steps: self.steps() };
        (0..self.steps()).flat_map(|step| lines.left(kb, &here.lane, none, &share, step)).collect()
    }

    /// The matmuls of tiles along the terms of queries.
    fn steps(&self) -> i64 {
        (self.attention.most(&self.parts().terms).min(self.queries.terms) + STEP - 1) / STEP
    }

    /// Divides the totals of each row by the sum of its weights.
    fn divided(&self, frame: &mut GridFrame<'_>, here: &Here, found: &[Value]) -> Vec<Value> {
        let rows = here.place.rows.len();
        frame.elements.open_scope();
        let scales: Vec<Value> = (0..rows)
            .map(|row| {
                let sum = frame.kb.reduce_group(found[rows + row], "add", keys::MEMBERS);
                let position = here.place.rows[row];
                self.attention.scale(frame, &here.place, self.softmax, (position, [found[row], sum]))
            })
            .collect();
        frame.elements.close_scope();
        let kb = &mut frame.kb;
        let scale = kb.joined(scales[0], scales[1], self.tile.c().lanes);
        found[2 * rows..].iter().map(|&total| expr!(kb, total * scale)).collect()
    }
}
