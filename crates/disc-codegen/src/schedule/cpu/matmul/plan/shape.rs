//! The dimensions of a product: rows, columns, sums, and those that units are spread over.
use super::operand::Operand;
use crate::schedule::common::iteration_space::Merged;
use disc_ir::{Dim, Solver};

/// A dimension of the product and how the operands step along it, in elements.
#[derive(Clone, Debug)]
pub(in crate::schedule) struct Axis {
    pub(in crate::schedule) size: Dim,
    pub(in crate::schedule) left: Dim,
    pub(in crate::schedule) right: Dim,
    /// The dimension of the result that carries it; none for the sums, and for a missing dimension.
    pub(in crate::schedule) dim: Option<usize>,
}

/// A dimension that units are spread over.
#[derive(Clone, Debug)]
pub(in crate::schedule) struct Outer {
    pub(in crate::schedule) run: Merged,
    pub(in crate::schedule) left: Dim,
    pub(in crate::schedule) right: Dim,
}

/// The dimensions of a product `[m, k] x [k, n]` for each position along the outer ones.
pub(in crate::schedule) struct MatmulShape {
    /// Dimensions of the result.
    pub(in crate::schedule) rank: usize,
    pub(in crate::schedule) m: Axis,
    pub(in crate::schedule) n: Axis,
    pub(in crate::schedule) k: Axis,
    /// The summed dimensions, where they have to be told apart; else one.
    pub(in crate::schedule) sums: Vec<Dim>,
    pub(in crate::schedule) outer: Vec<Outer>,
    /// For each output, the order of the product's dimensions in it.
    pub(in crate::schedule) orders: Vec<Vec<usize>>,
}

/// A dimension of the product, and how one operand steps along it.
struct Stepped {
    size: Dim,
    stride: Dim,
    axis: usize,
}

impl MatmulShape {
    /// Gives a shape of one row and one column, with the batch dimensions and the sums of the
    /// operands.
    pub(super) fn new(solver: &Solver, rank: usize, orders: Vec<Vec<usize>>, left: &Operand, right: &Operand) -> Self {
        let zero = || Dim::constant(0);
        let one = Axis { size: Dim::constant(1), left: zero(), right: zero(), dim: None };
        let batches = left.batch.iter().zip(&right.batch).enumerate();
        let outer = batches.map(|(i, (&l, &r))| {
            let run = Merged { size: left.dims[l].clone(), axis: i };
            Outer { run, left: left.stride(l), right: right.stride(r) }
        });
        let sums = left.sum.iter().map(|&d| left.dims[d].clone()).collect();
        let outer = outer.collect();
        let mut shape = Self { rank, m: one.clone(), n: one.clone(), k: one, sums, outer, orders };
        shape.join_sums(solver, left, right);
        shape
    }

    /// Joins the sums into one, where both operands walk through them that way.
    fn join_sums(&mut self, solver: &Solver, left: &Operand, right: &Operand) {
        let count = left.sum.len();
        let joined = (1..count)
            .all(|i| left.joins(solver, left.sum[i - 1], left.sum[i]) && right.joins(solver, right.sum[i - 1], right.sum[i]));
        let size = Dim::product(self.sums.iter().cloned());
        let last = |side: &Operand| side.sum.last().map_or(Dim::constant(0), |&d| side.stride(d));
        self.k = Axis { size: size.clone(), left: last(left), right: last(right), dim: None };
        if joined && count > 0 {
            self.sums = vec![size];
        }
    }

    /// Splits the free dimensions of a side, from the last: the run that is walked as one, and the
    /// others, which units are spread over.
    fn walk(&self, solver: &Solver, side: &Operand, pairs: &[bool]) -> Option<(Stepped, Vec<Stepped>)> {
        let (&last, earlier) = side.free.split_last()?;
        let axis = side.first + earlier.len();
        // A transposed output is written position by position, so its dimensions stay apart.
        let straight = self.orders.iter().all(|o| o.windows(2).all(|w| w[0] < w[1]));
        let (mut size, mut merging, mut others) = (side.dims[last].clone(), straight, Vec::new());
        for (i, &dim) in earlier.iter().enumerate().rev() {
            let here = side.first + i;
            merging &= pairs.get(here).copied().unwrap_or(false) && side.joins(solver, dim, side.free[i + 1]);
            if merging {
                size = &size * &side.dims[dim];
            } else {
                others.push(Stepped { size: side.dims[dim].clone(), stride: side.stride(dim), axis: here });
            }
        }
        Some((Stepped { size, stride: side.stride(last), axis }, others))
    }

    /// Takes the rows from the free dimensions of the left operand; `pairs` says which neighbouring
    /// dimensions the outputs can merge.
    pub(super) fn walk_rows(&mut self, solver: &Solver, left: &Operand, pairs: &[bool]) {
        let Some((rows, others)) = self.walk(solver, left, pairs) else { return };
        self.m = Axis { size: rows.size, left: rows.stride, right: Dim::constant(0), dim: Some(rows.axis) };
        for Stepped { size, stride: left, axis } in others {
            self.outer.push(Outer { run: Merged { size, axis }, left, right: Dim::constant(0) });
        }
    }

    /// Takes the columns from the free dimensions of the right operand.
    pub(super) fn walk_columns(&mut self, solver: &Solver, right: &Operand, pairs: &[bool]) {
        let Some((columns, others)) = self.walk(solver, right, pairs) else { return };
        self.n = Axis { size: columns.size, left: Dim::constant(0), right: columns.stride, dim: Some(columns.axis) };
        for Stepped { size, stride: right, axis } in others {
            self.outer.push(Outer { run: Merged { size, axis }, left: Dim::constant(0), right });
        }
    }

    /// Gives the dimensions that units are spread over.
    pub(in crate::schedule) fn outer_runs(&self) -> Vec<Merged> {
        self.outer.iter().map(|o| o.run.clone()).collect()
    }
}
