//! Micro-kernels: one block of results, kept in registers from the first multiplication to the
//! store.
use super::{
    epilogue_routine, int4,
    masks::{column_masks, tail_masks},
    pairs,
    parameters::{Parameters, RowBufferParameters},
    partial_sums,
    prefetch::{self, EpiloguePrefetch, FETCHED_ROWS, RowPrefetch},
    staging,
    step::Step,
    tail_columns, write,
};
use crate::{
    kernel::{KernelBuilder, Site},
    schedule::{
        Group,
        cpu::matmul::plan::{
            MatmulPlan,
            rounds::{CHAINS, round_steps},
            source::Source,
        },
    },
};
use disc_ir::{Function, FunctionKind, Value};
use disc_kernel_macros::expr;

/// The only block of rows of a unit reads a panel once: if it has up to so many rows and cores are
/// wide, the panel is prefetched while it is used, into the first-level cache. Taller blocks leave
/// time to prefetch the next panel, which is better if weights come from memory.
const ALONE_ROWS: u32 = 8;

/// Emits the micro-kernel for `rows` rows and one panel, with its sites of failure.
pub(in crate::schedule) fn emit(
    group: &Group<'_>,
    plan: &MatmulPlan,
    part: &str,
    source: Source,
    rows: u32,
) -> (Function, Vec<Site>) {
    let mut kb = group.builder(&source.kernel_name(part, rows), FunctionKind::Routine);
    let parameters = Parameters::declare(&mut kb, group, plan);
    let pieces = plan.pieces(source);
    let edges = match source {
        Source::Edge => column_masks(&mut kb, plan, parameters.column),
        Source::EdgeTail(_) => tail_masks(&mut kb, plan, parameters.column, &pieces),
        _ => vec![None; pieces.len()],
    };
    let sums = match (plan.right.int4(), source) {
        (Some(int4), Source::Int4) => int4::accumulate(&mut kb, plan, int4, &parameters, rows),
        (_, Source::Along(columns)) => tail_columns::accumulate(&mut kb, group, plan, &parameters, [rows, columns]),
        _ => {
            let ahead = EpiloguePrefetch::of_block(&mut kb, group, plan, &parameters, rows, &pieces);
            accumulate(&mut kb, group, plan, &parameters, (source, rows), &edges, ahead.as_ref())
        }
    };
    if let RowBufferParameters::Parts { totals, factors, .. } = parameters.held {
        write::add_to_totals(&mut kb, plan, &parameters, [totals, factors], &sums, pieces.len());
        return (kb.finish(), Vec::new());
    }
    if plan.result.is_finished_apart() {
        epilogue_routine::leave(&mut kb, plan, &parameters, (part, source), &sums, &pieces);
        return (kb.finish(), Vec::new());
    }
    // After the loop, which needs all registers.
    let vectors = parameters.vectors(&mut kb, plan, source);
    if let RowBufferParameters::Split { parts, from, .. } = parameters.held {
        write::leave(&mut kb, plan, &parameters, [parts, from], &sums, &vectors);
        return (kb.finish(), Vec::new());
    }
    let mut elements = parameters.elements(&mut kb, group, plan, parameters.row);
    write::write(&mut kb, group, plan, &parameters, &mut elements, &sums, &vectors);
    (kb.finish(), elements.sites)
}

