//! Multiplies a few rows by some or all columns, for schedules that keep rows of an operand or of
//! the result in task memory.
use super::{call::dispatch, dot_row, dot_words, micro, operands::Operands, pack, partition, register_tiles, write};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder, Site},
    schedule::{
        Group,
        cpu::matmul::plan::{
            MatmulPlan,
            forms::{ResultForm, RightForm},
            source::Source,
        },
    },
};
use disc_ir::{Function, TensorType, Value};
use disc_kernel_macros::expr;

/// A product inside of another schedule's kernel.
pub(in crate::schedule) struct BlockProduct<'g> {
    group: &'g Group<'g>,
    plan: &'g MatmulPlan,
    operands: Operands,
}

/// A block of rows, at most as many as a tile has, or a block of tile registers.
#[derive(Clone, Copy)]
pub(in crate::schedule) struct RowsOf {
    /// The start of their left operand.
    pub(in crate::schedule) left: Value,
    pub(in crate::schedule) first: Value,
    pub(in crate::schedule) height: Value,
}

impl<'g> BlockProduct<'g> {
    /// Takes the memory of the group's inputs, then of its outputs. Asks for task memory for
    /// panels, if the right operand has to be packed.
    pub(in crate::schedule) fn new(kb: &mut KernelBuilder, group: &'g Group<'g>, plan: &'g MatmulPlan, memory: &[Value]) -> Self {
        let known: Vec<Value> = group.inputs().iter().copied().chain(group.outputs()).collect();
        let of = |value: &Value| memory[known.iter().position(|k| k == value).expect("a product reads its group's memory")];
        let (inputs, outputs) = (plan.inputs.iter().map(of).collect(), plan.outputs.iter().map(of).collect());
        let operands = Operands::new(kb, plan, inputs, outputs, &mut |kb, _, tensor| kb.scratch(tensor));
        Self { group, plan, operands }
    }

    /// Gives the starts of the operands for a batch position.
    pub(in crate::schedule) fn bases(&self, kb: &mut KernelBuilder, at: &[Index]) -> [Value; 2] {
        partition::bases(kb, self.plan, at)
    }

