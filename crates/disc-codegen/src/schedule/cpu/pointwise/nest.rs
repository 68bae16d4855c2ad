//! Finds the loops of a pointwise group and the values that rows share, and chooses the schedule.
use super::{blocked, collapsed, nested, several_rows};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder, cost},
    schedule::{
        Condition, Group, Scheduled,
        common::{
            concat_parts::ConcatParts,
            hoisted_tables::{self, HoistedValues},
            hoisting::{Hoisted, hoisted, is_everywhere},
            interleaved_lanes::InterleavedLanes,
            iteration_space::{Merged, OutputSpace, each_unit, merge, mergeable_in},
            kernel_frame::KernelFrame,
            line_buffers::line_buffers_of,
            nontemporal::Nontemporal,
            row_blocking::RowBlocking,
            short_rows,
            transpose_tiles::transposed_run,
        },
    },
};
use disc_ir::{Dim, Value};
use disc_passes::fusion::{Layout, hoisting::block_axes, line_buffers::LineBuffer, space::Map};

/// The loops of a group.
pub(in crate::schedule::cpu) struct LoopNest<'g> {
    pub(super) group: &'g Group<'g>,
    pub(super) outputs: OutputSpace,
    /// The collapsed dimensions to walk; vectors are along the last.
    pub(super) runs: Vec<Merged>,
    /// The innermost run, if it is too short to be walked.
    pub(super) interleaved: Option<InterleavedLanes>,
    pub(in crate::schedule::cpu) lanes: u32,
    /// A flag that is true if each part of the inner run is one vector: see [`short_rows`].
    pub(super) is_short: bool,
    /// The axes of rows that the values shared by blocks depend on, if there are blocks.
    pub(super) block_axes: Option<Vec<usize>>,
    /// The values that are kept in tables; if rows are short, in registers.
    pub(super) tables: HoistedValues,
    /// The line buffers that are filled before each row.
    pub(super) line_buffers: Vec<LineBuffer>,
    /// The costly values that are constant along a row.
    pub(super) row_constants: Vec<Hoisted>,
}

/// The schedule of a nest.
enum Schedule {
    /// One element, without a loop.
    Scalar,
    /// All dimensions are one loop, cut into chunks.
    Collapsed,
    /// Blocks of rows share the values in tables.
    Blocked(RowBlocking),
    /// A task computes several rows, which share line buffers.
    LineBuffered,
    /// The values that are constant along a row are computed in vectors, several rows per task.
    RowConstants(Vec<Hoisted>),
    /// Consecutive rows share values in tables, which each position of the outer runs fills.
    OuterTables,
    /// Rows, or tiles of transposed rows, one after the other.
    Nested,
}

impl<'g> LoopNest<'g> {
    /// Returns the loops of a group whose outputs have one space.
    ///
    /// # Panics
    /// If they have not.
    pub(in crate::schedule::cpu) fn of(group: &'g Group<'g>) -> Self {
        let outputs = OutputSpace::of(group);
        let mut runs = outputs.runs(group);
        let OutputSpace { space, roots, .. } = &outputs;
        let interleaved = InterleavedLanes::of(group, space, roots, &runs);
        if interleaved.is_some() {
            runs.pop();
        }
        // Rows of a tile are written next to each other.
        let is_transposed = interleaved.is_none() && transposed_run(group, space, roots, &runs).is_some();
        let line_buffers = if is_transposed { Vec::new() } else { line_buffers_of(group, space, roots, &runs) };
        let is_plain = interleaved.is_none() && !is_transposed && line_buffers.is_empty();
        let kept = (0..space.len()).collect();
        let layout = || Layout { space: space.clone(), reduced: Vec::new(), kept, reduces: false, reordered: Vec::new() };
        let block_axes = is_plain.then(|| block_axes(group.function, &group.solver, &layout(), roots)).flatten();
        if block_axes.is_some() {
            runs = merge(space, &rows_apart(group, space, roots));
        }
        // Long computations are in tables of blocks.
        let of_loop = if block_axes.is_some() { cost::lanes_of_register } else { cost::lanes };
        let lanes = runs.last().map_or(1, |inner| of_loop(group.function, group.target, &group.solver, &inner.size));
        let inner_from = runs.len().checked_sub(2).map_or(0, |outer| runs[outer].axis + 1);
        let row_constants = match runs.is_empty() || is_transposed {
            true => Vec::new(),
            false => hoisted(group, space, roots, &|axes| axes.iter().all(|&axis| axis < inner_from)),
        };
        let tables = HoistedValues::new();
        let nest =
            Self { group, outputs, runs, interleaved, lanes, is_short: false, block_axes, tables, line_buffers, row_constants };
        match nest.lengths().filter(|_| !nest.is_flat()).and_then(|lengths| short_rows::always(group, &lengths)) {
            Some(lanes) => nest.shortened(lanes),
            None => nest,
        }
    }

