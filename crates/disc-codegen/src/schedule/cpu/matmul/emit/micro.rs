//! Micro-kernels: one block of results, kept in registers from the first multiplication to the store.
use super::{
    dot_words::DotWord,
    epilogue_routine, int4,
    operands::Operands,
    parameters::{Parameters, RowBufferParameters},
    partial_sums,
    prefetch::{EpiloguePrefetch, RowPrefetch},
    staging, tail_columns,
};
use crate::{
    element::{Elements, matmul::multiply_add},
    kernel::{Index, KernelBuilder, Site},
    schedule::{
        Group,
        cpu::matmul::plan::{Left, MatmulPlan, epilogue::before_transpose, partition},
    },
};
use disc_ir::{Attr, Dim, Function, FunctionKind, OpKind, Solver, Value};

/// Elements of one vector's width that a round of steps along the sums passes, between two rounds of prefetches. The steps of a round are a
/// loop of their own and not unrolled: LLVM would gather the loads of several steps and spill the sums.
const ROUND_ELEMENTS: i64 = 128;
/// Bytes of a cache line.
pub(in crate::schedule) const LINE: i64 = 64;
/// Up to this many rows, panels pass by so fast that the hardware's own fetching is better.
pub(in crate::schedule) const FETCHED_ROWS: u32 = 4;
/// Beside the only block of rows a panel passes once: where that has up to so many and cores are wide, the panel is fetched while it is used, into the
/// first-level cache. Taller blocks leave time to fetch the next panel, which is better where weights come from memory.
const ALONE_ROWS: u32 = 8;
/// Steps that it is fetched ahead then.
const PANEL_STEPS_AHEAD: i64 = 64;
/// A right operand that is read as it lies is fetched so many of its rows ahead: they may lie in pages of their own, where nothing else fetches them.
const ROWS_AHEAD: i64 = 16;
/// Sums that are added to in turn, so that none waits for its last addition.
pub(in crate::schedule) const CHAINS: usize = 8;

/// Steps of a round.
pub(in crate::schedule) fn round_steps(plan: &MatmulPlan) -> i64 {
    (ROUND_ELEMENTS / i64::from(plan.tile.lanes)).max(CHAINS as i64)
}

/// Lines of a panel of weights that are read in a round.
pub(in crate::schedule) fn round_lines(kb: &KernelBuilder, plan: &MatmulPlan, weights: Value) -> i64 {
    let step = i64::from(plan.tile.columns) * plan.word_size() * kb.dtype(weights).size() as i64;
    step * round_steps(plan) / LINE
}

/// Where a micro-kernel finds its panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::schedule) enum Source {
    /// In panels of weights.
    Panels,
    /// In the right operand as it lies, where the panel is whole.
    InPlace,
    /// There, where the panel may end after the last column.
    Edge,
    /// There, for a span of whole panels at once.
    Wide,
    /// There, where the panel is whole: what is read goes to task memory, too, for the blocks behind the first.
    Copied,
    /// In task memory.
    Task,
    /// In panels of steps.
    Int4,
    /// In task memory, where the last panel has columns for so many narrow vectors only.
    Tail(u32),
    /// In the right operand as it lies, where the last panel has columns for so many narrow vectors only.
    EdgeTail(u32),
    /// So many columns that are left over, in task memory: see [`rest`].
    Along(u32),
}

/// Bytes of a narrow vector: what CPUs whose units are half as wide as their registers compute at once.
const NARROW: u32 = 32;

/// A vector of a panel: the number of its first column there, and its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::schedule) struct Piece {
    pub(in crate::schedule) shift: i64,
    pub(in crate::schedule) lanes: u32,
}

impl MatmulPlan {
    /// Columns of a narrow vector.
    pub(in crate::schedule) fn narrow(&self) -> u32 {
        self.tile.lanes.min(NARROW / self.compute.size() as u32)
    }

    /// The vectors of what a micro-kernel computes.
    pub(in crate::schedule) fn pieces(&self, source: Source) -> Vec<Piece> {
        if let Source::Along(columns) = source {
            return (0..i64::from(columns)).map(|shift| Piece { shift, lanes: 1 }).collect();
        }
        let columns = match source {
            Source::Tail(narrow) | Source::EdgeTail(narrow) => narrow * self.narrow(),
            Source::Wide => self.tile.columns * partition::SPAN as u32,
            _ => self.tile.columns,
        };
        let whole =
            (0..columns / self.tile.lanes).map(|v| Piece { shift: i64::from(v * self.tile.lanes), lanes: self.tile.lanes });
        let rest = columns % self.tile.lanes;
        let rest = (rest > 0).then(|| Piece { shift: i64::from(columns - rest), lanes: rest });
        whole.chain(rest).collect()
    }
}

