//! Minimum and maximum of two or more dims.
//!
//! Invariants: operands are flat (no min in a min, nor one plus a constant: `max(0, max(0, x)-1)` is `max(0, x-1)`), sorted and distinct; of
//! operands that differ by a constant only one is kept (`min(x, x+1)` is `x`); of `min(a, max(a, b))` (and `min(a, max(a+1, b))`) only `a`
//! is kept. All of it holds for all integers.

use std::collections::BTreeMap;

use super::node::{Dim, Kind, Repr};

#[derive(Clone, Copy, PartialEq)]
enum Which {
    Min,
    Max,
}

impl Dim {
    /// The smaller of the two. Called as `Dim::min(&a, &b)` (or on a reference); `a.min(b)` takes owned dims.
    pub fn min(&self, other: &Dim) -> Dim {
        Dim::min_of([self.clone(), other.clone()]).expect("two operands")
    }

    /// The larger of the two. Called as `Dim::max(&a, &b)` (or on a reference); `a.max(b)` takes owned dims.
    pub fn max(&self, other: &Dim) -> Dim {
        Dim::max_of([self.clone(), other.clone()]).expect("two operands")
    }

    /// The same with fewer terms, where a minimum of the sum allows it: `a - min(a, b)` is `max(0, a-b)`, and `min(a, b) + max(0, a-b)` is
    /// `a`. No part of the canonical form, since sums of such sums would depend on the order in which they are written; it keeps sizes of parts
    /// of parts, and of parts that are joined again, from doubling with each.
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

/// Operands by what they are without their constant, with the constant that wins.
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

    /// `min(a, max(a+1, b))` is `a`: an operand that one of the others bounds; and the same with min and max exchanged.
    fn absorbs(&self, dim: &Dim) -> bool {
        let inner = match (self.which, dim.kind()) {
            (Which::Min, Some(Kind::Max(inner))) | (Which::Max, Some(Kind::Min(inner))) => inner,
            _ => return false,
        };
        inner.iter().any(|dim| {
            let (variable, constant) = dim.split_constant();
            let winner = self.by_variable_part.get(&variable);
            winner.is_some_and(|winner| if self.which == Which::Min { *winner <= constant } else { *winner >= constant })
        })
    }

    fn finish(self) -> Vec<Dim> {
        let parts = self.by_variable_part.iter().map(|(dim, constant)| dim.plus(&Dim::constant(*constant)));
        let mut dims: Vec<Dim> = parts.filter(|dim| !self.absorbs(dim)).collect();
        dims.sort();
        dims
    }
}

impl Dim {
    /// `(variable, constant)` with `self == variable + constant`, the variable part having no constant term.
    pub(super) fn split_constant(&self) -> (Dim, i64) {
        match (&self.0, self.sum_terms()) {
            (Repr::Const(value), _) => (Dim::constant(0), *value),
            (_, Some([terms @ .., last])) if last.factors.is_empty() => (Dim::from_terms(terms.to_vec()), last.coefficient),
            _ => (self.clone(), 0),
        }
    }
}
