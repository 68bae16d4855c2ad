//! Writes a row of a nest, or a tile of transposed rows, for the schedules that walk rows.
//!
//! If an input is contiguous along an outer dimension, a unit has a tile of its positions: see
//! [`crate::schedule::common::transpose_tiles`].
use super::LoopNest;
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::common::{
        hoisted_tables::{RowWalk, Tables},
        iteration_space::{Merged, OuterGather, outer_gathers, read_places},
        row_blocking::RowBlocking,
        transpose_tiles::{TILE, TransposeTiles},
    },
};
use disc_ir::{Dim, Value};
use disc_kernel_macros::expr;

/// A value that short rows share, in a register.
struct RowElement {
    /// The position along the inner run: of one of its parts.
    at: Index,
    value: Value,
    place: Vec<Index>,
    computed: Value,
}

/// The code of a row, with the memory of what rows share.
pub(super) struct Rows<'n> {
    nest: &'n LoopNest<'n>,
    targets: &'n [Value],
    pub(super) inner: &'n Merged,
    /// The runs that units are counted along: of a tiled one, the tiles.
    pub(super) outer: Vec<Merged>,
    pub(super) gathers: Vec<OuterGather>,
    tiles: Option<TransposeTiles>,
    pub(super) tables: Tables<'n>,
    registers: Vec<RowElement>,
}

impl<'n> Rows<'n> {
    /// Allocates the memory of tiles and tables, and computes what is the same in all rows.
    pub(super) fn new(
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        nest: &'n LoopNest<'n>,
        targets: &'n [Value],
        blocks: Option<&RowBlocking>,
    ) -> Self {
        let (inner, outer) = nest.runs.split_last().expect("there are rows");
        let mut outer = outer.to_vec();
        let tiles = transpose_tiles(nest, kb, inner, &mut outer);
        let tile_axis = tiles.as_ref().map(|tiles| tiles.run.axis);
        let inner_from = outer.last().map_or(0, |run| run.axis + 1);
        let outer_axes: Vec<usize> = (0..inner_from).filter(|&axis| Some(axis) != tile_axis).collect();
        let (space, roots) = (&nest.outputs.space, &nest.outputs.roots);
        let gathers = outer_gathers(nest.group.function, &nest.group.solver, space, roots, &[], &outer_axes);
        let in_registers = nest.is_short && blocks.is_none();
        let in_memory = if in_registers { &[][..] } else { &nest.tables };
        let walk = RowWalk { space, inner, parts: nest.parts(inner, true), is_narrow: nest.is_short };
        let tables = Tables::of(kb, elements, nest.group, in_memory, walk, blocks);
        let at = vec![Index::uniform(kb.int(0)); space.len()];
        tables.fill(kb, elements, &at);
        let registers = if in_registers { registers(nest, kb, elements, inner) } else { Vec::new() };
        Self { nest, targets, inner, outer, gathers, tiles, tables, registers }
    }

    /// Returns the number of units.
    pub(super) fn units(&self) -> Dim {
        Dim::product(self.outer.iter().map(|run| run.size.clone()))
    }

    /// Reads the positions that gathers have along the row at a position, and computes the values
    /// that are constant along it.
    pub(super) fn enter(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index]) {
        read_places(kb, elements, &self.nest.outputs.space, &self.gathers, at);
        self.nest.know(kb, elements, at, false);
    }

    /// Writes the results of the row, or of the tile of rows, at a position; `first` is the first
    /// row of its block.
    pub(super) fn write(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index], first: Option<Value>) {
        let tile = self.tiles.as_ref().map(|tiles| (tiles, tile_range(kb, &tiles.run, at[tiles.run.axis])));
        self.nest.each_vector(kb, elements, (self.inner, tile.is_none()), &mut |kb, elements, indices| {
            let along = |&index: &Index| {
                let mut at = at.to_vec();
                at[self.inner.axis] = index;
                at
            };
            let at: Vec<Vec<Index>> = indices.iter().map(along).collect();
            at.iter().for_each(|at| self.tables.recall(kb, elements, at, first));
            let of_part = self.registers.iter().filter(|register| indices.contains(&register.at));
            of_part.for_each(|register| elements.seed(register.value, &register.place, register.computed));
            match &tile {
                Some((tiles, range)) => self.write_tile(kb, elements, (tiles, *range), &at[0]),
                None => self.nest.write(kb, elements, self.targets, &at),
            }
        });
    }

    /// Computes and stores one vector of the inner dimension, at all positions of a tile.
    fn write_tile(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        (tiles, [first, stop]): (&TransposeTiles, [Value; 2]),
        at: &[Index],
    ) {
        let space = &self.nest.outputs.space;
        tiles.fill(kb, elements, space, [first, stop], at);
        let one = kb.int(1);
        kb.for_each([first, stop, one], |kb, position| {
            elements.scoped(|elements| {
                let mut at = at.to_vec();
                at[tiles.run.axis] = Index::uniform(position);
                tiles.recall(kb, elements, space, [first, position], &at);
                self.nest.write(kb, elements, self.targets, &[at]);
            });
        });
    }
}

/// Splits the outer run that the elements of an operand are contiguous along into tiles, if there
/// is one.
fn transpose_tiles(nest: &LoopNest<'_>, kb: &mut KernelBuilder, inner: &Merged, outer: &mut [Merged]) -> Option<TransposeTiles> {
    let run = nest.transposed()?;
    let tiles = outer[run].size.ceil_div(&Dim::constant(TILE));
    let run = Merged { size: std::mem::replace(&mut outer[run].size, tiles), axis: outer[run].axis };
    let space = (&nest.outputs.space[..], &nest.outputs.roots[..]);
    Some(TransposeTiles::new(kb, nest.group, space, [run, inner.clone()], nest.lanes))
}

/// Computes the hoisted values of short rows, before the loops.
fn registers(nest: &LoopNest<'_>, kb: &mut KernelBuilder, elements: &mut Elements<'_>, inner: &Merged) -> Vec<RowElement> {
    let mut registers = Vec::new();
    if nest.tables.is_empty() {
        return registers;
    }
    let space = &nest.outputs.space;
    let mut at = vec![Index::uniform(kb.int(0)); space.len()];
    nest.each_vector(kb, elements, (inner, true), &mut |kb, elements, indices| {
        for &index in indices {
            at[inner.axis] = index;
            for hoisted in &nest.tables {
                let place = elements.position(kb, space, &hoisted.shape, &at);
                let computed = elements.element(kb, hoisted.value, &place);
                registers.push(RowElement { at: index, value: hoisted.value, place, computed });
            }
        }
    });
    registers
}

/// The positions of tile number `tile` of a run.
fn tile_range(kb: &mut KernelBuilder, run: &Merged, tile: Index) -> [Value; 2] {
    let number = tile.as_uniform().expect("a unit has one position along outer dimensions");
    let (size, length) = (kb.dim(&run.size), kb.int(TILE));
    let first = expr!(kb, number * length);
    let stop = expr!(kb, first + length);
    [first, kb.min(stop, size)]
}

/// Sets the positions of a unit along its runs.
pub(super) fn place(runs: &[Merged], positions: &[Value], at: &mut [Index]) {
    runs.iter().zip(positions).for_each(|(run, &position)| at[run.axis] = Index::uniform(position));
}