pub(in crate::schedule) fn name(part: &str, source: Source, rows: u32) -> String {
    match source {
        Source::Panels => format!("{part}.rows{rows}"),
        Source::InPlace => format!("{part}.inplace{rows}"),
        Source::Edge => format!("{part}.edge{rows}"),
        Source::Wide => format!("{part}.wide{rows}"),
        Source::Copied => format!("{part}.copied{rows}"),
        Source::Task => format!("{part}.task{rows}"),
        Source::Int4 => format!("{part}.int4_rows{rows}"),
        Source::Tail(narrow) => format!("{part}.tail{narrow}x{rows}"),
        Source::EdgeTail(narrow) => format!("{part}.edge{narrow}x{rows}"),
        Source::Along(columns) => format!("{part}.along{columns}x{rows}"),
    }
}

/// The micro-kernel for `rows` rows and one panel, and where it can fail.
pub(in crate::schedule) fn emit(
    group: &Group<'_>,
    plan: &MatmulPlan,
    part: &str,
    source: Source,
    rows: u32,
) -> (Function, Vec<Site>) {
    let mut kb = KernelBuilder::new(&name(part, source, rows), FunctionKind::Routine);
    let parameters = Parameters::declare(&mut kb, group, plan);
    let pieces = plan.pieces(source);
    let edges = match source {
        Source::Edge => column_masks(&mut kb, plan, parameters.column),
        Source::EdgeTail(_) => tail_masks(&mut kb, plan, parameters.column, &pieces),
        _ => vec![None; pieces.len()],
    };
    let sums = match (&plan.steps, source) {
        (Some(steps), Source::Int4) => int4::accumulate(&mut kb, plan, steps, &parameters, rows),
        (_, Source::Along(columns)) => tail_columns::accumulate(&mut kb, group, plan, &parameters, [rows, columns]),
        _ => {
            let ahead = EpiloguePrefetch::of_block(&mut kb, group, plan, &parameters, rows, &pieces);
            accumulate(&mut kb, (plan, &group.solver), &parameters, (source, rows), &edges, ahead.as_ref())
        }
    };
    if let RowBufferParameters::Parts { totals, factors, .. } = parameters.held {
        add_to_totals(&mut kb, plan, &parameters, [totals, factors], &sums, pieces.len());
        return (kb.finish(), Vec::new());
    }
    if plan.finishes_apart {
        epilogue_routine::leave(&mut kb, plan, &parameters, (part, source), &sums, &pieces);
        return (kb.finish(), Vec::new());
    }
    // After the loop, which needs all registers.
    let vectors = parameters.vectors(&mut kb, plan, source);
    if let RowBufferParameters::Split { parts, from, .. } = parameters.held {
        leave(&mut kb, plan, &parameters, [parts, from], &sums, &vectors);
        return (kb.finish(), Vec::new());
    }
    let mut elements = parameters.elements(&mut kb, group, plan, parameters.row);
    write(&mut kb, group, plan, &parameters, &mut elements, &sums, &vectors);
    (kb.finish(), elements.sites)
}

/// `totals = totals * factor + sums`, with a factor for each row. The rows of totals are whole panels.
fn add_to_totals(
    kb: &mut KernelBuilder,
    plan: &MatmulPlan,
    parameters: &Parameters,
    [totals, factors]: [Value; 2],
    sums: &[Value],
    vectors: usize,
) {
    let (lanes, stride) = (plan.tile.lanes, kb.dim(&plan.total_columns()));
    for (row, sums) in sums.chunks(vectors).enumerate() {
        let number = kb.int(row as i64);
        let row = kb.add(parameters.row, number);
        let factor = kb.load(factors, row, 1, None);
        let factor = kb.widen(factor, lanes);
        let start = kb.mul(row, stride);
        let start = kb.add(start, parameters.column);
        for (v, &sum) in sums.iter().enumerate() {
            let shift = kb.int(v as i64 * i64::from(lanes));
            let place = kb.add(start, shift);
            let before = kb.load(totals, place, lanes, None);
            let after = kb.fma(before, factor, sum);
            kb.store(totals, place, after, None);
        }
    }
}

