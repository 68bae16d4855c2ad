//! Hoists costly values that rows share. They are computed along the reduced dimensions before all
//! rows, or before consecutive ones, or before a block of them
//! ([`crate::schedule::common::row_blocking`]), and kept in task memory.
//!
//! Invariant: lines of a table are stored one after another, each as long as the last run along
//! which its value varies, those of a row of a block after those of the previous row; lanes after
//! the last one are undefined.
use super::plan::{Placed, ReductionSchedule};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder, compute_dtype},
    schedule::{
        Group,
        common::{concat_parts::ConcatParts, iteration_space::Merged, row_blocking::RowBlocking},
    },
};
use disc_ir::{Dim, TensorType, Value};
use disc_kernel_macros::expr;
use disc_passes::fusion::space::map_along;

/// Rows that are walked in blocks.
pub(super) struct Walk {
    pub(super) blocks: RowBlocking,
    /// The kept axes that tables of blocks follow.
    pub(super) followed: Vec<usize>,
}

#[derive(Clone)]
struct Table {
    placed: Placed,
    /// The reduced runs that the value follows.
    runs: Vec<Merged>,
    memory: Value,
    /// A flag that is true if it varies along kept dimensions.
    is_outer: bool,
    /// The axis of the rows of a block, and their number, if it varies along that.
    block: Option<(usize, Dim)>,
    /// The way that the last run is walked.
    parts: ConcatParts,
}

/// The tables of a kernel.
#[derive(Clone, Default)]
pub(super) struct Tables {
    tables: Vec<Table>,
    /// The number of the first row of the block.
    pub(super) first: Option<Value>,
}

impl Tables {
    /// Allocates task memory for the tables of a group, of which those that vary along kept
    /// dimensions are of blocks, if there are some.
    pub(super) fn of(
        kb: &mut KernelBuilder,
        elements: &Elements<'_>,
        group: &Group<'_>,
        plan: &ReductionSchedule,
        reduced: &[Merged],
        walk: Option<&Walk>,
    ) -> Self {
        let blocks = walk.map(|walk| &walk.blocks);
        let table = |placed: Placed| {
            let axes = placed.shape.concat();
            let runs: Vec<Merged> = reduced.iter().filter(|run| axes.contains(&run.axis)).cloned().collect();
            let block = blocks.filter(|blocks| axes.contains(&blocks.run.axis));
            let sizes = runs.iter().map(|run| run.size.clone()).chain(block.map(|block| block.rows.clone()));
            let size = Dim::product(sizes) + i64::from(elements.lanes);
            let memory = kb.scratch(TensorType::new([size], compute_dtype(group.tensor(placed.value).dtype)));
            let is_outer = axes.iter().any(|axis| plan.layout.kept.contains(axis));
            let last = runs.last().expect("a table differs along rows");
            let parts = ConcatParts::of(group, &plan.layout.space, &[(placed.value, map_along(&placed.shape))], last, true);
            Table { placed, runs, memory, is_outer, block: block.map(|block| (block.run.axis, block.rows.clone())), parts }
        };
        let common = plan.common(group, walk.map(|walk| &walk.followed[..]));
        Self { tables: common.into_iter().map(table).collect(), first: None }
    }

    /// Returns true if some of them differ at other positions along the kept dimensions.
    pub(super) fn are_outer(&self) -> bool {
        self.tables.iter().any(|table| table.is_outer)
    }

    /// Computes the tables that are the same for all rows.
    pub(super) fn fill(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, space: &[Dim], at: &[Index]) {
        let common: Vec<&Table> = self.tables.iter().filter(|table| !table.is_outer).collect();
        for alike in alike(&common) {
            elements.scoped(|elements| fill(kb, elements, (space, &[]), (at.to_vec(), None), &alike, &alike[0].runs));
        }
    }

    /// Computes those that vary along outer dimensions, for the position `at` along these; of a
    /// block, for its rows.
    pub(super) fn fill_outer(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        space: &[Dim],
        at: &[Index],
        block: Option<[Value; 2]>,
    ) {
        let (common, outer): (Vec<&Table>, Vec<&Table>) = self.tables.iter().partition(|table| !table.is_outer);
        for alike in alike(&outer) {
            let runs = &alike[0].runs;
            let mut fill = |kb: &mut KernelBuilder, at: Vec<Index>, first: Option<Value>| {
                elements.scoped(|elements| fill(kb, elements, (space, &common), (at, first), &alike, runs));
            };
            let (Some((axis, _)), Some([first, stop])) = (&alike[0].block, block) else {
                fill(kb, at.to_vec(), None);
                continue;
            };
            let one = kb.int(1);
            kb.for_each([first, stop, one], |kb, row| {
                let mut at = at.to_vec();
                at[*axis] = Index::uniform(row);
                fill(kb, at, Some(first));
            });
        }
    }

