//! Answers the questions that a solver is asked.

use super::{Memo, Solver, system::System};
use crate::dim::interval::Range;
use crate::dim::{Dim, Fact};

/// More combinations of likely values are not tried.
const MAX_LIKELY: usize = 64;
const MAX_CANONICAL_ROUNDS: usize = 4;

impl Solver {
    /// Returns the reason why the facts cannot all hold, if one was found. Then the other answers
    /// mean nothing.
    pub fn contradiction(&self) -> Option<&str> {
        self.system.contradiction.as_deref()
    }

    /// Returns the one form of all dims that are (provably) equal to `dim`, in most cases. For
    /// proofs and comparison: it may use other symbols than `dim` does. See [`Solver::with_ranks`].
    pub fn canonical(&self, dim: &Dim) -> Dim {
        if matches!(dim.view(), crate::dim::DimView::Const(_) | crate::dim::DimView::Invalid(_)) {
            return dim.clone();
        }
        self.ask(|system, memo| system.canonical(dim, memo))
    }

    /// Returns true if both are proved to have the same value.
    pub fn equal(&self, a: &Dim, b: &Dim) -> bool {
        if a.defect().is_some() || b.defect().is_some() {
            return false;
        }
        a == b || self.ask(|system, memo| system.equal(a, b, memo))
    }

    /// Returns true if the products of both lists (the element counts of two shapes) are proved
    /// equal.
    pub fn product_equal(&self, a: &[Dim], b: &[Dim]) -> bool {
        if a.iter().chain(b).any(|dim| dim.defect().is_some()) {
            return false;
        }
        let (mut left, mut right): (Vec<Dim>, Vec<Dim>) =
            (a.iter().map(|dim| self.canonical(dim)).collect(), b.iter().map(|dim| self.canonical(dim)).collect());
        left.retain(|dim| match right.iter().position(|other| other == dim) {
            Some(same) => {
                right.swap_remove(same);
                false
            }
            None => true,
        });
        // With a common factor 0 the rest need not be equal.
        self.equal(&Dim::product(left), &Dim::product(right))
            || self.equal(&Dim::product(a.iter().cloned()), &Dim::product(b.iter().cloned()))
    }

    /// Bounds of the value.
    pub fn range(&self, dim: &Dim) -> Range {
        self.ask(|system, memo| {
            let normal = system.normal(dim, memo);
            system.interval(&normal, memo).intersect(system.stated.stated(dim)).into()
        })
    }

    /// Returns true if `a <= b` is proved.
    pub fn less_equal(&self, a: &Dim, b: &Dim) -> bool {
        self.at_least(b, a, 0)
    }

    /// Returns true if `a < b` is proved.
    pub fn less_than(&self, a: &Dim, b: &Dim) -> bool {
        self.at_least(b, a, 1)
    }

    fn at_least(&self, a: &Dim, b: &Dim, margin: i128) -> bool {
        if a.defect().is_some() || b.defect().is_some() {
            return false;
        }
        // Arenas of hundreds of allocations compare constants by the million.
        if let (Some(a), Some(b)) = (a.as_const(), b.as_const()) {
            return i128::from(a) - i128::from(b) >= margin;
        }
        self.ask(|system, memo| {
            let (a, b) = (system.normal(a, memo), system.normal(b, memo));
            let difference = system.normal(&(&a - &b), memo);
            system.at_least(&difference, &Dim::constant(0), margin, memo)
        })
    }

    /// Returns true if the value is proved to be a multiple of `by`. Nothing but 0 is a multiple of
    /// 0.
    pub fn divisible(&self, dim: &Dim, by: i64) -> bool {
        if dim.defect().is_some() {
            return false;
        }
        if by == 0 {
            return self.equal(dim, &Dim::constant(0));
        }
        self.ask(|system, memo| {
            let normal = system.normal(dim, memo);
            system.normal(&normal.modulo(&Dim::constant(by)), memo).is_const(0)
        })
    }

    /// Returns true if the value is proved not to be 0.
    pub fn nonzero(&self, dim: &Dim) -> bool {
        self.ask(|system, memo| {
            let normal = system.normal(dim, memo);
            system.nonzero(&normal, memo)
        })
    }

    /// Returns values that the dim often has, most likely first; empty if none are known. A hint,
    /// not a proof.
    pub fn likely(&self, dim: &Dim) -> Vec<i64> {
        self.ask(|system, memo| system.likely_values(dim, memo))
    }

