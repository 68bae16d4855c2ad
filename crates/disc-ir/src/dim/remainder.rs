//! Recognises remainders in a sum: `S - 8*(S/8) + B` is `S%8` and `B`, and `8*((S+7)/8) - S` is
//! `(-S)%8`.
//!
//! The canonical form holds no remainder by a constant (see `division`). Text and ranges need them,
//! so this file recovers them. It changes nothing: the parts always add up to the sum.

use super::arith::remove_factors;
use super::node::{Dim, Factors, Kind, Term};

/// `scale * (dividend % divisor)`, for a divisor > 1.
pub(super) struct Remainder {
    pub(super) scale: Term,
    pub(super) dividend: Dim,
    pub(super) divisor: i64,
}

impl Remainder {
    /// Returns the dim of this part.
    fn to_dim(&self) -> Dim {
        let scale = Dim::from_terms(vec![self.scale.clone()]);
        scale.times(&self.dividend.modulo(&Dim::constant(self.divisor)))
    }
}

/// Sums with more terms are not searched: the search is quadratic.
const MAX_TERMS: usize = 128;

/// Returns the remainders in `dim`, and the other terms.
pub(super) fn split_remainders(dim: &Dim) -> (Vec<Remainder>, Dim) {
    let mut rest = dim.clone();
    let mut found = Vec::new();
    let Some(terms) = dim.sum_terms().filter(|terms| (2..=MAX_TERMS).contains(&terms.len())) else { return (found, rest) };
    let inner_divisors: Vec<i64> = terms.iter().flat_map(|t| &t.factors).filter_map(|f| Some(quotient(&f.0)?.1)).collect();
    for term in terms.iter().filter(|term| term.factors.iter().all(|(factor, _)| factor.sum_terms().is_none())) {
        let candidates = term.factors.iter().filter(|(_, power)| *power == 1);
        for (factor, (numerator, divisor)) in candidates.filter_map(|(factor, _)| Some((factor, quotient(factor)?))) {
            // (x/a) % c has the quotient x/(a*c): try every a whose division is in the sum, and 1.
            let inner = inner_divisors.iter().copied().chain([1]).filter(|a| *a < divisor && divisor % *a == 0);
            let remainders = inner.filter_map(|a| candidate(term, factor, numerator, a, divisor / a));
            let remainders = remainders.chain(missing(term, factor, numerator, divisor));
            if let Some((remainder, left)) = remainders.into_iter().find_map(|r| taken_out(&rest, r)) {
                found.push(remainder);
                rest = left;
                break;
            }
        }
    }
    (found, rest)
}

/// `(x, c)` for `x/c` with a constant `c > 1`.
fn quotient(dim: &Dim) -> Option<(&Dim, i64)> {
    match dim.kind()? {
        Kind::FloorDiv(numerator, divisor) => Some((numerator, divisor.as_const().filter(|c| *c > 1)?)),
        _ => None,
    }
}

/// Returns the remainder whose quotient part would be `term`: `-scale * c * ((x/a)/c)`.
fn candidate(term: &Term, factor: &Dim, numerator: &Dim, inner: i64, divisor: i64) -> Option<Remainder> {
    if term.coefficient % divisor != 0 {
        return None;
    }
    let mut factors: Factors = term.factors.clone();
    remove_factors(&mut factors, &[(factor.clone(), 1)]);
    let scale = Term { coefficient: (term.coefficient / divisor).checked_neg()?, factors };
    Some(Remainder { scale, dividend: numerator.floor_div(&Dim::constant(inner)), divisor })
}

/// Returns the remainder `(-x) % c` for a `term` of `scale * c * ((x + c-1)/c)`.
fn missing(term: &Term, factor: &Dim, numerator: &Dim, divisor: i64) -> Option<Remainder> {
    let lacks = candidate(term, factor, numerator, 1, divisor)?;
    let scale = Term { coefficient: lacks.scale.coefficient.checked_neg()?, ..lacks.scale };
    Some(Remainder { scale, dividend: Dim::constant(divisor - 1).minus(numerator), divisor })
}

/// Returns the sum without the remainder, if all terms of the remainder are in the sum.
fn taken_out(sum: &Dim, remainder: Remainder) -> Option<(Remainder, Dim)> {
    let part = remainder.to_dim();
    let left = sum.minus(&part);
    let (before, removed, after) = (sum.to_terms().len(), part.to_terms().len(), left.to_terms().len());
    (removed >= 2 && left.defect().is_none() && after + removed == before).then_some((remainder, left))
}
