//! Schedules pointwise groups: every element of the outputs is computed on its own.
//!
//! Outputs share one space (shapes that differ by reshapes do). Merged dimensions leave either one
//! long loop, cut into chunks, or outer dimensions, each position of which is a work unit, around
//! an inner loop. The inner loop runs over vectors, and once more with a mask for the remainder. If
//! an input is contiguous along an outer dimension, a unit has a tile of its positions: see
//! [`crate::schedule::common::transpose_tiles`]. Values that rows read at other positions than they
//! are computed for are computed for a few rows first: see
//! [`crate::schedule::common::line_buffers`].
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder, cost},
    schedule::{
        Condition, Group, Scheduled, Version, VersionKind, Versioned,
        common::{
            concat_parts::ConcatParts,
            hoisted_tables::{self, HoistedValues, RowWalk, Tables},
            hoisting::{Hoisted, HoistedRows, hoisted, is_everywhere},
            interleaved_lanes::InterleavedLanes,
            iteration_space::{
                CountedUnits, Merged, OuterGather, OutputSpace, each_tile, each_unit, merge, mergeable_in, outer_gathers,
                read_places,
            },
            kernel_frame::KernelFrame,
            line_buffers::{LineBufferMemory, line_buffers_of},
            nontemporal::Nontemporal,
            row_blocking::RowBlocking,
            short_rows,
            transpose_tiles::{TILE, TransposeTiles, transposed_run},
            vector_loop::vector_loop,
        },
    },
};
use disc_ir::{Dim, Value};
use disc_kernel_macros::expr;
use disc_passes::fusion::{Layout, hoisting::block_axes, line_buffers::LineBuffer, space::Map};

/// The elements of a work unit if all dimensions are one.
const CHUNK: i64 = 4096;

/// Schedules a group whose outputs have one space.
///
/// # Panics
/// If they have not.
pub(in crate::schedule) fn schedule(group: &Group<'_>) -> Scheduled {
    Nest::of(group).scheduled()
}

/// Schedules the same, with versions for rows that one vector holds, and for rows that share the
/// values that depend on the inner dimension only.
///
/// # Panics
/// If the outputs have not one space.
pub fn versions(group: &Group<'_>) -> Versioned {
    let nest = Nest::of(group);
    let (mut versions, mut next) = (Vec::new(), group.clone());
    let mut add = |kind: VersionKind, guard: Vec<Condition>, code: Scheduled, next: &mut Group<'_>| {
        next.first_site += code.sites.len() as i64;
        versions.push(Version { kind, guard, code, workspaces: Vec::new() });
    };
    for (lanes, guard) in nest.narrow_widths() {
        let narrow = next.guarded(format!("{}_short{lanes}", group.name), &guard);
        let inside = Nest::of(&narrow);
        // If the guard leaves one value for a size, the loops may be others: vectors are then along
        // a dimension that it does not restrict.
        let code = if inside.walks_as(&nest) { inside.narrowed(lanes) } else { inside }.scheduled();
        add(VersionKind::ShortRows, guard, code, &mut next);
    }
    let columns = nest.columns();
    let has_tables = !columns.is_empty() && !nest.narrow;
    if has_tables {
        let guard = hoisted_tables::guard(&columns, &nest.runs);
        let tabled = next.guarded(format!("{}_tables", group.name), &guard);
        let code = Nest { columns, ..Nest::of(&tabled) }.scheduled();
        add(VersionKind::Tables, guard, code, &mut next);
    }
    if let Some(nontemporal) = nest.nontemporal().filter(|_| !has_tables) {
        let large = nontemporal.inside(&next, format!("{}_nontemporal", group.name));
        let code = Nest { group: &large, ..Nest::of(&next) }.scheduled();
        next.first_site += code.sites.len() as i64;
        versions.push(nontemporal.version(code));
    }
    Versioned { versions, otherwise: Nest::of(&next).scheduled(), ..Versioned::default() }
}

/// Writes a row, in a block whose first row has this number, if there are blocks.
type RowOfBlock<'a> = dyn Fn(&mut KernelBuilder, &mut Elements<'_>, &[Index], Option<Value>) + 'a;