    /// Returns true if both have the same loops.
    pub(super) fn walks_as(&self, other: &Self) -> bool {
        let axes = |nest: &Self| nest.runs.iter().map(|run| run.axis).collect::<Vec<_>>();
        self.interleaved.is_some() == other.interleaved.is_some() && axes(self) == axes(other)
    }

    /// Returns the same nest for parts of the inner run that have at most this many elements.
    pub(super) fn shortened(self, lanes: u32) -> Self {
        let mut tables = self.tables_of_space();
        tables.retain(|table| !table.is_outer || self.block_axes.is_some());
        Self { lanes, is_short: true, tables, ..self }
    }

    /// Returns the outer run that the elements of an operand are contiguous along: rows are
    /// transposed in tiles of it.
    pub(super) fn transposed(&self) -> Option<usize> {
        let OutputSpace { space, roots, .. } = &self.outputs;
        if self.interleaved.is_some() { None } else { transposed_run(self.group, space, roots, &self.runs) }
    }

    /// The lengths of the parts of the inner run that are walked by themselves, if there are rows
    /// and they are contiguous in memory.
    fn lengths(&self) -> Option<Vec<Dim>> {
        let [.., _, inner] = &self.runs[..] else { return None };
        if self.transposed().is_some() {
            return None;
        }
        Some(self.parts(inner, true).lengths())
    }

    /// Returns the vectors that rows may fit, with the conditions.
    pub(super) fn short_widths(&self) -> Vec<(u32, Vec<Condition>)> {
        let lengths = self.lengths().filter(|_| !self.is_short && !self.is_flat());
        lengths.map_or(Vec::new(), |lengths| short_rows::widths(self.group, &lengths))
    }

    /// Returns the values that are worth a table.
    pub(super) fn tables(&self) -> HoistedValues {
        if self.interleaved.is_some() || self.transposed().is_some() {
            return HoistedValues::new();
        }
        let mut tables = self.tables_of_space();
        // Rows with line buffers are counted several at once.
        tables.retain(|table| !table.is_outer || self.line_buffers.is_empty());
        tables
    }

    fn tables_of_space(&self) -> HoistedValues {
        let OutputSpace { space, roots, .. } = &self.outputs;
        hoisted_tables::hoisted_values(self.group, space, roots, &self.runs, self.block_axes.as_deref())
    }