    /// Returns the fact that would make both equal, or `None` if no fact can (they always differ)
    /// or none is needed.
    pub fn missing_fact(&self, a: &Dim, b: &Dim) -> Option<Fact> {
        let difference = self.ask(|system, memo| system.canonical(&(a - b), memo));
        if difference.as_const().is_some() || difference.defect().is_some() || !self.range(&difference).contains(0) {
            return None;
        }
        let given = Fact::Equal(a.clone(), b.clone());
        if a.nodes() + b.nodes() <= difference.nodes() {
            return Some(given);
        }
        let (content, primitive) = difference.content();
        let factors = content.factors.iter().flat_map(|(dim, power)| std::iter::repeat_n(dim.clone(), *power as usize));
        let reduced = Dim::product(factors.chain([primitive]));
        let terms = reduced.to_terms();
        let (positive, negative): (Vec<_>, Vec<_>) = terms.into_iter().partition(|term| term.coefficient() > 0);
        let left = Dim::from_terms(positive);
        let right = -Dim::from_terms(negative);
        Some(if left.defect().is_some() || right.defect().is_some() { given } else { Fact::Equal(left, right) })
    }

    /// Explains why `a == b` is not proved, for a message: the missing fact (`B == S`), or that
    /// none can help.
    pub fn explain_unequal(&self, a: &Dim, b: &Dim) -> String {
        if self.equal(a, b) {
            return format!("{a} and {b} are equal");
        }
        match self.missing_fact(a, b) {
            Some(fact) => fact.to_string(),
            None => format!("{a} and {b} are never equal"),
        }
    }
}

impl System {
    /// Returns the normal form without hidden symbols. If rewriting does not terminate, the dim
    /// itself: so it is idempotent.
    fn canonical(&self, dim: &Dim, memo: &mut Memo) -> Dim {
        if let Some(known) = memo.canonical.get(dim) {
            return known.clone();
        }
        let canonical = self.settled(dim, memo).unwrap_or_else(|| dim.clone());
        memo.canonical.insert(dim.clone(), canonical.clone());
        canonical
    }

    fn settled(&self, dim: &Dim, memo: &mut Memo) -> Option<Dim> {
        let mut revealed = |dim: &Dim| self.reveal(&self.normal(dim, memo));
        let mut current = revealed(dim);
        for _ in 0..MAX_CANONICAL_ROUNDS {
            let next = revealed(&current);
            if next == current {
                return current.defect().is_none().then_some(current);
            }
            current = next;
        }
        None
    }

    fn equal(&self, a: &Dim, b: &Dim, memo: &mut Memo) -> bool {
        let pair = (a.clone(), b.clone());
        if let Some(&known) = memo.equal.get(&pair) {
            return known;
        }
        let is_equal = self.is_equal(a, b, memo);
        memo.equal.insert(pair, is_equal);
        is_equal
    }

    fn is_equal(&self, a: &Dim, b: &Dim, memo: &mut Memo) -> bool {
        let (x, y) = (self.normal(a, memo), self.normal(b, memo));
        if let (Some(x), Some(y)) = (x.as_const(), y.as_const()) {
            return x == y;
        }
        // With the hidden symbols put back, further quotients and remainders simplify. A quotient
        // rounds down, so a difference may simplify in only one of its two directions.
        x == y
            || [[&x, &y], [&y, &x]].into_iter().any(|[x, y]| self.normal(&(x - y), memo).is_const(0))
            || [[a, b], [b, a]].into_iter().any(|[a, b]| self.canonical(&(a - b), memo).is_const(0))
    }

    fn likely_values(&self, dim: &Dim, memo: &mut Memo) -> Vec<i64> {
        let normal = self.normal(dim, memo);
        if let Some(value) = normal.as_const() {
            return vec![value];
        }
        let range = Range::from(self.interval(&normal, memo));
        let (part, scale, constant) = normal.affine_part();
        let values = match self.likely.get(&part) {
            Some(values) => {
                let whole = |value: &i64| value.checked_mul(scale)?.checked_add(constant);
                values.iter().filter_map(whole).collect()
            }
            None => self.likely_combinations(&normal),
        };
        let mut distinct = Vec::new();
        for value in values {
            if range.contains(value) && !distinct.contains(&value) {
                distinct.push(value);
            }
        }
        distinct
    }

    /// Returns the values for all combinations of likely values of its symbols; none if a symbol
    /// has none.
    fn likely_combinations(&self, dim: &Dim) -> Vec<i64> {
        let symbols = dim.symbols();
        let mut rows: Vec<Vec<i64>> = vec![Vec::new()];
        for symbol in &symbols {
            let Some(values) = self.likely.get(&Dim::symbol(symbol)) else { return Vec::new() };
            rows = rows.iter().flat_map(|row| values.iter().map(|value| [row.as_slice(), &[*value]].concat())).collect();
            rows.truncate(MAX_LIKELY);
        }
        let value = |row: &Vec<i64>| dim.eval(&|symbol| symbols.binary_search(symbol).ok().map(|i| row[i])).ok();
        rows.iter().filter_map(value).collect()
    }
}