/// The loops of a group.
pub(super) struct Nest<'g> {
    group: &'g Group<'g>,
    space: Vec<Dim>,
    /// The axes of the space that each dimension of each output stands for.
    shapes: Vec<Vec<Vec<usize>>>,
    roots: Vec<(Value, Map)>,
    /// The runs to walk; vectors are along the last.
    runs: Vec<Merged>,
    /// The innermost run, if it is too short to be walked.
    woven: Option<InterleavedLanes>,
    pub(super) lanes: u32,
    /// A flag that is true if each part of the inner run is one vector: see [`short_rows`].
    narrow: bool,
    /// The axes of rows that the values shared by blocks follow, if there are blocks.
    followed: Option<Vec<usize>>,
    /// The values that are kept in tables; if rows are short, in registers.
    columns: HoistedValues,
    /// The line buffers that are filled in front of each row.
    lines: Vec<LineBuffer>,
    /// The costly values that are constant along a row.
    of_rows: Vec<Hoisted>,
}

/// An element that short rows share.
struct RowElement {
    /// The position along the inner run: of one of its parts.
    at: Index,
    value: Value,
    place: Vec<Index>,
    computed: Value,
}

/// The parts of the code of a row.
struct RowParts<'n> {
    targets: &'n [Value],
    inner: &'n Merged,
    turned: Option<&'n TransposeTiles>,
    tables: &'n Tables<'n>,
    held: &'n [RowElement],
}

impl<'g> Nest<'g> {
    /// Returns the loops of a group whose outputs have one space.
    ///
    /// # Panics
    /// If they have not.
    pub(super) fn of(group: &'g Group<'g>) -> Self {
        let of_outputs = OutputSpace::of(group);
        let mut runs = of_outputs.runs(group);
        let OutputSpace { space, shapes, roots } = of_outputs;
        let woven = InterleavedLanes::of(group, &space, &roots, &runs);
        if woven.is_some() {
            runs.pop();
        }
        // Rows of a tile are written next to each other.
        let is_turned = woven.is_none() && transposed_run(group, &space, &roots, &runs).is_some();
        let lines = if is_turned { Vec::new() } else { line_buffers_of(group, &space, &roots, &runs) };
        let is_plain = woven.is_none() && !is_turned && lines.is_empty();
        let kept = (0..space.len()).collect();
        let layout = || Layout { space: space.clone(), reduced: Vec::new(), kept, reduces: false, reordered: Vec::new() };
        let followed = is_plain.then(|| block_axes(group.function, &group.solver, &layout(), &roots)).flatten();
        if followed.is_some() {
            runs = merge(&space, &rows_apart(group, &space, &roots));
        }
        // Long computations are in tables of blocks.
        let of_loop = if followed.is_some() { cost::lanes_of_register } else { cost::lanes };
        let lanes = runs.last().map_or(1, |inner| of_loop(group.function, group.target, &group.solver, &inner.size));
        let inner_from = runs.len().checked_sub(2).map_or(0, |outer| runs[outer].axis + 1);
        let of_rows = match runs.is_empty() || is_turned {
            true => Vec::new(),
            false => hoisted(group, &space, &roots, &|axes| axes.iter().all(|&axis| axis < inner_from)),
        };
        let columns = HoistedValues::new();
        let nest = Self { group, space, shapes, roots, runs, woven, lanes, narrow: false, followed, columns, lines, of_rows };
        match nest.lengths().filter(|_| !nest.is_flat()).and_then(|lengths| short_rows::always(group, &lengths)) {
            Some(lanes) => nest.narrowed(lanes),
            None => nest,
        }
    }

    /// Returns true if both have the same loops.
    fn walks_as(&self, other: &Self) -> bool {
        let axes = |nest: &Self| nest.runs.iter().map(|run| run.axis).collect::<Vec<_>>();
        self.woven.is_some() == other.woven.is_some() && axes(self) == axes(other)
    }

    /// The same nest for parts of the inner run that have at most this many elements.
    fn narrowed(self, lanes: u32) -> Self {
        let mut columns = self.columns_of_space();
        columns.retain(|column| !column.is_outer || self.followed.is_some());
        Self { lanes, narrow: true, columns, ..self }
    }

    /// The lengths of the parts of the inner run that are walked by themselves, if there are rows
    /// and they are contiguous in memory.
    fn lengths(&self) -> Option<Vec<Dim>> {
        let [.., _, inner] = &self.runs[..] else { return None };
        if self.woven.is_none() && transposed_run(self.group, &self.space, &self.roots, &self.runs).is_some() {
            return None;
        }
        Some(self.parts(inner, true).lengths())
    }

