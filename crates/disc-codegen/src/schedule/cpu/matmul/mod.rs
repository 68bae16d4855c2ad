//! The contraction schedule: matrix products by register-blocked micro-kernels, with element-wise epilogues.
//!
//! Rows are cut into even blocks of at most `MR` rows and columns into panels of `NR`; the micro-kernel for a row count keeps its whole block of
//! results in registers, runs over the summed dimension, applies the rest of the group and stores. [`plan`] says how the operands are read:
//! from panels `[n/NR][k][NR]` that were packed when the weights were loaded, as they lie, or from task memory that the work unit packs.
//! Products of a few columns, or of a few rows with a right operand that is contiguous along the sums, are dot products along memory.
//!
//! A work unit is a chunk of rows times one panel (a few panels, where it packs rows), for one position along the batch dimensions. Units of one
//! chunk follow one another, so that threads split rows when there are many and panels when there are few. Several products of one left
//! operand are one launch: the panels of one follow those of the other.
//!
//! The tile sizes and the even blocks are those of the measurements in docs/performance/matmul.md.
mod emit;
mod library;
mod plan;

pub(in crate::schedule) use emit::split_k::split_k;
pub(super) use emit::{
    interleaved::InterleavedProduct,
    row_block::{BlockProduct, RowsOf},
};
pub(in crate::schedule) use library::{offer_products, offered};
pub(super) use plan::{MatmulPlan, Right, Role, RowBuffer, epilogue::check_elementwise};
pub use plan::{Tile, tile};

use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder, Site},
    schedule::{
        Group, Launch, Scheduled,
        common::{iteration_space::place_unit, kernel_frame::GroupMemory},
    },
};
use disc_ir::{Dim, Function, FunctionKind, Inst, OpKind, TensorType, Value};
use emit::{
    dot, dot_words, int4,
    micro::{self, Source},
    operands::{self, Operands},
    pack,
    routines::{Routines, few_rows},
    tail_columns,
};
use plan::{Left, epilogue, partition};

/// Schedules a group of products, or says why it cannot.
///
/// # Errors
/// A group without products, and a product of a form that no micro-kernel computes.
pub(in crate::schedule) fn schedule(group: &Group<'_>) -> Result<Scheduled, String> {
    schedule_without(group, &[])
}

/// The same for all products but some.
pub(super) fn schedule_without(group: &Group<'_>, products: &[Inst]) -> Result<Scheduled, String> {
    let mut families: Vec<Vec<MatmulPlan>> = Vec::new();
    for plan in plans(group)?.into_iter().filter(|plan| !products.contains(&plan.dot)) {
        match families.iter_mut().find(|family| are_siblings(group, &family[0], &plan)) {
            Some(family) => family.push(plan),
            None => families.push(vec![plan]),
        }
    }
    if let [family] = &families[..] {
        return Ok(launch(group, family));
    }
    let mut all = Scheduled::default();
    for (number, family) in families.iter().enumerate() {
        let wanted = |&position: &usize| family.iter().any(|plan| plan.outputs.contains(&group.output(position)));
        let one = Group {
            wanted: group.wanted.iter().copied().filter(wanted).collect(),
            name: format!("{}_{number}", group.name).into(),
            first_site: group.first_site + all.sites.len() as i64,
            solver: group.solver.clone(),
            ..*group
        };
        all.append(launch(&one, family));
    }
    Ok(all)
}

/// The plan of each product, with the outputs that come from it.
fn plans(group: &Group<'_>) -> Result<Vec<MatmulPlan>, String> {
    if let Some(plans) = MatmulPlan::interleaved(group) {
        return plans;
    }
    let function = group.function;
    let is_dot = |&inst: &Inst| function.kind_of(inst) == OpKind::DotGeneral;
    let dots: Vec<Inst> = function.insts(function.body).iter().copied().filter(is_dot).collect();
    let outputs = group.outputs();
    let of = |&dot: &Inst| -> Vec<Value> {
        outputs.iter().copied().filter(|&o| epilogue::depends(function, function.result(dot), o)).collect()
    };
    let parts: Vec<Vec<Value>> = dots.iter().map(of).collect();
    if dots.is_empty() || parts.iter().map(Vec::len).sum::<usize>() != outputs.len() {
        return Err("the group's outputs do not each come from one product".into());
    }
    let made = dots.iter().zip(&parts).filter(|(_, outputs)| !outputs.is_empty());
    let plan = |(&dot, outputs): (&Inst, &Vec<Value>)| {
        let mut plan = MatmulPlan::of_product(function, &group.solver, group.target, dot, outputs, true)?;
        plan.choose_finish(group);
        Ok(plan)
    };
    made.map(plan).collect()
}

