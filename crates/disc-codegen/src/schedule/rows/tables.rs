//! What rows have in common and costs something: computed along the reduced dimensions in front of them, and kept in task memory.
//!
//! Invariant: lines of a table lie one behind the other, each as long as the last run that its value follows; lanes beyond the last one hold anything.
use super::{
    super::{Group, domain::Merged, vectors::vector_loop},
    plan::{Placed, RowPlan},
};
use crate::{
    build::KernelBuilder,
    element::{Elements, compute_dtype},
    index::Index,
};
use disc_ir::{Dim, TensorType, Value};

#[derive(Clone)]
struct Table {
    placed: Placed,
    /// The reduced runs that the value follows.
    runs: Vec<Merged>,
    memory: Value,
    /// Whether it differs along kept dimensions.
    is_outer: bool,
}

/// The tables of a kernel.
#[derive(Clone, Default)]
pub(super) struct Tables(Vec<Table>);

impl Tables {
    /// Asks for task memory for the tables of a group.
    pub(super) fn of(
        kb: &mut KernelBuilder,
        elements: &Elements<'_>,
        group: &Group<'_>,
        plan: &RowPlan,
        reduced: &[Merged],
    ) -> Self {
        let table = |placed: Placed| {
            let follows = |run: &&Merged| placed.shape.iter().any(|axes| axes.contains(&run.axis));
            let runs: Vec<Merged> = reduced.iter().filter(follows).cloned().collect();
            let size = Dim::product(runs.iter().map(|run| run.size.clone())) + i64::from(elements.lanes);
            let memory = kb.scratch(TensorType::new([size], compute_dtype(group.tensor(placed.value).dtype)));
            let is_outer = placed.shape.iter().flatten().any(|axis| plan.layout.kept.contains(axis));
            Table { placed, runs, memory, is_outer }
        };
        Self(plan.common(group).into_iter().map(table).collect())
    }

    /// Whether some of them are others at other positions along the kept dimensions.
    pub(super) fn are_outer(&self) -> bool {
        self.0.iter().any(|table| table.is_outer)
    }

    /// Computes the tables that are the same for all rows, or those that differ along outer dimensions, for the position `at` along these.
    pub(super) fn fill(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, space: &[Dim], at: &[Index], outer: bool) {
        for table in self.0.iter().filter(|table| table.is_outer == outer) {
            elements.scoped(|elements| table.fill(kb, elements, space, at.to_vec(), &table.runs));
        }
    }

    /// Makes the elements known that a phase needs at a position.
    pub(super) fn recall(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, plan: &RowPlan, at: &[Index], phase: usize) {
        for table in self.0.iter().filter(|table| plan.is_needed(table.placed.value, phase)) {
            let (base, lanes) = match table.place(kb, elements, at) {
                Index::Affine { base, stride: 0 } => (base, 1),
                Index::Affine { base, stride: 1 } => (base, elements.lanes),
                _ => continue,
            };
            // There are whole vectors.
            let known = kb.load(table.memory, base, lanes, None);
            let place = elements.position(kb, &plan.layout.space, &table.placed.shape, at);
            elements.seed(table.placed.value, &place, known);
        }
    }
}

impl Table {
    fn place(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index]) -> Index {
        let parts: Vec<(Index, Dim)> = self.runs.iter().map(|run| (at[run.axis], run.size.clone())).collect();
        elements.join(kb, &parts)
    }

    /// Computes the elements along some runs, `at` being the position along the others.
    fn fill(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, space: &[Dim], at: Vec<Index>, runs: &[Merged]) {
        let Some((run, others)) = runs.split_first() else { return };
        let range = [kb.int(0), kb.dim(&run.size)];
        let mut at = at;
        if others.is_empty() {
            let exact = elements.solver.divisible(&run.size, i64::from(elements.lanes));
            return vector_loop(kb, elements, range, exact, &mut |kb, elements, index| {
                at[run.axis] = index;
                let place = elements.position(kb, space, &self.placed.shape, &at);
                let computed = elements.element(kb, self.placed.value, &place);
                let wide = kb.widen(computed, elements.lanes);
                let Index::Affine { base, .. } = self.place(kb, elements, &at) else { panic!("a run is walked in order") };
                // What is stored behind a line is written again with the next one.
                kb.store(self.memory, base, wide, None);
            });
        }
        let one = kb.int(1);
        kb.for_([range[0], range[1], one], &[], |kb, index, _| {
            elements.scoped(|elements| {
                at[run.axis] = Index::uniform(index);
                self.fill(kb, elements, space, at, others);
            });
            Vec::new()
        });
    }
}