    /// The vectors that rows may fit, with the conditions.
    fn narrow_widths(&self) -> Vec<(u32, Vec<Condition>)> {
        let lengths = self.lengths().filter(|_| !self.narrow && !self.is_flat());
        lengths.map_or(Vec::new(), |lengths| short_rows::widths(self.group, &lengths))
    }

    /// The values that are worth a table.
    fn columns(&self) -> HoistedValues {
        let plain = self.woven.is_none() && transposed_run(self.group, &self.space, &self.roots, &self.runs).is_none();
        if !plain {
            return HoistedValues::new();
        }
        let mut columns = self.columns_of_space();
        // Rows with line buffers are counted several at once.
        columns.retain(|column| !column.is_outer || self.lines.is_empty());
        columns
    }

    fn columns_of_space(&self) -> HoistedValues {
        hoisted_tables::hoisted_values(self.group, &self.space, &self.roots, &self.runs, self.followed.as_deref())
    }

    /// The conditions for non-temporal stores: of results whose rows are written in order.
    fn nontemporal(&self) -> Option<Nontemporal> {
        let starts = match &self.runs[..] {
            _ if self.narrow || self.woven.is_some() => return None,
            [] => return None,
            // Chunks start at multiples of their own.
            [_] => Vec::new(),
            [.., inner] => {
                if transposed_run(self.group, &self.space, &self.roots, &self.runs).is_some() {
                    return None;
                }
                let ConcatParts { mut joints, .. } = self.parts(inner, true);
                joints.push(inner.size.clone());
                joints
            }
        };
        Nontemporal::of(self.group, &self.group.outputs(), self.lanes, &starts)
    }

    /// Writes the loops as a kernel.
    pub(super) fn scheduled(&self) -> Scheduled {
        let mut frame = KernelFrame::new(self.group, &self.group.name, self.lanes);
        let (targets, range) = (frame.memory.outputs(), frame.range);
        let units = self.emit(&mut frame.kb, &mut frame.elements, &targets, range);
        let count = match self.lengths().filter(|_| self.narrow) {
            // Lanes beyond a row take time too.
            Some(parts) => {
                let rows = Dim::product(self.runs[..self.runs.len() - 1].iter().map(|run| run.size.clone()));
                &rows * (parts.len() as i64 * i64::from(self.lanes))
            }
            None => Dim::product(self.space.iter().cloned()),
        };
        frame.finish(units, cost::loops(self.group.function, &count, self.lanes))
    }