/// Gives the sums of products: `rows` times the panel's vectors, row by row.
fn accumulate(
    kb: &mut KernelBuilder,
    group: &Group<'_>,
    plan: &MatmulPlan,
    parameters: &Parameters,
    (source, rows): (Source, u32),
    masks: &[Option<Value>],
    ahead: Option<&EpiloguePrefetch>,
) -> Vec<Value> {
    let step = Step::of(kb, plan, parameters, (source, rows), masks);
    let count = step.sums();
    let chains = CHAINS.div_ceil(count).next_power_of_two().min(round_steps(plan.tile) as usize);
    let mut sums = step.start(kb, plan.word);
    (1..chains).for_each(|_| sums.extend(step.start(kb, None)));
    let start = kb.int(0);
    let size = match parameters.held {
        RowBufferParameters::Parts { depth, .. } | RowBufferParameters::Split { depth, .. } => depth,
        _ => kb.dim(&plan.word_steps()),
    };
    // Other sums stay one chain: without rounds, LLVM spills them in the inner loop as well
    // (products of activations took 1.4 times as long).
    let block = partial_sums::block(plan, &group.solver, &plan.word_steps(), partial_sums::STEPS)
        .filter(|_| plan.shape.k.size.as_const().is_some());
    let (round, one) = (kb.int(round_steps(plan.tile)), kb.int(1));
    let left = if source.is_prepared() { None } else { RowPrefetch::of_block(kb, plan, parameters, rows) };
    let staged = plan.stages(rows).then(|| parameters.operands.rows());
    let sums = match source {
        _ if source.is_prepared() || staged.is_some() => {
            let unit = if staged.is_some() { kb.int(plan.staged_steps()) } else { round };
            let whole = expr!(kb, size / unit * unit);
            let rounds = Rounds { plan, parameters, ahead, left, staged, chains, round, block };
            let rounds = |kb: &mut KernelBuilder, step: &Step<'_>, next| rounds.emit(kb, step, next, [start, whole], &sums);
            let fetches = source.is_prepared() && rows > FETCHED_ROWS;
            let may_be_alone = fetches && source == Source::Panels;
            let sums = if may_be_alone && rows <= ALONE_ROWS && group.target.has_wide_cores() {
                // All lines of the next panel in one pass: there is no other block.
                let lines = kb.int(prefetch::round_lines(kb, plan, step.b));
                let only = expr!(kb, parameters.fetches >= lines);
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
            let whole = expr!(kb, size / turn * turn);
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
    let totals: Vec<Value> =
        (0..count).map(|i| (1..chains).fold(sums[i], |sum, chain| expr!(kb, sum + sums[chain * count + i]))).collect();
    if plan.multiplies_pairs() { pairs::rows_of(&step, kb, &totals) } else { totals }
}

/// The loop over whole rounds of steps.
struct Rounds<'a> {
    plan: &'a MatmulPlan,
    parameters: &'a Parameters,
    ahead: Option<&'a EpiloguePrefetch>,
    left: Option<RowPrefetch>,
    /// The memory that rows are staged in.
    staged: Option<Value>,
    chains: usize,
    /// Steps of a round.
    round: Value,
    block: Option<i64>,
}

impl Rounds<'_> {
    /// Emits the rounds of a range; `next` prefetches lines of the next panel.
    fn emit(&self, kb: &mut KernelBuilder, step: &Step<'_>, next: bool, range: [Value; 2], sums: &[Value]) -> Vec<Value> {
        partial_sums::in_blocks(kb, self.plan, range, self.block, sums, &mut |kb, [from, to], sums| {
            kb.for_([from, to, self.round], sums, |kb, k, carried| self.one(kb, step, next, k, carried))
        })
    }

    fn one(&self, kb: &mut KernelBuilder, step: &Step<'_>, next: bool, k: Value, carried: &[Value]) -> Vec<Value> {
        let copied = self.staged.map(|rows| staging::follow(kb, step, rows, k));
        if next {
            prefetch::next_panel(kb, self.plan, self.parameters, k);
        }
        if let Some(ahead) = self.ahead {
            let row = expr!(kb, k / self.round);
            ahead.fetch(kb, row);
        }
        if let Some(left) = &self.left {
            for shift in 0..round_steps(self.plan.tile) {
                let k = expr!(kb, k + int(shift));
                left.fetch(kb, k);
            }
        }
        let end = expr!(kb, k + self.round);
        in_turn(kb, copied.as_ref().unwrap_or(step), self.chains, [k, end], carried)
    }
}

/// Emits the steps from `low` to `high`, a multiple of `chains` and of the lanes of a vector apart:
/// each adds to its own sums in turn.
fn in_turn(kb: &mut KernelBuilder, step: &Step<'_>, chains: usize, [low, high]: [Value; 2], sums: &[Value]) -> Vec<Value> {
    let count = sums.len() / chains;
    if let (1, Some(steps)) = (chains, step.plan.steps_by_lane()) {
        let turn = kb.int(steps);
        return kb.for_([low, high, turn], sums, |kb, k, carried| step.emit_by_lane(kb, k, carried));
    }
    let turn = kb.int(chains as i64);
    kb.for_([low, high, turn], sums, |kb, k, carried| {
        let mut next = Vec::with_capacity(carried.len());
        for (chain, sums) in carried.chunks(count).enumerate() {
            let here = expr!(kb, k + int(chain as i64));
            next.extend(step.emit(kb, here, sums));
        }
        next
    })
}

/// Emits the steps that are left, on the first sums.
fn finish(kb: &mut KernelBuilder, step: &Step<'_>, count: usize, [low, high]: [Value; 2], mut sums: Vec<Value>) -> Vec<Value> {
    let one = kb.int(1);
    let first = kb.for_([low, high, one], &sums[..count], |kb, k, carried| step.emit(kb, k, carried));
    sums.splice(..count, first);
    sums
}
