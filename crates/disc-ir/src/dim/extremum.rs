//! Computes the minimum and maximum of two or more dims.
//!
//! Invariants: operands are flat (no min in a min, nor one plus a constant: `max(0, max(0, x)-1)`
//! is `max(0, x-1)`), sorted and distinct; of operands that differ by a constant, or by remainders
//! and a constant of which one sign is known, only one is kept (`min(x, x+1)` is `x`, and so is
//! `min(x, x+x%2)`); of `min(a, max(a, b))` (and `min(a, max(a+1, b))`) only `a` is kept. All of it
//! holds for all integers.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::node::{Dim, Kind, Repr};
use super::periodic;

#[derive(Clone, Copy, PartialEq)]
enum Which {
    Min,
    Max,
}

impl Dim {
    /// The smaller of the two. Called as `Dim::min(&a, &b)` (or on a reference); `a.min(b)` takes
    /// owned dims.
    pub fn min(&self, other: &Dim) -> Dim {
        Dim::min_of([self.clone(), other.clone()]).expect("two operands")
    }

    /// The larger of the two. Called as `Dim::max(&a, &b)` (or on a reference); `a.max(b)` takes
    /// owned dims.
    pub fn max(&self, other: &Dim) -> Dim {
        Dim::max_of([self.clone(), other.clone()]).expect("two operands")
    }

    /// Rewrites it with fewer terms, if a minimum of the sum allows it: `a - min(a, b)` is
    /// `max(0, a-b)`, and `min(a, b) + max(0, a-b)` is `a`. This is not part of the canonical form,
    /// since sums of such sums would depend on the order in which they are written; it keeps sizes
    /// of parts of parts, and of parts that are joined again, from doubling with each.
    pub fn shortened(&self) -> Dim {
        let terms = self.to_terms();
        let minima = terms.iter().filter_map(|term| match (term.coefficient, term.factors.as_slice()) {
            (1 | -1, [(dim, 1)]) => match dim.kind() {
                Some(Kind::Min(operands)) => Some((term.coefficient, dim, operands)),
                _ => None,
            },
            _ => None,
        });
        for (sign, least, operands) in minima {
            for operand in operands {
                let rest = operands.iter().filter(|other| *other != operand).map(|other| operand - other);
                let behind = Dim::max_of(rest.chain([Dim::constant(0)])).expect("an operand");
                let scaled = |by: i64, dim: &Dim| Dim::constant(0).plus_scaled(by * sign, dim);
                let shorter = Dim::sum([self.clone(), scaled(-1, least), scaled(-1, &behind), scaled(1, operand)]);
                if !matches!(shorter.0, Repr::Invalid(_)) && shorter.to_terms().len() < terms.len() {
                    return shorter.shortened();
                }
            }
        }
        self.clone()
    }

    /// The smallest of `dims`; `None` for none.
    pub fn min_of(dims: impl IntoIterator<Item = Dim>) -> Option<Dim> {
        extremum(Which::Min, dims)
    }

    /// The largest of `dims`; `None` for none.
    pub fn max_of(dims: impl IntoIterator<Item = Dim>) -> Option<Dim> {
        extremum(Which::Max, dims)
    }
}

fn extremum(which: Which, dims: impl IntoIterator<Item = Dim>) -> Option<Dim> {
    let mut kept = Operands { which, by_variable_part: BTreeMap::new(), defect: None };
    dims.into_iter().for_each(|dim| kept.add(dim));
    if let Some(defect) = kept.defect {
        return Some(defect);
    }
    let operands = kept.finish();
    match operands.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        _ => Some(Dim::from_kind(if which == Which::Min { Kind::Min(operands) } else { Kind::Max(operands) })),
    }
}

/// Operands by their variable part, with the constant that wins.
struct Operands {
    which: Which,
    by_variable_part: BTreeMap<Dim, i64>,
    defect: Option<Dim>,
}