/// Leaves sums as they are, in rows of all columns from an element on.
fn leave(
    kb: &mut KernelBuilder,
    plan: &MatmulPlan,
    parameters: &Parameters,
    [parts, from]: [Value; 2],
    sums: &[Value],
    vectors: &[(Piece, Option<Value>)],
) {
    let stride = kb.dim(&plan.n.size);
    for (row, sums) in sums.chunks(vectors.len()).enumerate() {
        let number = kb.int(row as i64);
        let row = kb.add(parameters.row, number);
        let start = kb.mul(row, stride);
        let start = kb.add(start, parameters.column);
        let start = kb.add(start, from);
        for (&sum, &(piece, mask)) in sums.iter().zip(vectors) {
            let shift = kb.int(piece.shift);
            let place = kb.add(start, shift);
            kb.store(parts, place, sum, mask);
        }
    }
}

/// For each vector of the panel, which lanes are columns; `None` where all of them always are.
pub(in crate::schedule) fn column_masks(kb: &mut KernelBuilder, plan: &MatmulPlan, column: Value) -> Vec<Option<Value>> {
    let (lanes, vectors) = (plan.tile.lanes, plan.tile.columns / plan.tile.lanes);
    if plan.whole_panels {
        return vec![None; vectors as usize];
    }
    let size = kb.dim(&plan.n.size);
    let left = kb.sub(size, column);
    let masks = (0..vectors).map(|v| {
        let shift = kb.int(i64::from(v * lanes));
        let count = kb.sub(left, shift);
        Some(kb.lane_mask(count, lanes))
    });
    masks.collect()
}

/// The same, for the vectors of a last panel, of which the last one alone may have lanes behind the columns.
pub(in crate::schedule) fn tail_masks(
    kb: &mut KernelBuilder,
    plan: &MatmulPlan,
    column: Value,
    pieces: &[Piece],
) -> Vec<Option<Value>> {
    let Some((last, whole)) = pieces.split_last() else { return Vec::new() };
    let (size, shift) = (kb.dim(&plan.n.size), kb.int(last.shift));
    let left = kb.sub(size, column);
    let left = kb.sub(left, shift);
    let mask = kb.lane_mask(left, last.lanes);
    whole.iter().map(|_| None).chain([Some(mask)]).collect()
}

/// One step along the sums: adds the products of a column of the left block and a row of the panel.
pub(in crate::schedule) struct Step<'p> {
    pub(in crate::schedule) plan: &'p MatmulPlan,
    pub(in crate::schedule) a: Value,
    pub(in crate::schedule) b: Value,
    pub(in crate::schedule) a_step: Value,
    /// The step that rows in `a` start with; none, where it is the first.
    pub(in crate::schedule) a_first: Option<Value>,
    pub(in crate::schedule) b_step: Value,
    pub(in crate::schedule) b_base: Value,
    /// Where rows start in `a`.
    pub(in crate::schedule) starts: Vec<Value>,
    pub(in crate::schedule) pieces: Vec<Piece>,
    /// The lanes of each vector of the panel; none, where it is padded or whole.
    pub(in crate::schedule) masks: &'p [Option<Value>],
    /// Elements of the panel's buffer that make one of its columns.
    pub(in crate::schedule) spread: i64,
    /// Where the panel is copied to.
    pub(in crate::schedule) copy: Option<Value>,
    /// Whether rows of the panel are fetched ahead.
    pub(in crate::schedule) fetches: bool,
    /// Whether a panel of weights is fetched ahead, since no other block passes it.
    pub(in crate::schedule) fetches_panel: bool,
}

