//! Computes the normal form of a dim under solved facts.
//!
//! Operands first; then replaced symbols, rules, and decisions by intervals: an expression with one
//! possible value is that value, a min or max loses the operands that never decide it, and
//! quotients by a nonzero dim are exact where they can be.

use super::Memo;
use super::system::{System, contains};
use crate::dim::arith::remove_factors;
use crate::dim::bounds;
use crate::dim::interval::{End, Interval};
use crate::dim::node::{Dim, Factors, Kind, MAX_DEPTH, Repr, Term};

/// Rewriting stops after this many rounds, in its present form. Only facts that keep rewriting each
/// other reach it.
const MAX_ROUNDS: usize = 16;
const MAX_REWRITES: usize = 256;
/// Largest growth of an intermediate form over the dim.
const MAX_GROWTH: usize = 8;
const MAX_NESTING: usize = 2 * MAX_DEPTH;
/// More operands of a min or max are not compared pair by pair.
const MAX_COMPARED: usize = 32;

impl System {
    pub(super) fn normal(&self, dim: &Dim, memo: &mut Memo) -> Dim {
        if matches!(dim.0, Repr::Const(_) | Repr::Invalid(_)) {
            return dim.clone();
        }
        if let Some(known) = memo.normal.get(dim) {
            return known.clone();
        }
        if memo.nesting == MAX_NESTING {
            return dim.clone();
        }
        memo.nesting += 1;
        let mut current = dim.clone();
        for _ in 0..MAX_ROUNDS {
            let next = self.step(&current, memo);
            if next.defect().is_some() || next == current || next.nodes() > MAX_GROWTH * (dim.nodes() + 8) {
                break;
            }
            current = next;
        }
        memo.nesting -= 1;
        memo.normal.insert(dim.clone(), current.clone());
        current
    }

    fn step(&self, dim: &Dim, memo: &mut Memo) -> Dim {
        if let Repr::Symbol(symbol) = &dim.0
            && let Some(replacement) = self.replaced.get(symbol)
        {
            return replacement.clone();
        }
        let rebuilt = dim.map_children(&mut |child| self.normal(child, memo));
        if rebuilt.defect().is_some() {
            return dim.clone();
        }
        self.simplify(&self.rewrite(rebuilt), memo)
    }

    /// `dim` with the rules applied until none applies.
    pub(super) fn rewrite(&self, mut dim: Dim) -> Dim {
        if self.rules.is_empty() {
            return dim;
        }
        for _ in 0..MAX_REWRITES {
            let terms = dim.to_terms();
            match self.rules.iter().find_map(|rule| rule.apply(&dim, &terms)) {
                Some(rewritten) => dim = rewritten,
                None => break,
            }
        }
        dim
    }

    /// The interval of a dim in normal form.
    pub(super) fn interval(&self, dim: &Dim, memo: &mut Memo) -> Interval {
        if let Some(value) = dim.as_const() {
            return Interval::point(value.into());
        }
        if let Some(known) = memo.intervals.get(dim) {
            return *known;
        }
        let interval = bounds::interval(dim, &self.bounds);
        memo.intervals.insert(dim.clone(), interval);
        interval
    }

    fn simplify(&self, dim: &Dim, memo: &mut Memo) -> Dim {
        if let Some(value) = self.interval(dim, memo).single().and_then(|value| i64::try_from(value).ok()) {
            return Dim::constant(value);
        }
        match dim.kind() {
            Some(Kind::FloorDiv(a, b)) => self.simplify_quotient(a, b, memo),
            Some(Kind::Mod(a, b)) => self.simplify_remainder(a, b, memo),
            Some(Kind::Min(dims)) => self.undominated(dims, true, memo),
            Some(Kind::Max(dims)) => self.undominated(dims, false, memo),
            _ => None,
        }
        .unwrap_or_else(|| dim.clone())
    }

    /// Returns true if `a - b` is never below `margin`, for dims in normal form.
    pub(super) fn at_least(&self, a: &Dim, b: &Dim, margin: i128, memo: &mut Memo) -> bool {
        let difference = a - b;
        difference.defect().is_none() && self.interval(&difference, memo).lo >= End::At(margin)
    }

    /// Returns true if a dim in normal form is never 0.
    pub(super) fn nonzero(&self, dim: &Dim, memo: &mut Memo) -> bool {
        if dim.defect().is_some() {
            return false;
        }
        if !self.interval(dim, memo).contains(0) {
            return true;
        }
        // A lone factor is its own content.
        if dim.sum_terms().is_none() {
            return false;
        }
        let (content, primitive) = dim.content();
        !content.factors.is_empty()
            && content.factors.iter().all(|(factor, _)| self.nonzero(factor, memo))
            && !self.interval(&primitive, memo).contains(0)
    }