/// Adds where routines can fail: each is numbered as in the first of them.
pub(super) fn merge_sites(sites: &mut Vec<Site>, routines: &[(Function, Vec<Site>)]) {
    for site in routines.iter().flat_map(|(_, more)| more) {
        if !sites.contains(site) {
            sites.push(site.clone());
        }
    }
}

/// Whether products can share a launch: panels of weights, and the same rows. The packed rows are all the task memory that they need.
fn are_siblings(group: &Group<'_>, a: &MatmulPlan, b: &MatmulPlan) -> bool {
    let same = |a: &Dim, b: &Dim| group.solver.equal(a, b);
    let mut runs = a.outer.iter().zip(&b.outer);
    a.right_form == Right::Panels
        && b.right_form == Right::Panels
        && a.left_form == b.left_form
        && a.left.value == b.left.value
        && a.tile == b.tile
        && a.word == b.word
        && same(&a.m.size, &b.m.size)
        && a.most_rows() == b.most_rows()
        && a.outer.len() == b.outer.len()
        && runs.all(|(a, b)| a.run.axis == b.run.axis && same(&a.run.size, &b.run.size))
}

/// One launch of all plans.
fn launch(group: &Group<'_>, plans: &[MatmulPlan]) -> Scheduled {
    let mut kb = KernelBuilder::new(&group.name, FunctionKind::Kernel);
    let mut routines = Routines::default();
    let mut memory = GroupMemory::of_inputs(&mut kb, group, |input| plans.iter().any(|plan| plan.inputs.contains(&input)));
    memory.add_outputs(&mut kb, group);
    let [begin, end] = kb.units();
    let mut parts: Vec<Part<'_>> = Vec::new();
    // Products of the same rows pack them in the same memory.
    let mut task: Option<Value> = None;
    let share = plans.len() > 1;
    for plan in plans {
        let of = |values: &[Value]| values.iter().map(|&value| memory.at(value)).collect();
        let (ins, outs) = (of(&plan.inputs), of(&plan.outputs));
        let operands = Operands::new(&mut kb, plan, ins, outs, &mut |kb, name, tensor| match share && name == operands::ROWS {
            true => *task.get_or_insert_with(|| kb.scratch(tensor)),
            false => kb.scratch(tensor),
        });
        let name = routines.add(group, plan);
        let mut elements = operands.elements(group, plan, plan.tile.lanes);
        elements.first_site += routines.sites.len() as i64;
        parts.push(Part { plan, operands, name, elements });
    }
    let columns = Dim::sum(plans.iter().map(|plan| plan.column_units(group.target)));
    let (per_row, chunks) = (kb.dim(&columns), kb.dim(&plans[0].chunks()));
    let one = kb.int(1);
    let unit_loop = kb.open_for([begin, end, one]);
    let (column, rest) = (kb.rem(unit_loop.index, per_row), kb.div(unit_loop.index, per_row));
    let (chunk, batch) = (kb.rem(rest, chunks), kb.div(rest, chunks));
    let mut at = vec![Index::uniform(kb.int(0)); plans[0].rank];
    place_unit(&mut kb, batch, &plans[0].outer_runs(), &mut at);
    let rows = plans[0].chunk_rows(&mut kb, chunk);
    choose_part(&mut kb, group, &mut parts, &at, rows, column);
    kb.close_for(unit_loop);
    let kernel = kb.finish();
    let cost = Dim::sum(plans.iter().map(MatmulPlan::cost));
    let launch = Launch::new(&kernel, memory.arguments, plans[0].row_units() * columns, cost);
    let mut sites = routines.sites;
    parts.into_iter().for_each(|part| sites.extend(part.elements.sites));
    let kernels = [kernel].into_iter().chain(routines.functions).collect();
    Scheduled { kernels, launches: vec![launch], sites }
}

/// A product within the kernel.
struct Part<'g> {
    plan: &'g MatmulPlan,
    operands: Operands,
    /// What its routines are named after.
    name: String,
    /// For what is computed before the product.
    elements: Elements<'g>,
}

