//! Cascade summation: adds the elements of a row in blocks, so that chains of additions are short.
//!
//! An accumulator takes [`CHAIN`] steps, then it is added to a subtotal; after [`CHAIN`] of those,
//! the subtotal is added to a total with two-sum, which keeps the rounding errors. The error of a
//! sum is that of some ten additions, whatever the length of the row. A chain of equal numbers is
//! the worst case otherwise: its rounding errors have one sign.
//!
//! Blocks are cut along the last two reduced runs: if the last one is shorter than a chain, a block
//! spans several positions of the one before it. Runs before these carry only the totals.
use super::{
    plan::{Along, Combine, Reduction},
    unit::{Columns, Unit, in_pairs},
};
use crate::{
    element::Elements,
    kernel::{
        Index, KernelBuilder,
        monoid::{Monoid, two_sum, with_lost},
    },
    schedule::common::iteration_space::Merged,
};
use disc_ir::{Dim, Value};
use disc_kernel_macros::expr;

/// The steps of an accumulator before it is added to the subtotal, and the blocks of a subtotal.
const CHAIN: i64 = 16;
/// Rows known to have at most this many elements are one chain.
const SHORT: i64 = 64;

/// The body of a loop nest: computes the next carried values at a position.
pub(super) type Body<'b, 'e> = dyn FnMut(&mut KernelBuilder, &mut Elements<'e>, &Columns, &[Value]) -> Vec<Value> + 'b;

/// The code of one block: takes the ranges along the last two runs, and returns the next carried
/// values.
type Ranges<'b, 'e> = dyn FnMut(&mut KernelBuilder, &mut Elements<'e>, Vec<[Value; 2]>, &[Value]) -> Vec<Value> + 'b;

/// The sums of one walk.
pub(super) struct Cascade<'u, 'g> {
    unit: &'u Unit<'g>,
    due: &'u [Reduction],
    /// The initial accumulators: `copies` for each result.
    start: &'u [Value],
    copies: usize,
    /// The rows of the unit.
    rows: usize,
}

/// The positions along each of the last two runs that a chain covers, then those that a subtotal
/// covers; `None` if one block covers all.
struct Blocks {
    outer: [Option<Dim>; 2],
    inner: [Option<Dim>; 2],
}

impl<'u, 'g> Cascade<'u, 'g> {
    /// The sums of a unit of `columns` rows, if some of them round and rows may be long.
    pub(super) fn of(
        unit: &'u Unit<'g>,
        due: &'u [Reduction],
        start: &'u [Value],
        copies: usize,
        columns: usize,
    ) -> Option<Self> {
        let found = Self { unit, due, start, copies, rows: columns };
        let rounds = due.iter().any(|reduction| found.is_sum(reduction));
        let is_short = || unit.group.solver.range(&unit.plan.row_length()).hi.is_some_and(|most| most <= SHORT);
        (rounds && !unit.reduced.is_empty() && !is_short()).then_some(found)
    }

    fn is_sum(&self, reduction: &Reduction) -> bool {
        let function = self.unit.group.function;
        let is_float = self.unit.group.tensor(function.results_of(reduction.inst)[0]).dtype.is_float();
        is_float && matches!(reduction.combine, Combine::Plain(Monoid::Add))
    }

    /// The reduction of each result.
    fn results(&self) -> Vec<&'u Reduction> {
        let count = |reduction: &Reduction| self.unit.group.function.results_of(reduction.inst).len();
        self.due.iter().flat_map(|reduction| std::iter::repeat_n(reduction, count(reduction))).collect()
    }

    /// The steps along a run: vectors of all copies, if vectors are along it.
    fn steps(&self, elements: &Elements<'_>, run: &Merged) -> Dim {
        run.size.ceil_div(&Dim::constant(self.step(elements)))
    }

    /// The positions of the last run in a step.
    fn step(&self, elements: &Elements<'_>) -> i64 {
        match self.unit.along {
            Along::Reduced => i64::from(elements.lanes) * i64::from(self.unit.copies),
            Along::Kept => 1,
        }
    }

    fn blocks(&self, elements: &Elements<'_>) -> Blocks {
        let solver = &self.unit.group.solver;
        let runs = &self.unit.reduced;
        let last = runs.last().expect("there is a run");
        let (steps, step) = (self.steps(elements, last), self.step(elements));
        let most = |dim: &Dim| solver.range(dim).hi.unwrap_or(i64::MAX);
        let before = (runs.len() > 1).then(|| &runs[runs.len() - 2].size);
        let chains = [CHAIN, CHAIN * CHAIN];
        let inner = chains.map(|chain| (most(&steps) > chain).then(|| Dim::constant(chain * step)));
        let outer = chains.map(|chain| {
            let size = before.filter(|&size| most(&(size * &steps)).min(most(size).saturating_mul(most(&steps))) > chain)?;
            let rows = Dim::constant(chain).floor_div(&Dim::max(&steps, &Dim::constant(1)));
            let rows = Dim::max(&rows, &Dim::constant(1));
            (most(size) > solver.range(&rows).lo.unwrap_or(1)).then_some(rows)
        });
        Blocks { outer, inner }
    }

    /// Emits the sums over all positions of the unit's reduced runs, one for each result and row.
    pub(super) fn run<'e>(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'e>,
        columns: &Columns,
        body: &mut Body<'_, 'e>,
    ) -> Vec<Value> {
        let blocks = self.blocks(elements);
        let runs = &self.unit.reduced;
        let range = |kb: &mut KernelBuilder, run: &Merged| [kb.int(0), kb.dim(&run.size)];
        let first = match &self.unit.part {
            Some(part) => part.range,
            None => range(kb, &runs[0]),
        };
        // These are neutral values, one for each result and row.
        let empty: Vec<Value> = self.start.chunks(self.copies).flat_map(|copies| copies[..self.rows].to_vec()).collect();
        let is_long = runs.len() > 2 || blocks.outer[1].is_some() || blocks.inner[1].is_some();
        if !is_long {
            let ranges: Vec<[Value; 2]> = [first].into_iter().chain(runs[1..].iter().map(|run| range(kb, run))).collect();
            return self.subtotal(kb, elements, columns, &blocks, &ranges, &empty, body);
        }
        let results = self.results();
        let kept: Vec<Value> = results
            .iter()
            .zip(empty.chunks(self.rows))
            .filter(|(reduction, _)| self.is_sum(reduction))
            .flat_map(|(_, rows)| rows.iter().map(|&row| kb.zero(kb.dtype(row), kb.lanes(row))).collect::<Vec<_>>())
            .collect();
        let count = empty.len();
        let carried: Vec<Value> = empty.iter().copied().chain(kept).collect();
        let last_two = runs.len().saturating_sub(2);
        let totals = self.outer_runs(
            kb,
            elements,
            columns,
            &runs[..last_two],
            Some(first),
            &carried,
            &mut |kb, elements, columns, carried| {
                let mut ranges: Vec<[Value; 2]> = runs[last_two..].iter().map(|run| range(kb, run)).collect();
                if last_two == 0 {
                    ranges[0] = first;
                }
                let [outer, inner] = [&blocks.outer[1], &blocks.inner[1]];
                let outer = outer.as_ref().filter(|_| ranges.len() > 1);
                self.in_blocks(kb, elements, (0, outer), ranges, carried, &mut |kb, elements, ranges, carried| {
                    let last = ranges.len() - 1;
                    self.in_blocks(kb, elements, (last, inner.as_ref()), ranges, carried, &mut |kb, elements, ranges, carried| {
                        let before = self.passed(&carried[..count], &empty);
                        let found = self.subtotal(kb, elements, columns, &blocks, &ranges, &before, body);
                        self.add_exactly(kb, carried, &found)
                    })
                })
            },
        );
        self.rounded(kb, &totals)
    }

    /// The initial subtotals: neutral, except for results with a body, whose order is kept.
    fn passed(&self, carried: &[Value], empty: &[Value]) -> Vec<Value> {
        let results = self.results();
        let chunks = carried.chunks(self.rows).zip(empty.chunks(self.rows));
        let of = |(reduction, (carried, empty)): (&&Reduction, (&[Value], &[Value]))| match reduction.combine {
            Combine::Plain(_) => empty.to_vec(),
            Combine::Body(_) => carried.to_vec(),
        };
        results.iter().zip(chunks).flat_map(of).collect()
    }

    /// Emits loops over the runs before the last two.
    #[expect(clippy::too_many_arguments, reason = "a loop nest has its surroundings")]
    fn outer_runs<'e>(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'e>,
        columns: &Columns,
        runs: &[Merged],
        range: Option<[Value; 2]>,
        carried: &[Value],
        body: &mut Body<'_, 'e>,
    ) -> Vec<Value> {
        let Some((run, others)) = runs.split_first() else {
            return elements.scoped(|elements| body(kb, elements, columns, carried));
        };
        let [low, high] = range.unwrap_or_else(|| [kb.int(0), kb.dim(&run.size)]);
        let one = kb.int(1);
        kb.for_([low, high, one], carried, |kb, index, carried| {
            elements.scoped(|elements| {
                let columns = at(columns, run, index);
                self.outer_runs(kb, elements, &columns, others, None, carried, body)
            })
        })
    }

    /// Cuts one of some ranges into blocks.
    fn in_blocks<'e>(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'e>,
        (place, block): (usize, Option<&Dim>),
        ranges: Vec<[Value; 2]>,
        carried: &[Value],
        body: &mut Ranges<'_, 'e>,
    ) -> Vec<Value> {
        let Some(block) = block else { return body(kb, elements, ranges, carried) };
        let block = kb.dim(block);
        let [low, high] = ranges[place];
        kb.for_([low, high, block], carried, |kb, from, carried| {
            let end = expr!(kb, min(from + block, high));
            let mut ranges = ranges.clone();
            ranges[place] = [from, end];
            elements.scoped(|elements| body(kb, elements, ranges, carried))
        })
    }

    /// Sums over ranges of the last runs, in chains.
    #[expect(clippy::too_many_arguments, reason = "a loop nest has its surroundings")]
    fn subtotal<'e>(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'e>,
        columns: &Columns,
        blocks: &Blocks,
        ranges: &[[Value; 2]],
        before: &[Value],
        body: &mut Body<'_, 'e>,
    ) -> Vec<Value> {
        let runs = &self.unit.reduced[self.unit.reduced.len() - ranges.len()..];
        let [outer, inner] = [&blocks.outer[0], &blocks.inner[0]];
        let outer = outer.as_ref().filter(|_| ranges.len() > 1);
        let is_one = outer.is_none() && inner.is_none();
        self.in_blocks(kb, elements, (0, outer), ranges.to_vec(), before, &mut |kb, elements, ranges, carried| {
            let last = ranges.len() - 1;
            self.in_blocks(kb, elements, (last, inner.as_ref()), ranges, carried, &mut |kb, elements, ranges, carried| {
                let start = self.chain_start(carried);
                let found = self.unit.walk(kb, elements, columns, runs, &ranges, &start, body);
                let found = self.joined(kb, &found);
                if is_one { found } else { self.add(kb, carried, found) }
            })
        })
    }

    /// The initial accumulators of a chain.
    fn chain_start(&self, carried: &[Value]) -> Vec<Value> {
        let results = self.results();
        let chunks = carried.chunks(self.rows).zip(self.start.chunks(self.copies));
        let of = |(reduction, (carried, start)): (&&Reduction, (&[Value], &[Value]))| match reduction.combine {
            Combine::Plain(_) => start.to_vec(),
            Combine::Body(_) => carried.to_vec(),
        };
        results.iter().zip(chunks).flat_map(of).collect()
    }

    /// Combines the accumulators of each row.
    fn joined(&self, kb: &mut KernelBuilder, found: &[Value]) -> Vec<Value> {
        let each = self.copies / self.rows;
        let results = self.results();
        let mut joined = Vec::with_capacity(results.len() * self.rows);
        for (reduction, copies) in results.iter().zip(found.chunks(self.copies)) {
            match reduction.combine {
                Combine::Plain(monoid) => joined.extend(copies.chunks(each).map(|row| in_pairs(kb, monoid, row))),
                Combine::Body(_) => joined.extend(copies),
            }
        }
        joined
    }

    /// Combines the sums of a block with the carried subtotals.
    fn add(&self, kb: &mut KernelBuilder, carried: &[Value], found: Vec<Value>) -> Vec<Value> {
        let results = self.results();
        let mut next = Vec::with_capacity(found.len());
        for (number, value) in found.into_iter().enumerate() {
            next.push(match results[number / self.rows].combine {
                Combine::Plain(monoid) => monoid.apply(kb, carried[number], value),
                Combine::Body(_) => value,
            });
        }
        next
    }

    /// Adds subtotals to the carried totals; the rounding errors are carried after all results.
    fn add_exactly(&self, kb: &mut KernelBuilder, carried: &[Value], found: &[Value]) -> Vec<Value> {
        let (totals, lost) = carried.split_at(found.len());
        let mut lost = lost.iter();
        let (mut next, mut kept) = (Vec::with_capacity(found.len()), Vec::with_capacity(carried.len() - found.len()));
        let results = self.results();
        for (number, (&total, &value)) in totals.iter().zip(found).enumerate() {
            let reduction = results[number / self.rows];
            next.push(match reduction.combine {
                Combine::Plain(_) if self.is_sum(reduction) => {
                    let (sum, rest) = two_sum(kb, total, value);
                    let before = *lost.next().expect("each sum has its rounding error");
                    kept.push(expr!(kb, before + rest));
                    sum
                }
                Combine::Plain(monoid) => monoid.apply(kb, total, value),
                Combine::Body(_) => value,
            });
        }
        next.into_iter().chain(kept).collect()
    }

    /// Adds the rounding errors to the totals.
    fn rounded(&self, kb: &mut KernelBuilder, carried: &[Value]) -> Vec<Value> {
        let results = self.results();
        let (totals, lost) = carried.split_at(results.len() * self.rows);
        let mut lost = lost.iter();
        let mut found = totals.to_vec();
        for (_, total) in found.iter_mut().enumerate().filter(|(number, _)| self.is_sum(results[number / self.rows])) {
            let lost = *lost.next().expect("each sum has its rounding error");
            *total = with_lost(kb, *total, lost);
        }
        found
    }
}

/// Moves columns to a position of a run.
fn at(columns: &Columns, run: &Merged, index: Value) -> Columns {
    let mut columns = columns.clone();
    columns.iter_mut().for_each(|at| at[run.axis] = Index::uniform(index));
    columns
}
