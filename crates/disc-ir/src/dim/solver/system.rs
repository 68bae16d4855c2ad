//! Holds the solved facts that the normal form is computed from.
//!
//! Invariants: the replacement of a symbol holds no replaced symbol; a rule's left side is larger
//! than every term of its right side (first by the degrees in deep factors, then in the order of
//! terms), so that rewriting ends.

use std::collections::{BTreeMap, HashMap};

use crate::dim::Symbol;
use crate::dim::arith::remove_factors;
use crate::dim::bounds::{KnownBounds, solve_affine};
use crate::dim::interval::Interval;
use crate::dim::node::{Dim, Factors, Kind, Repr, Term};

#[derive(Default, Debug)]
pub(super) struct System {
    /// Solved equalities.
    pub(super) replaced: BTreeMap<Symbol, Dim>,
    /// Equalities that are solved for no symbol.
    pub(super) rules: Vec<Rule>,
    /// Hidden symbols `q` with `dim = by * q`, for one or more dims.
    pub(super) quotients: BTreeMap<Symbol, Vec<Quotient>>,
    pub(super) bounds: BoundTable,
    /// The ranges as the facts state them, of dims that are not in normal form.
    pub(super) stated: BoundTable,
    /// Likely values of parts (dims without constant term and constant factor).
    pub(super) likely: HashMap<Dim, Vec<i64>>,
    pub(super) contradiction: Option<String>,
}

/// `dim / by`, which is exact.
#[derive(Debug, Clone)]
pub(super) struct Quotient {
    pub(super) dim: Dim,
    pub(super) by: i64,
}

/// `coefficient * factors` is `rest`.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) coefficient: i64,
    pub(super) factors: Factors,
    pub(super) rest: Dim,
}

impl Rule {
    /// Makes the rule of `equation == 0`; `None` if it has no usable form.
    pub(super) fn from_equation(equation: &Dim) -> Option<Rule> {
        let terms = equation.to_terms();
        // The first of equals, which is the largest in the order of terms.
        let lead = terms.iter().rev().max_by_key(|term| degrees_by_depth(term))?;
        let sign = if lead.coefficient < 0 { 1 } else { -1 };
        let others = terms.iter().filter(|term| *term != lead).cloned().collect();
        let rest = Dim::constant(0).plus_scaled(sign, &Dim::from_terms(others));
        let coefficient = lead.coefficient.checked_abs()?;
        (!lead.factors.is_empty() && rest.defect().is_none()).then(|| Rule { coefficient, factors: lead.factors.clone(), rest })
    }

    /// The left side.
    pub(super) fn lead(&self) -> Dim {
        Dim::from_terms(vec![Term { coefficient: self.coefficient, factors: self.factors.clone() }])
    }

    /// Rewrites one of `terms`, the terms of `dim`; `None` if the rule does not apply.
    pub(super) fn apply(&self, dim: &Dim, terms: &[Term]) -> Option<Dim> {
        let (term, times) = terms.iter().find_map(|term| {
            let times = term.coefficient.div_euclid(self.coefficient);
            (times != 0 && contains(&term.factors, &self.factors)).then_some((term, times))
        })?;
        let mut others = term.factors.clone();
        remove_factors(&mut others, &self.factors);
        let others = Dim::from_terms(vec![Term { coefficient: 1, factors: others }]);
        let change = others.times(&self.rest.minus(&self.lead()));
        let rewritten = dim.plus_scaled(times, &change);
        (rewritten.defect().is_none()).then_some(rewritten)
    }
}

/// The degree of a term in its factors of each depth, the deepest first. A rule replaces a term
/// with high degrees in deep factors, so that its right side can never hold the left side as a
/// part: `A == A % B` rewrites `A % B`, not `A`.
fn degrees_by_depth(term: &Term) -> Vec<(usize, u32)> {
    let mut degrees = std::collections::BTreeMap::<usize, u32>::new();
    for (factor, power) in &term.factors {
        let degree = degrees.entry(factor.depth()).or_default();
        *degree = degree.saturating_add(*power);
    }
    degrees.into_iter().rev().collect()
}

