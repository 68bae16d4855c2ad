//! The panels of a work unit: packs them where that pays, and multiplies the chunk's rows by them.
use super::{
    blocks::{Blocks, Part},
    dot_words, int4,
    operands::Operands,
    pack, partition, tail_columns,
};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::{
        Group,
        cpu::matmul::plan::{MatmulPlan, forms::RightForm, partition::SPAN, right::few_rows, source::Source},
    },
};
use disc_ir::{TensorType, Value};
use disc_kernel_macros::expr;

/// The rows that a unit multiplies by its panels.
#[derive(Clone, Copy)]
struct Chunk<'a> {
    group: &'a Group<'a>,
    /// The position along the batch dimensions.
    at: &'a [Index],
    /// The starts of the operands there.
    bases: [Value; 2],
    /// From the first row to below the last.
    rows: [Value; 2],
}

/// Multiplies by the panels of a column unit.
pub(in crate::schedule) fn panels(
    kb: &mut KernelBuilder,
    group: &Group<'_>,
    part: &mut Part<'_>,
    at: &[Index],
    rows: [Value; 2],
    unit: Value,
) {
    let plan = part.plan;
    let mut bases = partition::bases(kb, plan, at);
    if plan.left.is_packed() {
        // The rows in task memory start with the first of the chunk.
        bases[0] = expr!(kb, 0 - rows[0] * dim(&plan.shape.m.left));
    }
    let chunk = Chunk { group, at, bases, rows };
    let span = kb.dim(&plan.span(group.target));
    let first = expr!(kb, unit * span);
    let Some(few) = plan.wide_rows(group.target) else {
        return chunk.span(kb, part, [first, span]);
    };
    let column = expr!(kb, first * int(i64::from(plan.tile.columns)));
    let block = chunk.blocks(plan, column);
    let is_few = block.has_at_most(kb, few);
    let is_few = block.is_whole(kb, plan.partition.whole_spans, SPAN, is_few);
    kb.when(is_few, |kb| {
        let right = expr!(kb, bases[1] + column);
        block.call(kb, group, part, Source::Wide, right);
    });
    let is_more = expr!(kb, !is_few);
    kb.when(is_more, |kb| {
        chunk.span(kb, part, [first, span]);
    });
}