/// Finds the part that a column unit belongs to.
fn choose_part(kb: &mut KernelBuilder, group: &Group<'_>, parts: &mut [Part<'_>], at: &[Index], rows: [Value; 2], unit: Value) {
    let Some((part, others)) = parts.split_first_mut() else { return };
    if others.is_empty() {
        return panels(kb, group, part, at, rows, unit);
    }
    let limit = kb.dim(&part.plan.column_units(group.target));
    let less = kb.compare("LT", unit, limit);
    let here = |kb: &mut KernelBuilder| {
        panels(kb, group, part, at, rows, unit);
        Vec::new()
    };
    let there = |kb: &mut KernelBuilder| {
        let rest = kb.sub(unit, limit);
        choose_part(kb, group, others, at, rows, rest);
        Vec::new()
    };
    kb.if_(less, here, there);
}

/// What the panels of a unit have in common.
#[derive(Clone, Copy)]
struct Chunk<'a> {
    group: &'a Group<'a>,
    /// The position along the batch dimensions.
    at: &'a [Index],
    /// Where the operands start there.
    bases: [Value; 2],
    /// From the first row to below the last.
    rows: [Value; 2],
}

/// The panels of a column unit.
fn panels(kb: &mut KernelBuilder, group: &Group<'_>, part: &mut Part<'_>, at: &[Index], rows: [Value; 2], unit: Value) {
    let plan = part.plan;
    let mut bases = plan.bases(kb, at);
    if plan.left_form == Left::Packed {
        pack::compute_rows(kb, plan, &part.operands, &mut part.elements, at, rows);
        // The rows in task memory start with the first of the chunk.
        let (zero, stride) = (kb.int(0), kb.dim(&plan.m.left));
        let before = kb.mul(rows[0], stride);
        bases[0] = kb.sub(zero, before);
    }
    let chunk = Chunk { group, at, bases, rows };
    let span = kb.dim(&plan.span(group.target));
    let first = kb.mul(unit, span);
    let Some(few) = plan.wide_rows(group.target) else {
        return chunk.span(kb, part, [first, span]);
    };
    let width = kb.int(i64::from(plan.tile.columns));
    let column = kb.mul(first, width);
    let block = chunk.blocks(plan, column);
    let is_few = block.has_at_most(kb, few);
    let is_few = block.is_whole(kb, plan.whole_spans, partition::SPAN, is_few);
    let wide = kb.open_if(is_few);
    let right = kb.add(bases[1], column);
    block.call(kb, group, part, Source::Wide, right);
    kb.close_if(wide);
    let is_more = kb.emit(OpKind::Not, &[is_few]);
    let narrow = kb.open_if(is_more);
    chunk.span(kb, part, [first, span]);
    kb.close_if(narrow);
}