    /// Emits the loops; returns the number of units.
    pub(super) fn emit(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, targets: &[Value], range: [Value; 2]) -> Dim {
        let zero = Index::uniform(kb.int(0));
        let mut at = vec![zero; self.space.len()];
        let Some((inner, outer)) = self.runs.split_last() else {
            each_unit(kb, range, &[], |kb, _| elements.scoped(|elements| self.write(kb, elements, targets, &[at])));
            return Dim::constant(1);
        };
        if outer.is_empty() {
            let chunk = CHUNK / self.woven.as_ref().map_or(1, |woven| woven.size);
            self.chunks(kb, elements, targets, range, (inner, chunk));
            return inner.size.ceil_div(&Dim::constant(chunk));
        }
        let mut outer = outer.to_vec();
        let turned = self.transpose_tiles(kb, inner, &mut outer);
        let tile_axis = turned.as_ref().map(|turned| turned.run.axis);
        let inner_from = outer.last().map_or(0, |run| run.axis + 1);
        let outer_axes: Vec<usize> = (0..inner_from).filter(|&axis| Some(axis) != tile_axis).collect();
        let gathers = outer_gathers(self.group.function, &self.group.solver, &self.space, &self.roots, &[], &outer_axes);
        let blocks = self.blocks().filter(|_| self.columns.iter().any(|column| column.is_outer));
        let in_registers = self.narrow && blocks.is_none();
        let in_tables = if in_registers { &[][..] } else { &self.columns };
        let walk = RowWalk { space: &self.space, inner, parts: self.parts(inner, true), is_narrow: self.narrow };
        let tables = Tables::of(kb, elements, self.group, in_tables, walk, blocks.as_ref());
        tables.fill(kb, elements, &at);
        let held = if in_registers { self.held(kb, elements, inner) } else { Vec::new() };
        let lines = LineBufferMemory::new(kb, elements, &self.lines, &mut outer);
        self.know(kb, elements, &at, true);
        let has_rows = lines.is_none() && !tables.are_outer();
        let rows = has_rows.then(|| HoistedRows::new(kb, elements, &self.by_row(), &inner.size, &mut outer)).flatten();
        let parts = RowParts { targets, inner, turned: turned.as_ref(), tables: &tables, held: &held };
        let row = |kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index], first: Option<Value>| {
            self.row(kb, elements, &parts, at, first);
        };
        let know = |kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index]| self.know(kb, elements, at, false);
        if let Some(blocks) = &blocks {
            self.in_blocks(kb, elements, (targets, range), (blocks, &tables), &gathers, &row);
            return blocks.units();
        }
        let row = |kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index]| row(kb, elements, at, None);
        let mut unit = |kb: &mut KernelBuilder, elements: &mut Elements<'_>, positions: &[Value]| {
            elements.scoped(|elements| {
                outer.iter().zip(positions).for_each(|(run, &position)| at[run.axis] = Index::uniform(position));
                match (&lines, &rows) {
                    (Some(lines), _) => lines.each_row(kb, elements, (&self.space, &gathers), &at, &know, row),
                    (None, Some(rows)) => rows.each_row(kb, elements, &self.space, &at, |kb, elements, at| {
                        read_places(kb, elements, &self.space, &gathers, at);
                        row(kb, elements, at);
                    }),
                    (None, None) => {
                        read_places(kb, elements, &self.space, &gathers, &at);
                        self.know(kb, elements, &at, false);
                        row(kb, elements, &at);
                    }
                }
            });
        };
        if tables.are_outer() && lines.is_none() {
            let mut outside = vec![Index::uniform(kb.int(0)); self.space.len()];
            let mut enter = |kb: &mut KernelBuilder, positions: &[Value]| {
                outer.iter().zip(positions).for_each(|(run, &position)| outside[run.axis] = Index::uniform(position));
                tables.fill_outer(kb, elements, &outside, None);
            };
            let units = CountedUnits::open_entering(kb, range, &outer, &mut enter);
            let positions = units.positions.clone();
            unit(kb, elements, &positions);
            units.close(kb, &outer);
            return Dim::product(outer.iter().map(|m| m.size.clone()));
        }
        match lines.is_some() || rows.is_some() {
            true => each_tile(kb, range, &outer, |kb, positions| unit(kb, elements, positions)),
            false => each_unit(kb, range, &outer, |kb, positions| unit(kb, elements, positions)),
        }
        Dim::product(outer.iter().map(|m| m.size.clone()))
    }

    /// Splits the outer run that the elements of an operand are contiguous along into tiles, if
    /// there is one.
    fn transpose_tiles(&self, kb: &mut KernelBuilder, inner: &Merged, outer: &mut [Merged]) -> Option<TransposeTiles> {
        let turned = || transposed_run(self.group, &self.space, &self.roots, &self.runs);
        let run = if self.woven.is_some() { None } else { turned() }?;
        let tiles = outer[run].size.ceil_div(&Dim::constant(TILE));
        let run = Merged { size: std::mem::replace(&mut outer[run].size, tiles), axis: outer[run].axis };
        Some(TransposeTiles::new(kb, self.group, (&self.space, &self.roots), [run, inner.clone()], self.lanes))
    }

    /// Writes the results of the row, or of the tile of rows, at a position; `first` is the first
    /// row of its block.
    fn row(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, row: &RowParts<'_>, at: &[Index], first: Option<Value>) {
        let tile = row.turned.map(|turned| (turned, tile_range(kb, &turned.run, at[turned.run.axis])));
        self.segments(kb, elements, (row.inner, tile.is_none()), &mut |kb, elements, indices| {
            let along = |&index: &Index| {
                let mut at = at.to_vec();
                at[row.inner.axis] = index;
                at
            };
            let at: Vec<Vec<Index>> = indices.iter().map(along).collect();
            at.iter().for_each(|at| row.tables.recall(kb, elements, at, first));
            let of_part = row.held.iter().filter(|held| indices.contains(&held.at));
            of_part.for_each(|held| elements.seed(held.value, &held.place, held.computed));
            match &tile {
                Some((turned, range)) => self.write_tile(kb, elements, row.targets, (turned, *range), &at[0]),
                None => self.write(kb, elements, row.targets, &at),
            }
        });
    }

    /// Computes the values that are constant along the row at a position, or constant everywhere:
    /// code along rows finds them.
    fn know(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index], everywhere: bool) {
        for (value, shape) in self.of_rows.iter().filter(|shared| is_everywhere(shared) == everywhere) {
            let place = elements.position(kb, &self.space, shape, at);
            elements.element(kb, *value, &place);
        }
    }

    /// The values that are constant along a row, but not everywhere.
    fn by_row(&self) -> Vec<Hoisted> {
        self.of_rows.iter().filter(|shared| !is_everywhere(shared)).cloned().collect()
    }

    /// Computes the hoisted values of short rows, in front of the loops: registers hold them.
    fn held(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, inner: &Merged) -> Vec<RowElement> {
        let mut held = Vec::new();
        if self.columns.is_empty() {
            return held;
        }
        let mut at = vec![Index::uniform(kb.int(0)); self.space.len()];
        self.segments(kb, elements, (inner, true), &mut |kb, elements, indices| {
            for &index in indices {
                at[inner.axis] = index;
                for column in &self.columns {
                    let place = elements.position(kb, &self.space, &column.shape, &at);
                    let computed = elements.element(kb, column.value, &place);
                    held.push(RowElement { at: index, value: column.value, place, computed });
                }
            }
        });
        held
    }

    /// Walks rows in blocks; `row` writes one of them, in a block whose first row has this number.
    fn in_blocks(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        (targets, range): (&[Value], [Value; 2]),
        (blocks, tables): (&RowBlocking, &Tables),
        gathers: &[OuterGather],
        row: &RowOfBlock<'_>,
    ) {
        let inner = self.runs.last().expect("there are rows");
        let counted = blocks.counted();
        let mut at = vec![Index::uniform(kb.int(0)); self.space.len()];
        let mut enter = |kb: &mut KernelBuilder, positions: &[Value]| {
            let mut at = at.clone();
            let block = blocks.enter(kb, positions, &mut at);
            tables.fill_outer(kb, elements, &at, Some(block));
        };
        let units = CountedUnits::open_entering(kb, range, &counted, &mut enter);
        let [first, stop] = blocks.place(kb, &units.positions, &mut at);
        if self.is_flat() {
            let length = kb.dim(&inner.size);
            let range = [expr!(kb, first * length), expr!(kb, stop * length)];
            read_places(kb, elements, &self.space, gathers, &at);
            self.know(kb, elements, &at, false);
            vector_loop(kb, elements, range, false, &mut |kb, elements, index| {
                at[inner.axis] = index;
                tables.recall_of_block(kb, elements, &at, first);
                self.write(kb, elements, targets, std::slice::from_ref(&at));
            });
        } else {
            blocks.each_row(kb, [first, stop], 1, &at, &mut |kb, at, _| {
                elements.scoped(|elements| {
                    read_places(kb, elements, &self.space, gathers, at);
                    self.know(kb, elements, at, false);
                    row(kb, elements, at, Some(first));
                });
            });
        }
        units.close(kb, &counted);
    }

    /// The blocks of rows that share costly values, if there are such.
    fn blocks(&self) -> Option<RowBlocking> {
        let (inner, outer) = self.runs.split_last()?;
        RowBlocking::of(outer, self.followed.as_ref()?, &inner.size)
    }

    /// Returns true if the rows of a block are one run of elements, except for the values in its
    /// tables.
    fn is_flat(&self) -> bool {
        let (Some(blocks), Some(inner)) = (self.blocks(), self.runs.last()) else { return false };
        let columns = self.columns_of_space();
        let is_known = |value: Value, map: &Map| columns.iter().any(|column| column.holds(&blocks, value, map));
        let pairs = mergeable_in(self.group.function, &self.group.solver, &self.space, &self.roots, &is_known);
        blocks.behind.is_empty() && pairs[blocks.run.axis..inner.axis].iter().all(|&pair| pair)
    }

    /// The parts of the inner run, which are walked together only if `joint`.
    fn parts(&self, inner: &Merged, joint: bool) -> ConcatParts {
        ConcatParts::of(self.group, &self.space, &self.roots, inner, joint)
    }

    /// Emits the inner loop.
    fn segments<'e>(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'e>,
        (inner, joint): (&Merged, bool),
        body: &mut dyn FnMut(&mut KernelBuilder, &mut Elements<'e>, &[Index]),
    ) {
        let parts = self.parts(inner, joint);
        match self.narrow {
            true => parts.walk_short(kb, elements, self.lanes, body),
            false => parts.walk(kb, elements, body),
        }
    }

    /// Emits one long loop, cut into chunks.
    fn chunks(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        targets: &[Value],
        range: [Value; 2],
        (inner, chunk): (&Merged, i64),
    ) {
        let zero = Index::uniform(kb.int(0));
        let mut at = vec![zero; self.space.len()];
        let units = Merged { size: inner.size.ceil_div(&Dim::constant(chunk)), axis: inner.axis };
        each_unit(kb, range, &[units], |kb, unit| {
            elements.scoped(|elements| {
                self.know(kb, elements, &at, true);
                let (size, chunk) = (kb.dim(&inner.size), kb.int(chunk));
                let low = expr!(kb, unit[0] * chunk);
                let high = expr!(kb, min(low + chunk, size));
                let exact = self.group.solver.divisible(&inner.size, i64::from(self.lanes));
                vector_loop(kb, elements, [low, high], exact, &mut |kb, elements, index| {
                    at[inner.axis] = index;
                    self.write(kb, elements, targets, std::slice::from_ref(&at));
                });
            });
        });
    }

    /// Computes and stores one vector of the inner dimension, at all positions of a tile.
    fn write_tile(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        targets: &[Value],
        (turned, [first, stop]): (&TransposeTiles, [Value; 2]),
        at: &[Index],
    ) {
        turned.fill(kb, elements, &self.space, [first, stop], at);
        let one = kb.int(1);
        kb.for_each([first, stop, one], |kb, position| {
            elements.scoped(|elements| {
                let mut at = at.to_vec();
                at[turned.run.axis] = Index::uniform(position);
                turned.recall(kb, elements, &self.space, [first, position], &at);
                self.write(kb, elements, targets, &[at]);
            });
        });
    }

    /// Computes and stores an element of each output at some positions.
    fn write(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, targets: &[Value], at: &[Vec<Index>]) {
        let outputs = self.group.outputs();
        let alone = |at: &Vec<Index>| vec![at.clone()];
        let groups: Vec<Vec<Vec<Index>>> =
            at.iter().map(|at| self.woven.as_ref().map_or_else(|| alone(at), |woven| woven.positions(kb, at))).collect();
        // All are computed before any is stored: an output may alias an input that another output
        // reads.
        let mut computed: Vec<(usize, Vec<Vec<Index>>, Vec<Value>)> = Vec::new();
        for group in &groups {
            for (number, (&output, shape)) in outputs.iter().zip(&self.shapes).enumerate() {
                let places: Vec<Vec<Index>> = group.iter().map(|at| elements.position(kb, &self.space, shape, at)).collect();
                let values = places.iter().map(|place| elements.element(kb, output, place)).collect();
                computed.push((number, places, values));
            }
        }
        for (number, places, values) in computed {
            let (target, tensor) = (targets[number], self.group.tensor(outputs[number]));
            match &places[..] {
                [place] => elements.store(kb, target, tensor, place, values[0]),
                _ => elements.store_interleaved(kb, target, tensor, (&places, &values), None),
            }
        }
    }
}

/// The pairs of dimensions that can be merged, if rows along the last one are distinguished by
/// those around it.
fn rows_apart(group: &Group<'_>, space: &[Dim], roots: &[(Value, Map)]) -> Vec<bool> {
    let mut pairs = mergeable_in(group.function, &group.solver, space, roots, &|_, _| false);
    let last = (0..space.len()).rev().find(|&axis| !group.solver.equal(&space[axis], &Dim::constant(1)));
    last.into_iter().filter(|&last| last > 0).for_each(|last| pairs[last - 1] = false);
    pairs
}

/// The positions of tile number `tile` of a run.
fn tile_range(kb: &mut KernelBuilder, run: &Merged, tile: Index) -> [Value; 2] {
    let number = tile.as_uniform().expect("a unit has one position along outer dimensions");
    let (size, length) = (kb.dim(&run.size), kb.int(TILE));
    let first = expr!(kb, number * length);
    let stop = expr!(kb, first + length);
    [first, kb.min(stop, size)]
}