impl<'a> Chunk<'a> {
    fn blocks(&self, plan: &MatmulPlan, column: Value) -> Blocks<'a> {
        Blocks::new(plan, self.at, self.bases[0], self.rows, column)
    }

    /// Multiplies by as many panels as a unit has, from the first of them on.
    fn span(&self, kb: &mut KernelBuilder, part: &mut Part<'_>, [first, span]: [Value; 2]) {
        let (one, count) = (kb.int(1), kb.dim(&part.plan.panels()));
        if kb.known_int(span) == Some(1) && part.plan.panels_at_once() == 1 {
            return self.panel(kb, part, first);
        }
        let last = expr!(kb, min(first + span, count));
        if part.plan.panels_at_once() > 1 {
            return self.at_once(kb, part, [first, last]);
        }
        kb.for_each([first, last, one], |kb, panel_loop| {
            self.panel(kb, part, panel_loop);
        });
    }

    /// Packs one panel where that pays, and multiplies by it.
    fn panel(&self, kb: &mut KernelBuilder, part: &mut Part<'_>, panel: Value) {
        let (plan, group) = (part.plan, self.group);
        let column = expr!(kb, panel * int(i64::from(plan.tile.columns)));
        let block = self.blocks(plan, column);
        let few = match plan.right.form {
            RightForm::Panels => {
                let right = expr!(kb, self.bases[1] + panel * dim(&plan.panel_size()));
                return self.prepared(kb, part, &block, right);
            }
            RightForm::Dots => return block.call_dots(kb, group, part, self.bases[1]),
            RightForm::Columns { dots_for_few_rows: true } => block.has_at_most(kb, few_rows(group.target)),
            RightForm::Computed | RightForm::Columns { .. } => return self.packed(kb, part, &block),
            RightForm::Rows if plan.word.is_some() => return self.packed(kb, part, &block),
            RightForm::Rows => self.stays_in_place(kb, plan, &block),
            RightForm::Int4(_) => block.has_at_most(kb, plan.rows_by_int4(group.target)),
        };
        kb.when(few, |kb| match plan.right.form {
            RightForm::Rows => {
                let right = expr!(kb, self.bases[1] + column);
                block.call(kb, group, part, Source::InPlace, right);
            }
            RightForm::Int4(_) => block.call(kb, group, part, Source::Int4, panel),
            _ => block.call_dots(kb, group, part, self.bases[1]),
        });
        let many = expr!(kb, !few);
        kb.when(many, |kb| match plan.right.int4() {
            Some(int4) => {
                int4::unpack_panel(kb, plan, int4, &part.operands, panel);
                let zero = kb.int(0);
                block.call(kb, group, part, Source::Task, zero);
            }
            None => self.packed(kb, part, &block),
        });
    }

    /// Multiplies by a panel of weights, which several blocks of rows read from task memory if it
    /// has to be converted.
    fn prepared(&self, kb: &mut KernelBuilder, part: &Part<'_>, block: &Blocks<'_>, right: Value) {
        let (plan, group) = (part.plan, self.group);
        if !plan.widens_panels() {
            return block.call(kb, group, part, Source::Panels, right);
        }
        let few = block.has_at_most(kb, plan.rows_as_stored());
        let as_stored = |kb: &mut KernelBuilder| {
            block.call(kb, group, part, Source::Panels, right);
            Vec::new()
        };
        let converted = |kb: &mut KernelBuilder| {
            block.call_in_turn(kb, group, part, [Source::Widening, Source::Widened], right);
            Vec::new()
        };
        kb.if_(few, as_stored, converted);
    }

    /// Tests if a panel of columns that are contiguous is read in place.
    fn stays_in_place(&self, kb: &mut KernelBuilder, plan: &MatmulPlan, block: &Blocks<'_>) -> Value {
        let few = block.has_at_most(kb, plan.rows_in_place());
        let few = block.is_whole(kb, plan.partition.whole_panels, 1, few);
        match plan.wide_rows(self.group.target) {
            Some(rows) => {
                let fewer = block.has_at_most(kb, rows);
                expr!(kb, few & !fewer)
            }
            None => few,
        }
    }

    /// Packs a panel into task memory, and multiplies by it.
    fn packed(&self, kb: &mut KernelBuilder, part: &mut Part<'_>, block: &Blocks<'_>) {
        let plan = part.plan;
        if !plan.copies_panels() {
            return self.packed_first(kb, part, block);
        }
        if plan.has_whole_units(self.group.target) {
            return self.copied(kb, part, block);
        }
        let few = block.has_at_most(kb, plan.rows_in_place());
        let many = expr!(kb, !few);
        let copies = block.is_whole(kb, plan.partition.whole_panels, 1, many);
        kb.when(copies, |kb| {
            self.copied(kb, part, block);
        });
        let packs = expr!(kb, !copies);
        kb.when(packs, |kb| {
            self.packed_first(kb, part, block);
        });
    }

    /// Reads the panel in place for the first block of rows, which leaves it in task memory for the
    /// others: a copy by itself would wait for memory without anything to multiply.
    fn copied(&self, kb: &mut KernelBuilder, part: &Part<'_>, block: &Blocks<'_>) {
        let right = expr!(kb, self.bases[1] + block.column);
        block.call_in_turn(kb, self.group, part, [Source::Copied, Source::Task], right);
    }

    /// Packs one panel and multiplies all rows by it while it is in cache.
    fn packed_first(&self, kb: &mut KernelBuilder, part: &mut Part<'_>, block: &Blocks<'_>) {
        let plan = part.plan;
        self.pack(kb, plan, &part.operands, &mut part.elements, block.column);
        let (part, zero) = (&*part, kb.int(0));
        by_width(kb, plan, block.column, &|kb, source| block.call(kb, self.group, part, source, zero));
    }

    /// Packs the panels from `first` to below `last`, and multiplies each block of rows by all of
    /// them, so that its results are written side by side.
    fn at_once(&self, kb: &mut KernelBuilder, part: &mut Part<'_>, [first, last]: [Value; 2]) {
        let plan = part.plan;
        let (one, width) = (kb.int(1), kb.int(i64::from(plan.tile.columns)));
        let elements = plan.packed_panel_elements();
        let size = kb.dim(&elements);
        let place = |kb: &mut KernelBuilder, panel: Value| {
            let number = expr!(kb, panel - first);
            [expr!(kb, panel * width), expr!(kb, number * size)]
        };
        let panel_loop = kb.open_for([first, last, one]);
        let [column, offset] = place(kb, panel_loop.index);
        let panel = kb.view(part.operands.panel(), offset, TensorType::new([elements], plan.panel_dtype()));
        let operands = part.operands.with_panel(panel);
        self.pack(kb, plan, &operands, &mut part.elements, column);
        kb.close_for(panel_loop);
        let part = &*part;
        partition::for_row_blocks(kb, plan, self.rows, |kb, number, rows| {
            kb.for_each([first, last, one], |kb, panel| {
                let [column, offset] = place(kb, panel);
                let block = self.blocks(plan, column);
                let zero = kb.int(0);
                by_width(kb, plan, column, &|kb, source| {
                    block.call_rows(kb, self.group, part, source, [offset, zero], [number, rows[0], rows[1]])
                });
            });
        });
    }

    /// Packs the panel whose first column is `column` into that of the operands.
    fn pack(&self, kb: &mut KernelBuilder, plan: &MatmulPlan, operands: &Operands, elements: &mut Elements<'_>, column: Value) {
        match plan.right.form {
            RightForm::Rows if let Some(word) = plan.word => {
                let depth = kb.dim(&plan.shape.k.size);
                dot_words::weave_panel(kb, plan, word, operands, [self.bases[1], column], depth)
            }
            RightForm::Rows => pack::copy_panel(kb, plan, operands, self.bases[1], column),
            RightForm::Columns { .. } => pack::transpose_panel(kb, plan, operands, self.bases[1], column),
            _ => pack::compute_panel(kb, plan, operands, elements, self.at, column),
        }
        tail_columns::copy_columns(kb, plan, operands, column);
    }
}