impl Step<'_> {
    fn emit(&self, kb: &mut KernelBuilder, k: Value, sums: &[Value]) -> Vec<Value> {
        let plan = self.plan;
        let from = kb.mul(k, self.b_step);
        let from = kb.add(from, self.b_base);
        let mut panel = Vec::with_capacity(self.masks.len());
        for (piece, &mask) in self.pieces.iter().zip(self.masks) {
            let shift = kb.int(piece.shift * self.spread);
            let here = kb.add(from, shift);
            panel.push(self.column(kb, here, piece, mask));
        }
        if self.fetches {
            let rows = kb.int(ROWS_AHEAD);
            let ahead = kb.mul(rows, self.b_step);
            let ahead = kb.add(from, ahead);
            for piece in &self.pieces {
                let shift = kb.int(piece.shift);
                let line = kb.add(ahead, shift);
                kb.emit_all(OpKind::Prefetch, &[self.b, line], &[("locality", Attr::Int(2))], None);
            }
        }
        if self.fetches_panel {
            self.fetch_panel(kb, from);
        }
        if let Some(copy) = self.copy {
            let width = kb.int(i64::from(plan.tile.columns));
            let to = kb.mul(k, width);
            for (piece, &column) in self.pieces.iter().zip(&panel) {
                let shift = kb.int(piece.shift);
                let there = kb.add(to, shift);
                kb.store(copy, there, column, None);
            }
        }
        let number = self.a_first.map_or(k, |first| kb.sub(k, first));
        let along = kb.mul(number, self.a_step);
        let mut next = Vec::with_capacity(sums.len());
        for (row, &start) in self.starts.iter().enumerate() {
            let here = kb.add(start, along);
            let element = match plan.word {
                Some(word) => word.load(kb, self.a, here, 1),
                None => {
                    let element = kb.load(self.a, here, 1, None);
                    kb.convert(element, plan.compute)
                }
            };
            for (v, &column) in panel.iter().enumerate() {
                let element = kb.widen(element, self.pieces[v].lanes);
                let sum = sums[row * panel.len() + v];
                next.push(match plan.word {
                    Some(word) => kb.dot_lanes(word.elements, column, element, sum),
                    None => multiply_add(kb, plan.compute, element, column, sum),
                });
            }
        }
        next
    }

    /// Fetches what a later step reads of the panel, or of the next one: they lie one behind the other.
    fn fetch_panel(&self, kb: &mut KernelBuilder, from: Value) {
        let steps = kb.int(PANEL_STEPS_AHEAD);
        let ahead = kb.mul(steps, self.b_step);
        let there = kb.add(from, ahead);
        let (width, size) = (i64::from(self.plan.tile.columns) * self.spread, kb.dtype(self.b).size() as i64);
        for shift in (0..width).step_by((LINE / size) as usize) {
            let shift = kb.int(shift);
            let line = kb.add(there, shift);
            kb.emit_all(OpKind::Prefetch, &[self.b, line], &[("locality", Attr::Int(3))], None);
        }
    }

    /// A vector of the panel.
    fn column(&self, kb: &mut KernelBuilder, here: Value, piece: &Piece, mask: Option<Value>) -> Value {
        let word = match self.plan.word {
            // Elements in panels of weights, and in rows that were woven; other panels in task memory are words already.
            Some(word) if self.spread > 1 => (word, word.load(kb, self.b, here, piece.lanes)),
            Some(word) => (word, kb.load(self.b, here, piece.lanes, None)),
            None => {
                let loaded = kb.load(self.b, here, piece.lanes, mask);
                return kb.convert(loaded, self.plan.compute);
            }
        };
        word.0.columns(kb, word.1)
    }

    /// What the sums start with, for `size` elements of each row.
    fn start(&self, kb: &mut KernelBuilder, word: Option<DotWord>) -> Vec<Value> {
        let size = kb.dim(&(self.plan.word_steps() * self.plan.word_size()));
        let mut sums = Vec::new();
        for &start in &self.starts {
            let first = word.and_then(|word| word.start(kb, self.plan, [self.a, start, size]));
            for piece in &self.pieces {
                sums.push(match first {
                    Some(first) => kb.widen(first, piece.lanes),
                    None => kb.zero(self.plan.compute, piece.lanes),
                });
            }
        }
        sums
    }
}

/// Where rows start.
pub(in crate::schedule) fn starts(kb: &mut KernelBuilder, first: Value, stride: &Dim, rows: u32) -> Vec<Value> {
    let stride = kb.dim(stride);
    let mut starts = vec![first];
    for _ in 1..rows {
        let next = kb.add(*starts.last().expect("there is a row"), stride);
        starts.push(next);
    }
    starts
}