    /// Returns the conditions for non-temporal stores: of results whose rows are written in order.
    pub(super) fn nontemporal(&self) -> Option<Nontemporal> {
        let starts = match &self.runs[..] {
            _ if self.is_short || self.interleaved.is_some() => return None,
            [] => return None,
            // Chunks start at multiples of their own.
            [_] => Vec::new(),
            [.., inner] => {
                if self.transposed().is_some() {
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
    pub(in crate::schedule::cpu) fn scheduled(&self) -> Scheduled {
        let mut frame = KernelFrame::new(self.group, &self.group.name, self.lanes);
        let (targets, range) = (frame.memory.outputs(), frame.range);
        let units = self.emit(&mut frame.kb, &mut frame.elements, &targets, range);
        let count = match self.lengths().filter(|_| self.is_short) {
            // Lanes beyond a row take time too.
            Some(parts) => {
                let rows = Dim::product(self.runs[..self.runs.len() - 1].iter().map(|run| run.size.clone()));
                &rows * (parts.len() as i64 * i64::from(self.lanes))
            }
            None => Dim::product(self.outputs.space.iter().cloned()),
        };
        frame.finish(units, cost::loops(self.group.function, &count, self.lanes))
    }

    /// Chooses the schedule.
    fn schedule(&self) -> Schedule {
        let [outer @ .., inner] = &self.runs[..] else { return Schedule::Scalar };
        if outer.is_empty() {
            return Schedule::Collapsed;
        }
        let has_outer_tables = self.tables.iter().any(|table| table.is_outer);
        if let Some(blocks) = self.blocks(outer, inner).filter(|_| has_outer_tables) {
            return Schedule::Blocked(blocks);
        }
        if !self.line_buffers.is_empty() {
            return Schedule::LineBuffered;
        }
        // Those of short rows are in registers.
        if has_outer_tables && !self.is_short {
            return Schedule::OuterTables;
        }
        match self.row_constants.iter().filter(|constant| !is_everywhere(constant)).cloned().collect::<Vec<_>>() {
            constants if constants.is_empty() => Schedule::Nested,
            constants => Schedule::RowConstants(constants),
        }
    }

    /// Emits the loops; returns the number of units.
    pub(in crate::schedule::cpu) fn emit(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        targets: &[Value],
        range: [Value; 2],
    ) -> Dim {
        let at = vec![Index::uniform(kb.int(0)); self.outputs.space.len()];
        match self.schedule() {
            Schedule::Scalar => {
                each_unit(kb, range, &[], |kb, _| elements.scoped(|elements| self.write(kb, elements, targets, &[at])));
                Dim::constant(1)
            }
            Schedule::Collapsed => collapsed::emit(self, kb, elements, (targets, range), at),
            Schedule::Blocked(blocks) => blocked::emit(self, kb, elements, (targets, range), &blocks),
            Schedule::LineBuffered => several_rows::line_buffered(self, kb, elements, (targets, range), at),
            Schedule::RowConstants(constants) => {
                several_rows::with_constants(self, kb, elements, (targets, range), at, &constants)
            }
            Schedule::OuterTables => nested::with_outer_tables(self, kb, elements, (targets, range), at),
            Schedule::Nested => nested::emit(self, kb, elements, (targets, range), at),
        }
    }

    /// Computes the values that are constant along the row at a position, or constant everywhere:
    /// code along rows finds them.
    pub(super) fn know(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index], everywhere: bool) {
        for (value, shape) in self.row_constants.iter().filter(|constant| is_everywhere(constant) == everywhere) {
            let place = elements.position(kb, &self.outputs.space, shape, at);
            elements.element(kb, *value, &place);
        }
    }

    /// Returns the blocks of rows that share costly values, if there are such.
    fn blocks(&self, outer: &[Merged], inner: &Merged) -> Option<RowBlocking> {
        RowBlocking::of(outer, self.block_axes.as_ref()?, &inner.size)
    }

    /// Returns true if the rows of a block are one run of elements, except for the values in its
    /// tables.
    pub(super) fn is_flat(&self) -> bool {
        let Some((inner, outer)) = self.runs.split_last() else { return false };
        let Some(blocks) = self.blocks(outer, inner) else { return false };
        let tables = self.tables_of_space();
        let OutputSpace { space, roots, .. } = &self.outputs;
        let is_known = |value: Value, map: &Map| tables.iter().any(|table| table.holds(&blocks, value, map));
        let pairs = mergeable_in(self.group.function, &self.group.solver, space, roots, &is_known);
        blocks.behind.is_empty() && pairs[blocks.run.axis..inner.axis].iter().all(|&pair| pair)
    }

    /// Returns the parts of the inner run, which are walked together only if `joint`.
    pub(super) fn parts(&self, inner: &Merged, joint: bool) -> ConcatParts {
        ConcatParts::of(self.group, &self.outputs.space, &self.outputs.roots, inner, joint)
    }

    /// Emits the inner loop.
    pub(super) fn each_vector<'e>(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'e>,
        (inner, joint): (&Merged, bool),
        body: &mut dyn FnMut(&mut KernelBuilder, &mut Elements<'e>, &[Index]),
    ) {
        let parts = self.parts(inner, joint);
        match self.is_short {
            true => parts.walk_short(kb, elements, self.lanes, body),
            false => parts.walk(kb, elements, body),
        }
    }

    /// Computes and stores an element of each output at some positions.
    pub(super) fn write(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, targets: &[Value], at: &[Vec<Index>]) {
        let outputs = self.group.outputs();
        let OutputSpace { space, shapes, .. } = &self.outputs;
        let alone = |at: &Vec<Index>| vec![at.clone()];
        let groups: Vec<Vec<Vec<Index>>> = at
            .iter()
            .map(|at| self.interleaved.as_ref().map_or_else(|| alone(at), |interleaved| interleaved.positions(kb, at)))
            .collect();
        // All are computed before any is stored: an output may alias an input that another output
        // reads.
        let mut computed: Vec<(usize, Vec<Vec<Index>>, Vec<Value>)> = Vec::new();
        for group in &groups {
            for (number, (&output, shape)) in outputs.iter().zip(shapes).enumerate() {
                let places: Vec<Vec<Index>> = group.iter().map(|at| elements.position(kb, space, shape, at)).collect();
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