impl<'a> Chunk<'a> {
    fn blocks(&self, plan: &MatmulPlan, column: Value) -> Blocks<'a> {
        Blocks::new(plan, self.at, self.bases[0], self.rows, column)
    }

    /// As many panels as a unit has, from the first of them on.
    fn span(&self, kb: &mut KernelBuilder, part: &mut Part<'_>, [first, span]: [Value; 2]) {
        let (one, count) = (kb.int(1), kb.dim(&part.plan.panels()));
        if kb.known_int(span) == Some(1) && part.plan.panels_at_once() == 1 {
            return self.panel(kb, part, first);
        }
        let last = kb.add(first, span);
        let last = kb.map(OpKind::Minimum, &[last, count]);
        if part.plan.panels_at_once() > 1 {
            return self.at_once(kb, part, [first, last]);
        }
        let panel_loop = kb.open_for([first, last, one]);
        self.panel(kb, part, panel_loop.index);
        kb.close_for(panel_loop);
    }

    /// One panel: packs it where that pays, and multiplies.
    fn panel(&self, kb: &mut KernelBuilder, part: &mut Part<'_>, panel: Value) {
        let (plan, group) = (part.plan, self.group);
        let width = kb.int(i64::from(plan.tile.columns));
        let column = kb.mul(panel, width);
        let block = self.blocks(plan, column);
        let few = match plan.right_form {
            Right::Panels => {
                let size = kb.dim(&plan.panel_size());
                let offset = kb.mul(panel, size);
                let right = kb.add(self.bases[1], offset);
                return block.call(kb, group, part, Source::Panels, right);
            }
            Right::Dots => return block.call_dots(kb, group, part, self.bases[1]),
            Right::Columns if plan.dots_for_few_rows => block.has_at_most(kb, few_rows(group.target)),
            Right::Computed | Right::Columns => return self.packed(kb, part, &block),
            Right::Rows if plan.word.is_some() => return self.packed(kb, part, &block),
            Right::Rows => self.stays_in_place(kb, plan, &block),
            Right::Int4 => block.has_at_most(kb, plan.rows_by_steps(group.target)),
        };
        let open = kb.open_if(few);
        match plan.right_form {
            Right::Rows => {
                let right = kb.add(self.bases[1], column);
                block.call(kb, group, part, Source::InPlace, right);
            }
            Right::Int4 => block.call(kb, group, part, Source::Int4, panel),
            _ => block.call_dots(kb, group, part, self.bases[1]),
        }
        kb.close_if(open);
        let many = kb.emit(OpKind::Not, &[few]);
        let open = kb.open_if(many);
        match &plan.steps {
            Some(steps) => {
                int4::unpack_panel(kb, plan, steps, &part.operands, panel);
                let zero = kb.int(0);
                block.call(kb, group, part, Source::Task, zero);
            }
            None => self.packed(kb, part, &block),
        }
        kb.close_if(open);
    }

    /// Whether a panel of columns that are contiguous is read as it lies.
    fn stays_in_place(&self, kb: &mut KernelBuilder, plan: &MatmulPlan, block: &Blocks<'_>) -> Value {
        let few = block.has_at_most(kb, plan.rows_in_place());
        let few = block.is_whole(kb, plan.whole_panels, 1, few);
        match plan.wide_rows(self.group.target) {
            Some(rows) => {
                let fewer = block.has_at_most(kb, rows);
                let more = kb.emit(OpKind::Not, &[fewer]);
                kb.and(few, more)
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
        if plan.whole_panels && (plan.wide_rows(self.group.target).is_none() || plan.whole_spans) {
            return self.copied(kb, part, block);
        }
        let few = block.has_at_most(kb, plan.rows_in_place());
        let many = kb.emit(OpKind::Not, &[few]);
        let copies = block.is_whole(kb, plan.whole_panels, 1, many);
        let open = kb.open_if(copies);
        self.copied(kb, part, block);
        kb.close_if(open);
        let packs = kb.emit(OpKind::Not, &[copies]);
        let open = kb.open_if(packs);
        self.packed_first(kb, part, block);
        kb.close_if(open);
    }

    /// The first block of rows reads the panel as it lies, and leaves it in task memory for the others: a copy by itself would wait for memory
    /// without anything to multiply.
    fn copied(&self, kb: &mut KernelBuilder, part: &Part<'_>, block: &Blocks<'_>) {
        let zero = kb.int(0);
        let right = kb.add(self.bases[1], block.column);
        part.plan.for_row_blocks(kb, self.rows, |kb, number, [first, height]| {
            let call = |source, right| {
                move |kb: &mut KernelBuilder| {
                    block.call_rows(kb, self.group, part, source, [right, zero], [number, first, height]);
                    Vec::new()
                }
            };
            let is_first = kb.compare("EQ", number, zero);
            kb.if_(is_first, call(Source::Copied, right), call(Source::Task, zero));
        });
    }

    /// Packs one panel and multiplies all rows by it while it is in cache.
    fn packed_first(&self, kb: &mut KernelBuilder, part: &mut Part<'_>, block: &Blocks<'_>) {
        let plan = part.plan;
        self.pack(kb, plan, &part.operands, &mut part.elements, block.column);
        let (part, zero) = (&*part, kb.int(0));
        by_width(kb, plan, block.column, &|kb, source| block.call(kb, self.group, part, source, zero));
    }

    /// Packs the panels from `first` to below `last`; then each block of rows is multiplied by all of them, so that what it writes lies together.
    fn at_once(&self, kb: &mut KernelBuilder, part: &mut Part<'_>, [first, last]: [Value; 2]) {
        let plan = part.plan;
        let (one, width) = (kb.int(1), kb.int(i64::from(plan.tile.columns)));
        let elements = pack::panel_elements(plan);
        let size = kb.dim(&elements);
        let place = |kb: &mut KernelBuilder, panel: Value| {
            let number = kb.sub(panel, first);
            [kb.mul(panel, width), kb.mul(number, size)]
        };
        let panel_loop = kb.open_for([first, last, one]);
        let [column, offset] = place(kb, panel_loop.index);
        let panel = kb.view(part.operands.panel(), offset, TensorType::new([elements], plan.panel_dtype()));
        let operands = part.operands.with_panel(panel);
        self.pack(kb, plan, &operands, &mut part.elements, column);
        kb.close_for(panel_loop);
        let part = &*part;
        plan.for_row_blocks(kb, self.rows, |kb, number, rows| {
            let panel_loop = kb.open_for([first, last, one]);
            let [column, offset] = place(kb, panel_loop.index);
            let block = self.blocks(plan, column);
            let zero = kb.int(0);
            by_width(kb, plan, column, &|kb, source| {
                block.call_rows(kb, self.group, part, source, [offset, zero], [number, rows[0], rows[1]])
            });
            kb.close_for(panel_loop);
        });
    }

    /// Packs the panel whose first column is `column` into that of the operands.
    fn pack(&self, kb: &mut KernelBuilder, plan: &MatmulPlan, operands: &Operands, elements: &mut Elements<'_>, column: Value) {
        match plan.right_form {
            Right::Rows if let Some(word) = plan.word => dot_words::weave_panel(kb, plan, word, operands, self.bases[1], column),
            Right::Rows => pack::copy_panel(kb, plan, operands, self.bases[1], column),
            Right::Columns => pack::transpose_panel(kb, plan, operands, self.bases[1], column),
            _ => pack::compute_panel(kb, plan, operands, elements, self.at, column),
        }
        tail_columns::copy_columns(kb, plan, operands, column);
    }
}

/// Runs `body` with the place of a panel in task memory: with columns for so many narrow vectors only, where that does for those from `column` on.
fn by_width(kb: &mut KernelBuilder, plan: &MatmulPlan, column: Value, body: &dyn Fn(&mut KernelBuilder, Source)) {
    let columns = kb.dim(&plan.n.size);
    let left = kb.sub(columns, column);
    let most = |tail: u32| i64::from(tail * plan.narrow() + plan.most_rest());
    let tails: Vec<(u32, Value)> = plan.tails().into_iter().map(|tail| (tail, kb.int(most(tail)))).collect();
    narrowest(kb, left, &tails, body);
}

/// The same, for `left` columns and the narrow ones that there are with the most columns of each, narrower ones first.
fn narrowest(kb: &mut KernelBuilder, left: Value, tails: &[(u32, Value)], body: &dyn Fn(&mut KernelBuilder, Source)) {
    let Some((&(tail, most), wider)) = tails.split_first() else { return body(kb, Source::Task) };
    let fits = kb.compare("LE", left, most);
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

/// The row blocks of a chunk, on one panel.
struct Blocks<'a> {
    at: &'a [Index],
    left: Value,
    rows: [Value; 2],
    column: Value,
    panel_width: u32,
    columns: Dim,
}

impl<'a> Blocks<'a> {
    fn new(plan: &MatmulPlan, at: &'a [Index], left: Value, rows: [Value; 2], column: Value) -> Self {
        Self { at, left, rows, column, panel_width: plan.tile.columns, columns: plan.n.size.clone() }
    }

    fn has_at_most(&self, kb: &mut KernelBuilder, rows: u32) -> Value {
        let count = kb.sub(self.rows[1], self.rows[0]);
        let limit = kb.int(i64::from(rows));
        kb.compare("LE", count, limit)
    }

    /// `also`, and whether the panels from the first column on are whole.
    fn is_whole(&self, kb: &mut KernelBuilder, always: bool, panels: i64, also: Value) -> Value {
        if always {
            return also;
        }
        let (width, columns) = (kb.int(panels * i64::from(self.panel_width)), kb.dim(&self.columns));
        let end = kb.add(self.column, width);
        let whole = kb.compare("LE", end, columns);
        kb.and(whole, also)
    }

    /// The batch position, as arguments.
    fn outer(&self, plan: &MatmulPlan) -> Vec<Value> {
        plan.outer.iter().map(|o| self.at[o.run.axis].as_uniform().expect("a batch position is a scalar")).collect()
    }

    /// Calls micro-kernels for even blocks of rows.
    fn call(&self, kb: &mut KernelBuilder, group: &Group<'_>, part: &Part<'_>, source: Source, right: Value) {
        let plan = part.plan;
        let zero = kb.int(0);
        let fetches = if source == Source::Panels { self.fetches(kb, part) } else { zero };
        plan.for_row_blocks(kb, self.rows, |kb, block, [first, height]| {
            self.call_rows(kb, group, part, source, [right, fetches], [block, first, height]);
        });
    }

    /// Calls the micro-kernel for block number `block`: its first row, and how many it has.
    fn call_rows(
        &self,
        kb: &mut KernelBuilder,
        group: &Group<'_>,
        part: &Part<'_>,
        source: Source,
        [right, fetches]: [Value; 2],
        [block, first, height]: [Value; 3],
    ) {
        let plan = part.plan;
        let row_stride = kb.dim(&plan.m.left);
        let offset = kb.mul(first, row_stride);
        let left = kb.add(self.left, offset);
        let mut arguments = part.operands.arguments();
        arguments.extend([left, right, first, self.column, block, fetches]);
        arguments.extend(self.outer(plan));
        if source != Source::Tail(0) {
            dispatch(kb, &part.name, source, &arguments, height, plan.heights(group.target, source));
        }
        if matches!(source, Source::Tail(_)) && !plan.rest_blocks().is_empty() {
            self.call_rest(kb, group, part, left, [block, first, height]);
        }
    }

    /// Lines of the next panel to fetch in each round: all of them, spread over the row blocks.
    fn fetches(&self, kb: &mut KernelBuilder, part: &Part<'_>) -> Value {
        let blocks = part.plan.row_blocks(kb, self.rows);
        let lines = micro::round_lines(kb, part.plan, part.operands.right());
        let lines = kb.int(lines);
        let (one, spread) = (kb.int(1), kb.add(lines, blocks));
        let spread = kb.sub(spread, one);
        kb.div(spread, blocks)
    }

    /// Calls the routines for blocks of dot products.
    fn call_dots(&self, kb: &mut KernelBuilder, group: &Group<'_>, part: &Part<'_>, right: Value) {
        let plan = part.plan;
        let (width, columns) = (kb.int(i64::from(plan.tile.columns)), kb.dim(&plan.n.size));
        let end = kb.add(self.column, width);
        let end = kb.map(OpKind::Minimum, &[end, columns]);
        let [tall, wide] = dot::blocks(group, plan);
        in_blocks(kb, self.rows, &tall, &mut |kb, rows, row| {
            in_blocks(kb, [self.column, end], &wide, &mut |kb, columns, column| {
                let (down, across) = (kb.dim(&plan.m.left), kb.dim(&plan.n.right));
                let (down, across) = (kb.mul(row, down), kb.mul(column, across));
                let (left, right) = (kb.add(self.left, down), kb.add(right, across));
                let mut arguments = part.operands.arguments();
                arguments.extend([left, right, row, column]);
                arguments.extend(self.outer(plan));
                kb.call(&dot::name(&part.name, rows, columns), &arguments);
            });
        });
    }
}

/// Runs `body` for blocks of the sizes, largest first, from `low` to below `high`.
fn in_blocks(
    kb: &mut KernelBuilder,
    [low, high]: [Value; 2],
    sizes: &[u32],
    body: &mut dyn FnMut(&mut KernelBuilder, u32, Value),
) {
    let mut low = low;
    for &size in sizes {
        let step = kb.int(i64::from(size));
        let left = kb.sub(high, low);
        let whole = kb.div(left, step);
        let whole = kb.mul(whole, step);
        let end = kb.add(low, whole);
        let blocks = kb.open_for([low, end, step]);
        body(kb, size, blocks.index);
        kb.close_for(blocks);
        low = end;
    }
}

/// Calls the micro-kernel for `height` rows, known to lie in [`low`, `high`]: a balanced tree of comparisons.
fn dispatch(kb: &mut KernelBuilder, part: &str, source: Source, arguments: &[Value], height: Value, [low, high]: [u32; 2]) {
    if low == high {
        kb.call(&micro::name(part, source, low), arguments);
        return;
    }
    let middle = (low + high).div_ceil(2);
    let limit = kb.int(i64::from(middle));
    let less = kb.compare("LT", height, limit);
    let below = |kb: &mut KernelBuilder| {
        dispatch(kb, part, source, arguments, height, [low, middle - 1]);
        Vec::new()
    };
    let above = |kb: &mut KernelBuilder| {
        dispatch(kb, part, source, arguments, height, [middle, high]);
        Vec::new()
    };
    kb.if_(less, below, above);
}