    /// Makes the elements known that a phase needs at a position.
    pub(super) fn recall(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        plan: &ReductionSchedule,
        at: &[Index],
        phase: usize,
    ) {
        for table in self.tables.iter().filter(|table| plan.is_needed(table.placed.value, phase)) {
            table.recall(kb, elements, &plan.layout.space, at, self.first);
        }
    }
}

/// Groups tables that one nest of loops computes: their common values are computed once.
fn alike<'t>(tables: &[&'t Table]) -> Vec<Vec<&'t Table>> {
    let nest = |table: &Table| {
        let runs: Vec<usize> = table.runs.iter().map(|run| run.axis).collect();
        (runs, table.block.is_some(), table.parts.starts.clone())
    };
    let mut found: Vec<Vec<&Table>> = Vec::new();
    for &table in tables {
        match found.iter_mut().find(|others| nest(others[0]) == nest(table)) {
            Some(others) => others.push(table),
            None => found.push(vec![table]),
        }
    }
    found
}

/// Computes the elements of some tables along some runs, `at` being the position along the others;
/// tables that are `known` are read.
fn fill(
    kb: &mut KernelBuilder,
    elements: &mut Elements<'_>,
    (space, known): (&[Dim], &[&Table]),
    (mut at, first): (Vec<Index>, Option<Value>),
    tables: &[&Table],
    runs: &[Merged],
) {
    let Some((run, others)) = runs.split_first() else { return };
    if others.is_empty() {
        return tables[0].parts.walk(kb, elements, &mut |kb, elements, indices| {
            for (number, &index) in indices.iter().enumerate() {
                at[run.axis] = index;
                known.iter().for_each(|table| table.recall(kb, elements, space, &at, None));
                for table in tables {
                    let place = elements.position(kb, space, &table.placed.shape, &at);
                    let computed = elements.element(kb, table.placed.value, &place);
                    let wide = kb.widen(computed, elements.lanes);
                    let Index::Affine { base, .. } = table.place(kb, elements, &at, first) else {
                        panic!("a run is walked in order")
                    };
                    // Elements stored after a line are overwritten by the next one, but those after
                    // a part are not.
                    let mask = elements.mask.filter(|_| number + 1 < indices.len());
                    kb.store(table.memory, base, wide, mask);
                }
            }
        });
    }
    let [first_of_run, stop, one] = [kb.int(0), kb.dim(&run.size), kb.int(1)];
    kb.for_each([first_of_run, stop, one], |kb, index| {
        elements.scoped(|elements| {
            at[run.axis] = Index::uniform(index);
            fill(kb, elements, (space, known), (at, first), tables, others);
        });
    });
}

impl Table {
    /// The position of an element in a table of a block whose first row is number `first`.
    fn place(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index], first: Option<Value>) -> Index {
        let mut parts: Vec<(Index, Dim)> = Vec::new();
        if let (Some((axis, rows)), Some(first)) = (&self.block, first) {
            let Index::Affine { base, stride } = at[*axis] else { panic!("rows are walked in order") };
            parts.push((Index::Affine { base: expr!(kb, base - first), stride }, rows.clone()));
        }
        parts.extend(self.runs.iter().map(|run| (at[run.axis], run.size.clone())));
        elements.join(kb, &parts)
    }

    /// Makes the element at a position known.
    fn recall(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, space: &[Dim], at: &[Index], first: Option<Value>) {
        let (base, lanes) = match self.place(kb, elements, at, first) {
            Index::Affine { base, stride: 0 } => (base, 1),
            Index::Affine { base, stride: 1 } => (base, elements.lanes),
            _ => return,
        };
        // The table holds whole vectors.
        let known = kb.load(self.memory, base, lanes, None);
        let place = elements.position(kb, space, &self.placed.shape, at);
        elements.seed(self.placed.value, &place, known);
    }
}