/// The sums of products: `rows` times the panel's vectors, row by row.
fn accumulate(
    kb: &mut KernelBuilder,
    (plan, solver): (&MatmulPlan, &Solver),
    parameters: &Parameters,
    (source, rows): (Source, u32),
    masks: &[Option<Value>],
    ahead: Option<&EpiloguePrefetch>,
) -> Vec<Value> {
    let vectors = masks.len();
    let operands = &parameters.operands;
    let spread = if source == Source::Panels || plan.weaves_rows() { plan.word_size() } else { 1 };
    let width = Dim::constant(i64::from(plan.tile.columns) * spread);
    let (b, b_step) = match source {
        Source::Panels => (operands.right(), width),
        Source::InPlace | Source::Edge | Source::EdgeTail(_) | Source::Wide | Source::Copied => {
            (operands.right(), plan.k.right.clone())
        }
        Source::Int4 | Source::Task | Source::Tail(_) | Source::Along(_) => (operands.panel(), width),
    };
    let starts = starts(kb, parameters.left, &plan.m.left, rows);
    let a = match plan.left_form {
        Left::InPlace => operands.left(),
        Left::Packed => operands.rows(),
    };
    let (a_step, b_step) = (kb.dim(&(&plan.k.left * plan.word_size())), kb.dim(&b_step));
    let pieces = plan.pieces(source);
    let copy = (source == Source::Copied).then(|| operands.panel());
    let fetches = matches!(source, Source::InPlace | Source::Copied) && rows > FETCHED_ROWS;
    let step = Step {
        plan,
        a,
        b,
        a_step,
        a_first: None,
        b_step,
        b_base: parameters.right,
        starts,
        pieces,
        masks,
        spread,
        copy,
        fetches,
        fetches_panel: false,
    };
    let count = rows as usize * vectors;
    let chains = CHAINS.div_ceil(count).next_power_of_two().min(round_steps(plan) as usize);
    let mut sums = step.start(kb, plan.word);
    (1..chains).for_each(|_| sums.extend(step.start(kb, None)));
    let start = kb.int(0);
    let size = match parameters.held {
        RowBufferParameters::Parts { depth, .. } | RowBufferParameters::Split { depth, .. } => depth,
        _ => kb.dim(&plan.word_steps()),
    };
    // Other sums stay one chain: without rounds, LLVM spills them in the inner loop as well
    // (products of activations took 1.4 times as long).
    let block =
        partial_sums::block(plan, solver, &plan.word_steps(), partial_sums::STEPS).filter(|_| plan.k.size.as_const().is_some());
    let (round, one) = (kb.int(round_steps(plan)), kb.int(1));
    let left = if source == Source::Panels { None } else { RowPrefetch::of_block(kb, plan, parameters, rows) };
    let staged = plan.stages(rows).then(|| operands.rows());
    let sums = match source {
        _ if source == Source::Panels || staged.is_some() => {
            let unit = if staged.is_some() { kb.int(plan.staged_steps()) } else { round };
            let whole = kb.div(size, unit);
            let whole = kb.mul(whole, unit);
            let rounds = |kb: &mut KernelBuilder, step: &Step<'_>, next: bool| {
                partial_sums::in_blocks(kb, plan, [start, whole], block, &sums, &mut |kb, [from, to], sums| {
                    kb.for_([from, to, round], sums, |kb, k, carried| {
                        let copied = staged.map(|rows| staging::follow(kb, step, rows, k));
                        if next {
                            prefetch(kb, plan, parameters, b, k);
                        }
                        if let Some(ahead) = ahead {
                            let row = kb.div(k, round);
                            ahead.fetch(kb, row);
                        }
                        if let Some(left) = &left {
                            for shift in 0..round_steps(plan) {
                                let shift = kb.int(shift);
                                let k = kb.add(k, shift);
                                left.fetch(kb, k);
                            }
                        }
                        let end = kb.add(k, round);
                        in_turn(kb, copied.as_ref().unwrap_or(step), chains, [k, end], carried)
                    })
                })
            };
            let fetches = source == Source::Panels && rows > FETCHED_ROWS;
            let sums = if fetches && rows <= ALONE_ROWS && plan.wide_cores {
                // All lines of the next panel in one pass: there is no other block.
                let lines = kb.int(round_lines(kb, plan, b));
                let only = kb.compare("GE", parameters.fetches, lines);
                let alone = Step { fetches_panel: true, starts: step.starts.clone(), pieces: step.pieces.clone(), ..step };
                kb.if_(only, |kb| rounds(kb, &alone, false), |kb| rounds(kb, &step, true))
            } else {
                rounds(kb, &step, fetches)
            };
            let copied = staged.and_then(|rows| staging::rest(kb, &step, rows, [whole, size]));
            finish(kb, copied.as_ref().unwrap_or(&step), count, [whole, size], sums)
        }
        _ if chains > 1 => {
            let turn = kb.int(chains as i64);
            let whole = kb.div(size, turn);
            let whole = kb.mul(whole, turn);
            let sums = in_turn(kb, &step, chains, [start, whole], &sums);
            finish(kb, &step, count, [whole, size], sums)
        }
        _ => kb.for_([start, size, one], &sums, |kb, k, carried| {
            if let Some(ahead) = ahead {
                ahead.fetch(kb, k);
            }
            if let Some(left) = &left {
                left.fetch(kb, k);
            }
            step.emit(kb, k, carried)
        }),
    };
    (0..count).map(|i| (1..chains).fold(sums[i], |sum, chain| kb.map(OpKind::Add, &[sum, sums[chain * count + i]]))).collect()
}

