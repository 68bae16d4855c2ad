//! The row blocks of a chunk on one panel.
use super::{
    call::{dispatch, in_blocks},
    dot,
    operands::Operands,
    partition, prefetch, register_tiles, tail_columns,
};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::{
        Group,
        cpu::matmul::plan::{MatmulPlan, source::Source},
    },
};
use disc_ir::{Dim, Value};
use disc_kernel_macros::expr;

/// A product within the kernel.
pub(in crate::schedule) struct Part<'g> {
    pub(in crate::schedule) plan: &'g MatmulPlan,
    pub(in crate::schedule) operands: Operands,
    /// The prefix of the names of its routines.
    pub(in crate::schedule) name: String,
    /// Elements of the values that are computed before the product.
    pub(in crate::schedule) elements: Elements<'g>,
}

/// The row blocks of a chunk, on one panel.
pub(in crate::schedule) struct Blocks<'a> {
    at: &'a [Index],
    left: Value,
    /// From the first row to below the last.
    pub(in crate::schedule) rows: [Value; 2],
    pub(in crate::schedule) column: Value,
    panel_width: u32,
    columns: Dim,
}

impl<'a> Blocks<'a> {
    pub(in crate::schedule) fn new(plan: &MatmulPlan, at: &'a [Index], left: Value, rows: [Value; 2], column: Value) -> Self {
        Self { at, left, rows, column, panel_width: plan.tile.columns, columns: plan.shape.n.size.clone() }
    }

    pub(in crate::schedule) fn has_at_most(&self, kb: &mut KernelBuilder, rows: u32) -> Value {
        expr!(kb, self.rows[1] - self.rows[0] <= int(i64::from(rows)))
    }

    /// Tests `also`, and that the panels from the first column on are whole.
    pub(in crate::schedule) fn is_whole(&self, kb: &mut KernelBuilder, always: bool, panels: i64, also: Value) -> Value {
        if always {
            return also;
        }
        let (width, columns) = (kb.int(panels * i64::from(self.panel_width)), kb.dim(&self.columns));
        expr!(kb, (self.column + width <= columns) & also)
    }

    /// Gives the batch position as arguments.
    fn outer(&self, plan: &MatmulPlan) -> Vec<Value> {
        plan.shape.outer.iter().map(|o| self.at[o.run.axis].as_uniform().expect("a batch position is a scalar")).collect()
    }

    /// Multiplies the rows by a panel: in tile registers where the plan takes them and the chunk
    /// has the rows of a tile, else by micro-kernels.
    pub(in crate::schedule) fn call(
        &self,
        kb: &mut KernelBuilder,
        group: &Group<'_>,
        part: &Part<'_>,
        source: Source,
        right: Value,
    ) {
        if !part.plan.reads_register_tiles(source) {
            return self.call_micro_kernels(kb, group, part, source, right);
        }
        if part.plan.always_fills_registers() {
            return self.call_register_tiles(kb, part, source, right);
        }
        let fills = register_tiles::fills(kb, self.rows);
        let by_tiles = |kb: &mut KernelBuilder| {
            self.call_register_tiles(kb, part, source, right);
            Vec::new()
        };
        let by_words = |kb: &mut KernelBuilder| {
            self.call_micro_kernels(kb, group, part, source, right);
            Vec::new()
        };
        kb.if_(fills, by_tiles, by_words);
    }

    /// Calls micro-kernels for even blocks of rows.
    fn call_micro_kernels(&self, kb: &mut KernelBuilder, group: &Group<'_>, part: &Part<'_>, source: Source, right: Value) {
        let plan = part.plan;
        let zero = kb.int(0);
        let fetches = if source.is_prepared() { self.fetches(kb, part) } else { zero };
        partition::for_row_blocks(kb, plan, self.rows, |kb, block, [first, height]| {
            self.call_rows(kb, group, part, source, [right, fetches], [block, first, height]);
        });
    }

    /// Calls the micro-kernel of one source for the first block, which leaves the panel from
    /// `right` on in task memory, and that of another source for the others.
    pub(in crate::schedule) fn call_in_turn(
        &self,
        kb: &mut KernelBuilder,
        group: &Group<'_>,
        part: &Part<'_>,
        [first, others]: [Source; 2],
        right: Value,
    ) {
        let zero = kb.int(0);
        let fetches = if first.is_prepared() { self.fetches(kb, part) } else { zero };
        // A copied operand is not the memory that the others' panel is stored in.
        let there = if others.is_prepared() { right } else { zero };
        partition::for_row_blocks(kb, part.plan, self.rows, |kb, number, [row, height]| {
            let call = |source, right| {
                move |kb: &mut KernelBuilder| {
                    self.call_rows(kb, group, part, source, [right, fetches], [number, row, height]);
                    Vec::new()
                }
            };
            let is_first = expr!(kb, number == zero);
            kb.if_(is_first, call(first, right), call(others, there));
        });
    }