/// Runs `body` with the source of a panel in task memory: one of fewer narrow vectors, where these
/// have room for the columns from `column` on.
fn by_width(kb: &mut KernelBuilder, plan: &MatmulPlan, column: Value, body: &dyn Fn(&mut KernelBuilder, Source)) {
    let left = expr!(kb, dim(&plan.shape.n.size) - column);
    let most = |tail: u32| i64::from(tail * plan.narrow() + plan.most_rest());
    let tails: Vec<(u32, Value)> = plan.tails().into_iter().map(|tail| (tail, kb.int(most(tail)))).collect();
    narrowest(kb, left, &tails, body);
}

/// Chooses among `tails`, the narrow vectors and the most columns of each, narrower ones first, for
/// `left` columns.
fn narrowest(kb: &mut KernelBuilder, left: Value, tails: &[(u32, Value)], body: &dyn Fn(&mut KernelBuilder, Source)) {
    let Some((&(tail, most), wider)) = tails.split_first() else { return body(kb, Source::Task) };
    let fits = expr!(kb, left <= most);
    let here = |kb: &mut KernelBuilder| {
        body(kb, Source::Tail(tail));
        Vec::new()
    };
    let there = |kb: &mut KernelBuilder| {
        narrowest(kb, left, wider, body);
        Vec::new()
    };
    kb.if_(fits, here, there);
}