    /// Gives the elements of the group's values, by vectors.
    pub(in crate::schedule) fn elements(&self) -> Elements<'g> {
        self.operands.elements(self.group, self.plan, self.plan.tile.lanes)
    }

    /// Gives the memory of the right operand.
    pub(in crate::schedule) fn right(&self) -> Value {
        self.operands.right()
    }

    /// Fills the memory for packed rows with zeros.
    pub(in crate::schedule) fn clear_rows(&self, kb: &mut KernelBuilder) {
        let (rows, count) = (self.operands.rows(), &self.plan.shape.m.left * self.plan.packed_rows());
        let (zero, count, step) = (kb.int(0), kb.dim(&count), kb.int(i64::from(self.plan.tile.lanes)));
        let nothing = kb.zero(self.plan.rows_dtype(), self.plan.tile.lanes);
        kb.for_each([zero, count, step], |kb, place| {
            kb.store(rows, place, nothing, None);
        });
    }

    /// Computes the outputs at a position from the sum of products there, and stores them.
    pub(in crate::schedule) fn store(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index], sum: Value) {
        write::store(kb, self.group, self.plan, &self.operands, elements, at, sum);
    }

    /// Packs panels of the right operand, from `low` to below `high`, if the plan needs it.
    pub(in crate::schedule) fn pack(&self, kb: &mut KernelBuilder, at: &[Index], right: Value, panels: [Value; 2]) {
        let depth = kb.dim(&self.plan.shape.k.size);
        self.pack_part(kb, at, right, panels, depth);
    }

    /// Packs `depth` rows of such panels: a part of the sums.
    pub(in crate::schedule) fn pack_part(
        &self,
        kb: &mut KernelBuilder,
        at: &[Index],
        right: Value,
        [low, high]: [Value; 2],
        depth: Value,
    ) {
        let plan = self.plan;
        if !plan.is_packed_right() {
            return;
        }
        let (one, width) = (kb.int(1), kb.int(i64::from(plan.tile.columns)));
        let mut elements = self.elements();
        kb.for_each([low, high, one], |kb, panel_loop| {
            let column = expr!(kb, panel_loop * width);
            let offset = self.panel_offset(kb, panel_loop, low);
            let panel =
                kb.view(self.operands.panel(), offset, TensorType::new([plan.packed_panel_elements()], plan.panel_dtype()));
            let operands = self.operands.with_panel(panel);
            match plan.right.form {
                RightForm::Computed => pack::compute_panel(kb, plan, &operands, &mut elements, at, column),
                RightForm::Rows if let Some(word) = plan.word => {
                    dot_words::weave_panel(kb, plan, word, &operands, [right, column], depth)
                }
                RightForm::Rows => pack::copy_panel(kb, plan, &operands, right, column),
                _ => pack::transpose_panel(kb, plan, &operands, right, column),
            }
        });
    }

    /// Gives the place of a panel among those that were packed from `low` on.
    fn panel_offset(&self, kb: &mut KernelBuilder, panel: Value, low: Value) -> Value {
        let size = kb.dim(&self.plan.packed_panel_elements());
        expr!(kb, (panel - low) * size)
    }

    /// Packs the left operand of a block, if the plan needs it; gives its start.
    fn left(&self, kb: &mut KernelBuilder, at: &[Index], block: RowsOf) -> Value {
        if !self.plan.left.is_packed() {
            return block.left;
        }
        let mut elements = self.elements();
        let last = expr!(kb, block.first + block.height);
        pack::compute_rows(kb, self.plan, &self.operands, &mut elements, at, [block.first, last]);
        kb.int(0)
    }

    /// Computes rows of the panels from `low` to below `high`: those that were packed together
    /// start at panel `packed`. The routines take the arguments `more` besides their own.
    pub(in crate::schedule) fn run(
        &self,
        kb: &mut KernelBuilder,
        at: &[Index],
        right: Value,
        block: RowsOf,
        [low, high, packed]: [Value; 3],
        more: &[Value],
    ) {
        let (plan, left) = (self.plan, self.left(kb, at, block));
        if plan.keeps_tiles() {
            return self.run_tiles(kb, at, [left, right], block, [low, high, packed], more);
        }
        let (zero, one, width) = (kb.int(0), kb.int(1), kb.int(i64::from(plan.tile.columns)));
        kb.for_each([low, high, one], |kb, panel| {
            let column = expr!(kb, panel * width);
            let base = match plan.right.form {
                RightForm::Rows => expr!(kb, right + column),
                RightForm::Panels => {
                    let size = kb.dim(&(&plan.shape.k.size * i64::from(plan.tile.columns)));
                    expr!(kb, right + panel * size)
                }
                RightForm::Columns { .. } | RightForm::Computed | RightForm::Dots | RightForm::Int4(_) => {
                    self.panel_offset(kb, panel, packed)
                }
            };
            let arguments = self.arguments(at, [left, base, block.first, column, zero, zero], more);
            self.call(kb, &arguments, column, block.height);
        });
    }

    /// Does the same by tile registers, in one call. Of a part of the sums, `right` is where they
    /// start in a panel.
    fn run_tiles(
        &self,
        kb: &mut KernelBuilder,
        at: &[Index],
        [left, right]: [Value; 2],
        block: RowsOf,
        [low, high, packed]: [Value; 3],
        more: &[Value],
    ) {
        let plan = self.plan;
        let zero = kb.int(0);
        let (column, panels, offset) =
            (expr!(kb, low * int(i64::from(plan.tile.columns))), expr!(kb, high - low), self.panel_offset(kb, low, packed));
        let base = if matches!(plan.result, ResultForm::Totals) { expr!(kb, offset + right) } else { offset };
        let mut arguments = self.arguments(at, [left, base, block.first, column, zero, zero], more);
        arguments.extend([block.height, panels]);
        kb.call(&register_tiles::name(&self.group.name, Source::Task), &arguments);
    }

    /// Gives the arguments of a routine.
    fn arguments(&self, at: &[Index], own: [Value; 6], more: &[Value]) -> Vec<Value> {
        let outer = self.plan.shape.outer.iter();
        let outer = outer.map(|o| at[o.run.axis].as_uniform().expect("a batch position is a scalar"));
        self.operands.arguments().into_iter().chain(own).chain(outer).chain(more.iter().copied()).collect()
    }

    /// Computes rows of the columns from `low` to below `high` by sums along memory. Column `start`
    /// is the first that is in task memory.
    pub(in crate::schedule) fn run_along_sums(
        &self,
        kb: &mut KernelBuilder,
        at: &[Index],
        right: Value,
        block: RowsOf,
        [low, high]: [Value; 2],
        start: Value,
    ) {
        let (plan, left) = (self.plan, self.left(kb, at, block));
        let (zero, one, step) = (kb.int(0), kb.int(1), kb.int(i64::from(plan.tile.lanes)));
        let stride = kb.dim(&plan.shape.m.left);
        kb.for_each([low, high, step], |kb, column| {
            kb.for_each([zero, block.height, one], |kb, number| {
                let (left, row) = (expr!(kb, left + number * stride), expr!(kb, block.first + number));
                let arguments = self.arguments(at, [left, right, row, column, block.first, zero], &[start]);
                kb.call(&dot_row::name(&self.group.name), &arguments);
            });
        });
    }

    /// Emits the routine that [`BlockProduct::run_along_sums`] calls.
    pub(in crate::schedule) fn keys_routine(group: &Group<'_>, plan: &MatmulPlan) -> (Function, Vec<Site>) {
        dot_row::emit(group, plan)
    }

    /// Calls the routine for a panel.
    fn call(&self, kb: &mut KernelBuilder, arguments: &[Value], column: Value, height: Value) {
        let (plan, name) = (self.plan, &self.group.name);
        let Some((source, most)) = plan.half_panel() else { return self.call_whole(kb, arguments, column, height) };
        let (columns, most) = (kb.dim(&plan.shape.n.size), kb.int(i64::from(most)));
        let fits = expr!(kb, columns - column <= most);
        let half = |kb: &mut KernelBuilder| {
            dispatch(kb, name, source, arguments, height, [1, plan.tile.rows]);
            Vec::new()
        };
        let whole = |kb: &mut KernelBuilder| {
            self.call_whole(kb, arguments, column, height);
            Vec::new()
        };
        kb.if_(fits, half, whole);
    }

    /// Calls the routine for a panel with columns for more than half of its vectors.
    fn call_whole(&self, kb: &mut KernelBuilder, arguments: &[Value], column: Value, height: Value) {
        let (plan, name) = (self.plan, &self.group.name);
        let heights = [1, plan.tile.rows];
        match plan.block_sources(self.group.target)[..] {
            [whole, edge] => {
                let (width, columns) = (kb.int(i64::from(plan.tile.columns)), kb.dim(&plan.shape.n.size));
                let is_whole = expr!(kb, column + width <= columns);
                let run = |source| {
                    move |kb: &mut KernelBuilder| {
                        dispatch(kb, name, source, arguments, height, heights);
                        Vec::new()
                    }
                };
                let (then, otherwise) = (run(whole), run(edge));
                kb.if_(is_whole, then, otherwise);
            }
            ref sources => dispatch(kb, name, sources[0], arguments, height, heights),
        }
    }

    /// Emits the routines that [`BlockProduct::run`] calls.
    pub(in crate::schedule) fn routines(group: &Group<'_>, plan: &MatmulPlan) -> Vec<(Function, Vec<Site>)> {
        if plan.keeps_tiles() {
            return vec![register_tiles::emit_block(group, plan, &group.name)];
        }
        let mut sources = plan.block_sources(group.target);
        sources.extend(plan.half_panel().map(|(source, _)| source));
        let heights = |source| (1..=plan.tile.rows).map(move |rows| micro::emit(group, plan, &group.name, source, rows));
        sources.into_iter().flat_map(heights).collect()
    }
}
