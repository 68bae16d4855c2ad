//! Walks rows in blocks: values that are costly and shared by distant rows are computed for a block
//! of rows, and all rows that share them are walked before the next block.
//!
//! An example is the angles of positions under a batch: `x[b, l, d] * sin(position[l] *
//! frequency[d])` walks some `l`, then all `b`, then these `l`. A block is so long that a table of
//! it stays in the nearest caches, so that memory is still read in pieces.
//!
//! It counts the units and walks their rows; the values that are computed for a block are in
//! [`super::hoisted_tables`] (pointwise) and `reduction/tables.rs`.
//!
//! Invariant: values in tables follow the inner run and some of the runs `around` and `run`; never
//! those that are `before` or `behind`.
use super::iteration_space::{Merged, positions_of};
use crate::kernel::{Index, KernelBuilder};
use disc_ir::{Dim, Value};
use disc_kernel_macros::expr;

/// The least and the most elements of a block, roughly: longer pieces of memory are read faster,
/// but a table has to stay near.
const LEAST: i64 = 512;
const MOST: i64 = 8192;

/// In between, there are about this many blocks: each task computes the first of its blocks, though
/// another one may have done so as well.
const COUNT: i64 = 8;

#[derive(Clone, Debug)]
pub(in crate::schedule) struct RowBlocking {
    /// The outer runs along which tables vary, before the one that is cut.
    around: Vec<Merged>,
    /// The run that is cut into blocks.
    pub(in crate::schedule) run: Merged,
    /// The number of its positions in a block.
    pub(in crate::schedule) rows: Dim,
    /// The runs along which no table varies, before the one that is cut, and after it.
    before: Vec<Merged>,
    pub(in crate::schedule) behind: Vec<Merged>,
}

impl RowBlocking {
    /// Cuts rows of `length` elements, which vary along outer runs: along those of the axes
    /// `followed`, tables do too.
    pub(in crate::schedule) fn of(outer: &[Merged], followed: &[usize], length: &Dim) -> Option<Self> {
        let is_followed = |run: &&Merged| followed.contains(&run.axis);
        let place = outer.iter().rposition(|run| is_followed(&run))?;
        let run = outer[place].clone();
        let (around, before) = outer[..place].iter().cloned().partition(|run| is_followed(&run));
        let length = Dim::max(length, &Dim::constant(1));
        let [least, most] = [LEAST, MOST].map(|elements| Dim::constant(elements).floor_div(&length));
        let some = run.size.ceil_div(&Dim::constant(COUNT));
        let rows = Dim::max(&Dim::min(&some, &most), &Dim::max(&least, &Dim::constant(1)));
        Some(Self { around, run, rows, before, behind: outer[place + 1..].to_vec() })
    }

    /// The runs that units are counted along: those that tables follow, then all that share them.
    pub(in crate::schedule) fn counted(&self) -> Vec<Merged> {
        let blocks = Merged { size: self.run.size.ceil_div(&self.rows), axis: self.run.axis };
        let size = Dim::product(self.before.iter().map(|run| run.size.clone()));
        // It stands for several axes, none of which has its position.
        let sharing = Merged { size, axis: usize::MAX };
        self.around.iter().cloned().chain([blocks, sharing]).collect()
    }

    pub(in crate::schedule) fn units(&self) -> Dim {
        Dim::product(self.counted().into_iter().map(|run| run.size))
    }

    /// Sets the positions along the runs around a block in `at`; returns the first of its rows, and
    /// their end.
    pub(in crate::schedule) fn enter(&self, kb: &mut KernelBuilder, positions: &[Value], at: &mut [Index]) -> [Value; 2] {
        self.around.iter().zip(positions).for_each(|(run, &position)| at[run.axis] = Index::uniform(position));
        let (rows, size) = (kb.dim(&self.rows), kb.dim(&self.run.size));
        let first = expr!(kb, positions[self.around.len()] * rows);
        let stop = expr!(kb, first + rows);
        [first, kb.min(stop, size)]
    }

    /// Sets the positions of a unit along the runs before those of its block as well.
    pub(in crate::schedule) fn place(&self, kb: &mut KernelBuilder, positions: &[Value], at: &mut [Index]) -> [Value; 2] {
        let range = self.enter(kb, positions, at);
        let found = positions_of(kb, positions[self.around.len() + 1], &self.before);
        self.before.iter().zip(found).for_each(|(run, position)| at[run.axis] = Index::uniform(position));
        range
    }

    /// The run that is walked innermost within a unit.
    pub(in crate::schedule) fn last(&self) -> &Merged {
        self.behind.last().unwrap_or(&self.run)
    }

    /// Walks the rows of a unit in order, along the last run that many at a time: `body` gets the
    /// position of the first of these, and the end of that run.
    pub(in crate::schedule) fn each_row(
        &self,
        kb: &mut KernelBuilder,
        range: [Value; 2],
        step: i64,
        at: &[Index],
        body: &mut dyn FnMut(&mut KernelBuilder, &[Index], Value),
    ) {
        let (run, behind) = (std::slice::from_ref(&self.run), &self.behind[..]);
        walk(kb, &[run, behind].concat(), Some(range), step, at, body);
    }
}

fn walk(
    kb: &mut KernelBuilder,
    runs: &[Merged],
    range: Option<[Value; 2]>,
    step: i64,
    at: &[Index],
    body: &mut dyn FnMut(&mut KernelBuilder, &[Index], Value),
) {
    let Some((run, others)) = runs.split_first() else { return };
    let [first, stop] = range.unwrap_or_else(|| [kb.int(0), kb.dim(&run.size)]);
    let step_here = kb.int(if others.is_empty() { step } else { 1 });
    kb.for_each([first, stop, step_here], |kb, position| {
        let mut at = at.to_vec();
        at[run.axis] = Index::uniform(position);
        match others.is_empty() {
            true => body(kb, &at, stop),
            false => walk(kb, others, None, step, &at, body),
        }
    });
}