impl Operands {
    fn add(&mut self, dim: Dim) {
        if matches!(dim.0, Repr::Invalid(_)) {
            self.defect.get_or_insert(dim);
            return;
        }
        let (variable, constant) = dim.split_constant();
        match (self.which, variable.kind()) {
            (Which::Min, Some(Kind::Min(inner))) | (Which::Max, Some(Kind::Max(inner))) => {
                inner.iter().for_each(|dim| self.add(dim.plus(&Dim::constant(constant))));
            }
            _ => {
                let wins = |old: i64| if self.which == Which::Min { old.min(constant) } else { old.max(constant) };
                self.by_variable_part.entry(variable).and_modify(|old| *old = wins(*old)).or_insert(constant);
            }
        }
    }

    fn finish(self) -> Vec<Dim> {
        let parts = self.by_variable_part.iter();
        let operands: Vec<Operand> = parts.map(|(variable, constant)| Operand::new(variable, *constant)).collect();
        let mut dims = Vec::with_capacity(operands.len());
        // Of operands that are always equal the first is kept: they are ordered by their variable
        // parts.
        for (i, one) in operands.iter().enumerate() {
            let decided = operands
                .iter()
                .enumerate()
                .any(|(j, other)| j != i && self.which.decides(other, one) && (j < i || !self.which.decides(one, other)));
            if !decided && !self.absorbs(&operands, one) {
                dims.push(one.dim.clone());
            }
        }
        dims.sort();
        dims
    }

    /// Returns true if another operand bounds this one: `min(a, max(a+1, b))` is `a`; and the same
    /// with min and max exchanged.
    fn absorbs(&self, operands: &[Operand], operand: &Operand) -> bool {
        let Some((bound, shift)) = self.lone(operand) else { return false };
        let inner = match (self.which, bound.kind()) {
            (Which::Min, Some(Kind::Max(inner))) | (Which::Max, Some(Kind::Min(inner))) => inner,
            _ => return false,
        };
        inner.iter().any(|dim| {
            let (variable, constant) = dim.split_constant();
            let Some(constant) = constant.checked_add(shift) else { return false };
            let winner = self.by_variable_part.get(&variable);
            let by_constant = winner.is_some_and(|winner| match self.which {
                Which::Min => *winner <= constant,
                Which::Max => *winner >= constant,
            });
            by_constant || {
                let inner = Operand::new(&variable, constant);
                operands.iter().any(|operand| self.which.decides(operand, &inner))
            }
        })
    }

    /// Returns `(factor, shift)` if `operand` is the factor plus remainders and a constant, which
    /// are never below the shift (above it for a max).
    fn lone(&self, operand: &Operand) -> Option<(Dim, i64)> {
        if !operand.repeats {
            return Some(operand.dim.split_constant());
        }
        let factor = periodic::lone_drift(operand.drift()?)?;
        let (least, most) = periodic::bounds(&operand.dim.minus(&factor))?;
        Some((factor, if self.which == Which::Min { least } else { most }))
    }
}

/// An operand, and its properties that comparisons with other variable parts use.
struct Operand {
    dim: Dim,
    repeats: bool,
    drift: OnceCell<Option<Dim>>,
}

impl Operand {
    fn new(variable: &Dim, constant: i64) -> Operand {
        Operand { dim: variable.plus(&Dim::constant(constant)), repeats: periodic::repeats(variable), drift: OnceCell::new() }
    }

    fn drift(&self) -> Option<&Dim> {
        self.drift.get_or_init(|| periodic::drift(&self.dim)).as_ref()
    }
}

impl Which {
    /// Returns true if `a` is the result of both for all integers.
    fn decides(self, a: &Operand, b: &Operand) -> bool {
        let comparable = (a.repeats || b.repeats) && a.drift().is_some() && a.drift() == b.drift();
        comparable && if self == Which::Min { periodic::never_less(&b.dim, &a.dim) } else { periodic::never_less(&a.dim, &b.dim) }
    }
}

impl Dim {
    /// `(variable, constant)` with `self == variable + constant`, the variable part having no
    /// constant term.
    pub(super) fn split_constant(&self) -> (Dim, i64) {
        match (&self.0, self.sum_terms()) {
            (Repr::Const(value), _) => (Dim::constant(0), *value),
            (_, Some([terms @ .., last])) if last.factors.is_empty() => (Dim::from_terms(terms.to_vec()), last.coefficient),
            _ => (self.clone(), 0),
        }
    }
}