/// Steps from `low` to `high`, a multiple of `chains` apart: each adds to its own sums in turn.
fn in_turn(kb: &mut KernelBuilder, step: &Step<'_>, chains: usize, [low, high]: [Value; 2], sums: &[Value]) -> Vec<Value> {
    let count = sums.len() / chains;
    let turn = kb.int(chains as i64);
    kb.for_([low, high, turn], sums, |kb, k, carried| {
        let mut next = Vec::with_capacity(carried.len());
        for (chain, sums) in carried.chunks(count).enumerate() {
            let shift = kb.int(chain as i64);
            let here = kb.add(k, shift);
            next.extend(step.emit(kb, here, sums));
        }
        next
    })
}

/// The steps that are left, on the first sums.
fn finish(kb: &mut KernelBuilder, step: &Step<'_>, count: usize, [low, high]: [Value; 2], mut sums: Vec<Value>) -> Vec<Value> {
    let one = kb.int(1);
    let first = kb.for_([low, high, one], &sums[..count], |kb, k, carried| step.emit(kb, k, carried));
    sums.splice(..count, first);
    sums
}

/// Fetches this block's share of the next panel: `fetches` lines per round, the share of block `b` after those of the blocks before.
fn prefetch(kb: &mut KernelBuilder, plan: &MatmulPlan, parameters: &Parameters, b: Value, k: Value) {
    let elements = LINE / kb.dtype(b).size() as i64;
    let size = kb.dim(&plan.panel_size());
    let next = kb.add(parameters.right, size);
    let share = kb.dim(&plan.word_steps());
    let before = kb.mul(parameters.block, share);
    let done = kb.add(before, k);
    let round = kb.int(round_steps(plan));
    let rounds = kb.div(done, round);
    let lines = kb.mul(rounds, parameters.fetches);
    let line = kb.int(elements);
    let from = kb.mul(lines, line);
    let from = kb.add(next, from);
    let (zero, one) = (kb.int(0), kb.int(1));
    kb.for_([zero, parameters.fetches, one], &[from], |kb, _, carried| {
        kb.emit_all(OpKind::Prefetch, &[b, carried[0]], &[("locality", Attr::Int(2))], None);
        vec![kb.add(carried[0], line)]
    });
}

/// Applies the epilogue to each vector of results, from the parameters' row on, and stores it.
pub(in crate::schedule) fn write(
    kb: &mut KernelBuilder,
    group: &Group<'_>,
    plan: &MatmulPlan,
    parameters: &Parameters,
    elements: &mut Elements<'_>,
    sums: &[Value],
    vectors: &[(Piece, Option<Value>)],
) {
    let lanes = elements.lanes;
    for (i, &sum) in sums.iter().enumerate() {
        let (row, (piece, mask)) = (i / vectors.len(), vectors[i % vectors.len()]);
        let mut at = parameters.row_of_result(kb, plan, row as i64);
        if let Some(axis) = plan.n_axis {
            let shift = kb.int(piece.shift);
            let base = kb.add(parameters.column, shift);
            at[axis] = if piece.lanes == 1 { Index::uniform(base) } else { Index::Affine { base, stride: 1 } };
        }
        elements.lanes = piece.lanes;
        elements.masked(mask, |elements| store(kb, group, plan, &parameters.operands, elements, &at, sum));
    }
    elements.lanes = lanes;
}

/// Computes the outputs at a position from the sum of products there, and stores them.
pub(in crate::schedule) fn store(
    kb: &mut KernelBuilder,
    group: &Group<'_>,
    plan: &MatmulPlan,
    operands: &Operands,
    elements: &mut Elements<'_>,
    at: &[Index],
    sum: Value,
) {
    let product = group.function.result(plan.dot);
    let sum = kb.convert(sum, crate::kernel::compute_dtype(group.tensor(product).dtype));
    elements.seed(product, at, sum);
    let computed: Vec<Value> =
        plan.outputs.iter().map(|&o| elements.element(kb, before_transpose(group.function, o), at)).collect();
    for ((o, &output), value) in plan.outputs.iter().enumerate().zip(computed) {
        let there: Vec<Index> = plan.orders[o].iter().map(|&d| at[d]).collect();
        elements.store(kb, operands.outputs[o], group.tensor(output), &there, value);
    }
}