    /// Gives the start of the left operand for a row.
    pub(in crate::schedule) fn left_of(&self, kb: &mut KernelBuilder, plan: &MatmulPlan, row: Value) -> Value {
        expr!(kb, self.left + row * dim(&plan.shape.m.left))
    }

    /// Gives the arguments of a routine: for block number `block`, whose first row is `first` and
    /// starts at `left`, by the panel at `right`, whose first column is `column`.
    pub(in crate::schedule) fn arguments(
        &self,
        part: &Part<'_>,
        [left, right]: [Value; 2],
        [first, column]: [Value; 2],
        [block, fetches]: [Value; 2],
    ) -> Vec<Value> {
        let mut arguments = part.operands.arguments();
        arguments.extend([left, right, first, column, block, fetches]);
        arguments.extend(self.outer(part.plan));
        arguments
    }

    /// Calls the micro-kernel for block number `block`, given its first row and its height.
    pub(in crate::schedule) fn call_rows(
        &self,
        kb: &mut KernelBuilder,
        group: &Group<'_>,
        part: &Part<'_>,
        source: Source,
        [right, fetches]: [Value; 2],
        [block, first, height]: [Value; 3],
    ) {
        let plan = part.plan;
        let left = self.left_of(kb, plan, first);
        let arguments = self.arguments(part, [left, right], [first, self.column], [block, fetches]);
        if source != Source::Tail(0) {
            dispatch(kb, &part.name, source, &arguments, height, plan.heights(group.target, source));
        }
        if matches!(source, Source::Tail(_)) && !plan.rest_blocks().is_empty() {
            self.call_rest(kb, group, part, left, [block, first, height]);
        }
    }

    /// Gives the lines of the next panel to prefetch in each round: all of them, spread over the
    /// row blocks.
    fn fetches(&self, kb: &mut KernelBuilder, part: &Part<'_>) -> Value {
        let blocks = partition::row_blocks(kb, part.plan, self.rows);
        prefetch::share(kb, part.plan, part.operands.right(), blocks)
    }

    /// Calls the routines for blocks of dot products.
    pub(in crate::schedule) fn call_dots(&self, kb: &mut KernelBuilder, group: &Group<'_>, part: &Part<'_>, right: Value) {
        let plan = part.plan;
        let (width, columns) = (kb.int(i64::from(plan.tile.columns)), kb.dim(&plan.shape.n.size));
        let end = expr!(kb, min(self.column + width, columns));
        let [tall, wide] = plan.dot_blocks(group.target);
        in_blocks(kb, self.rows, &tall, &mut |kb, rows, row| {
            in_blocks(kb, [self.column, end], &wide, &mut |kb, columns, column| {
                let (down, across) = (kb.dim(&plan.shape.m.left), kb.dim(&plan.shape.n.right));
                let (down, across) = (expr!(kb, row * down), expr!(kb, column * across));
                let (left, right) = (expr!(kb, self.left + down), expr!(kb, right + across));
                let mut arguments = part.operands.arguments();
                arguments.extend([left, right, row, column]);
                arguments.extend(self.outer(plan));
                kb.call(&dot::name(&part.name, rows, columns), &arguments);
            });
        });
    }

    /// Multiplies a block of rows, which start at `left`, by the columns of the panel that are left
    /// over.
    fn call_rest(
        &self,
        kb: &mut KernelBuilder,
        group: &Group<'_>,
        part: &Part<'_>,
        left: Value,
        [block, first, height]: [Value; 3],
    ) {
        let plan = part.plan;
        let (zero, stride) = (kb.int(0), kb.dim(&plan.rest_stride()));
        let [start, count] = tail_columns::rest(kb, plan, self.column);
        let start = expr!(kb, self.column + start);
        in_blocks(kb, [zero, count], &plan.rest_blocks(), &mut |kb, columns, number| {
            let (right, column) = (expr!(kb, number * stride), expr!(kb, start + number));
            let arguments = self.arguments(part, [left, right], [first, column], [block, zero]);
            let source = Source::Along(columns);
            dispatch(kb, &part.name, source, &arguments, height, plan.heights(group.target, source));
        });
    }
}