    fn simplify_quotient(&self, a: &Dim, b: &Dim, memo: &mut Memo) -> Option<Dim> {
        if self.at_least(a, &Dim::constant(0), 0, memo) && self.at_least(b, a, 1, memo) {
            return Some(Dim::constant(0));
        }
        if let Some(by) = b.as_const() {
            return self.quotient_by(a, by, memo);
        }
        if self.nonzero(b, memo)
            && let Some((quotient, rest)) = divide(a, b)
        {
            return Some(quotient.plus(&rest.floor_div(b)));
        }
        let mut shared = shared_factors(a, b);
        shared.retain(|(factor, _)| self.nonzero(factor, memo));
        (!shared.is_empty()).then(|| without_factors(a, &shared).floor_div(&without_factors(b, &shared)))
    }

    /// Returns `a / by`, if `a` is a multiple of `by` plus a smaller rest: `(x + 1)/2` is `x` if
    /// `x` is 0 or 1. The coefficients of `a` are nonnegative, which hides that.
    fn quotient_by(&self, a: &Dim, by: i64, memo: &mut Memo) -> Option<Dim> {
        // The least of all integers has no positive counterpart.
        let by = Some(by).filter(|&by| by > 0)?;
        let terms = a.to_terms().into_iter().filter(|term| !term.factors.is_empty());
        let mut factors = terms.map(|term| Dim::from_terms(vec![Term { coefficient: 1, factors: term.factors }]));
        factors.find(|factor| {
            let rest = a.plus_scaled(-by, factor);
            self.at_least(&rest, &Dim::constant(0), 0, memo) && self.at_least(&Dim::constant(by), &rest, 1, memo)
        })
    }

    fn simplify_remainder(&self, a: &Dim, b: &Dim, memo: &mut Memo) -> Option<Dim> {
        if self.at_least(a, &Dim::constant(0), 0, memo) && self.at_least(b, a, 1, memo) {
            return Some(a.clone());
        }
        // If the divisor is 0, both sides of the following are 0.
        if let Some((_, rest)) = divide(a, b) {
            return Some(rest.modulo(b));
        }
        let shared = shared_factors(a, b);
        (!shared.is_empty()).then(|| {
            let factor = Dim::from_terms(vec![Term { coefficient: 1, factors: shared.clone() }]);
            factor.times(&without_factors(a, &shared).modulo(&without_factors(b, &shared)))
        })
    }

    /// Returns the min or max of the operands that can decide it; `None` if all can.
    fn undominated(&self, dims: &[Dim], is_min: bool, memo: &mut Memo) -> Option<Dim> {
        if dims.len() > MAX_COMPARED {
            return None;
        }
        let mut kept: Vec<Dim> = Vec::new();
        for dim in dims {
            let mut beats = |a: &Dim, b: &Dim| if is_min { self.at_least(b, a, 0, memo) } else { self.at_least(a, b, 0, memo) };
            if kept.iter().any(|other| beats(other, dim)) {
                continue;
            }
            kept.retain(|other| !beats(dim, other));
            kept.push(dim.clone());
        }
        if kept.len() == dims.len() {
            return None;
        }
        if is_min { Dim::min_of(kept) } else { Dim::max_of(kept) }
    }
}

/// `(quotient, rest)` with `a == b * quotient + rest` and a quotient that is not 0.
fn divide(a: &Dim, b: &Dim) -> Option<(Dim, Dim)> {
    let by = b.to_terms();
    if let [by] = by.as_slice() {
        let whole = |term: &Term| term.coefficient.checked_rem(by.coefficient) == Some(0) && contains(&term.factors, &by.factors);
        let (whole, rest): (Vec<Term>, Vec<Term>) = a.to_terms().into_iter().partition(whole);
        let quotient = Dim::sum(whole.into_iter().map(|mut term| {
            remove_factors(&mut term.factors, &by.factors);
            // The quotient of i64::MIN by -1 is the one that does not fit.
            Dim::from_terms(vec![Term { coefficient: term.coefficient.checked_div(by.coefficient).unwrap_or(0), ..term }])
        }));
        let rest = Dim::from_terms(rest);
        return (!quotient.is_const(0) && quotient.times(b).plus(&rest) == *a).then_some((quotient, rest));
    }
    let ((above, x), (below, y)) = (a.content(), b.content());
    let scale = above.coefficient.checked_div(below.coefficient)?;
    if x != y || scale == 0 || !contains(&above.factors, &below.factors) {
        return None;
    }
    let mut factors = above.factors;
    remove_factors(&mut factors, &below.factors);
    let quotient = Dim::from_terms(vec![Term { coefficient: scale, factors }]);
    let rest = a.minus(&quotient.times(b));
    rest.defect().is_none().then_some((quotient, rest))
}

/// The factors that all terms of both have.
fn shared_factors(a: &Dim, b: &Dim) -> Factors {
    let (mut shared, other) = (a.content().0.factors, b.content().0.factors);
    shared.retain(|(dim, power)| {
        *power = (*power).min(other.iter().find(|(factor, _)| factor == dim).map_or(0, |(_, power)| *power));
        *power > 0
    });
    shared
}

fn without_factors(dim: &Dim, shared: &Factors) -> Dim {
    Dim::sum(dim.to_terms().into_iter().map(|mut term| {
        remove_factors(&mut term.factors, shared);
        Dim::from_terms(vec![term])
    }))
}