pub(super) fn contains(factors: &[(Dim, u32)], part: &[(Dim, u32)]) -> bool {
    part.iter().all(|(dim, power)| factors.iter().any(|(factor, more)| factor == dim && more >= power))
}

/// The intervals of parts.
#[derive(Default, Debug)]
pub(super) struct BoundTable {
    parts: HashMap<Dim, Interval>,
    /// Parts with several terms, by the factors of the first term.
    sums: HashMap<Factors, Vec<Dim>>,
}

impl BoundTable {
    /// Narrows the interval of `dim`. Returns true if it changed; an empty interval is recorded as
    /// any other.
    pub(super) fn narrow(&mut self, dim: &Dim, interval: Interval) -> bool {
        if dim.as_const().is_some() || dim.defect().is_some() {
            return false;
        }
        let (part, scale, constant) = dim.affine_part();
        let known = self.parts.entry(part.clone()).or_insert(Interval::ALL);
        let narrowed = known.intersect(solve_affine(interval, scale, constant));
        let news = narrowed != *known;
        *known = narrowed;
        if news && let Some([first, _, ..]) = part.sum_terms() {
            let same_lead = self.sums.entry(first.factors.clone()).or_default();
            if !same_lead.contains(&part) {
                same_lead.push(part);
            }
        }
        news
    }
}

impl BoundTable {
    /// Returns the recorded interval of exactly this dim, up to a constant and a constant factor.
    pub(super) fn stated(&self, dim: &Dim) -> Interval {
        if self.parts.is_empty() {
            return Interval::ALL;
        }
        let (part, scale, constant) = dim.affine_part();
        let known = self.parts.get(&part).copied().unwrap_or(Interval::ALL);
        known.scaled(scale).plus(Interval::point(constant.into()))
    }
}

impl KnownBounds for BoundTable {
    fn of(&self, part: &Dim) -> Interval {
        let known = self.parts.get(part).copied().unwrap_or(Interval::ALL);
        match &part.0 {
            Repr::Symbol(symbol) if !is_hidden(symbol) => known.intersect(Interval::NOT_NEGATIVE),
            _ => known,
        }
    }

    fn sums_led_by(&self, lead: &Factors) -> &[Dim] {
        self.sums.get(lead).map_or(&[], Vec::as_slice)
    }

    fn has_sums(&self) -> bool {
        !self.sums.is_empty()
    }
}

/// Hidden symbols come after all others in the order of names, so that terms with them do not lead.
pub(super) fn hidden(index: usize) -> Symbol {
    Symbol::hidden(index)
}

pub(super) fn is_hidden(symbol: &Symbol) -> bool {
    symbol.name().starts_with('~')
}

impl System {
    /// Returns `dim` with the hidden symbols put back as quotients, or as the dim itself if the
    /// divisor is in the coefficient.
    pub(super) fn reveal(&self, dim: &Dim) -> Dim {
        let mut any = false;
        dim.visit_symbols(&mut |symbol| any |= is_hidden(symbol));
        if !any {
            return dim.clone();
        }
        match (&dim.0, dim.kind()) {
            (Repr::Symbol(symbol), _) => self.quotients.get(symbol).map_or_else(|| dim.clone(), |quotients| quotients[0].value()),
            (_, Some(Kind::Sum(terms))) => Dim::sum(terms.iter().map(|term| self.reveal_term(term))),
            _ => dim.map_children(&mut |child| self.reveal(child)),
        }
    }

    fn reveal_term(&self, term: &Term) -> Dim {
        let mut coefficient = term.coefficient;
        let mut factors = Vec::new();
        for (factor, power) in &term.factors {
            let quotients = factor.as_symbol().and_then(|symbol| self.quotients.get(symbol)).map_or(&[][..], Vec::as_slice);
            for _ in 0..*power {
                factors.push(match quotients.iter().find(|quotient| coefficient % quotient.by == 0) {
                    Some(quotient) => {
                        coefficient /= quotient.by;
                        quotient.dim.clone()
                    }
                    None => self.reveal(factor),
                });
            }
        }
        Dim::product(std::iter::once(Dim::constant(coefficient)).chain(factors))
    }
}

impl Quotient {
    fn value(&self) -> Dim {
        self.dim.floor_div(&Dim::constant(self.by))
    }
}
