//! Bounds an expression by an interval, given the intervals of its parts.
//!
//! It does more than interval arithmetic term by term: a quotient `x/c` in a sum is bounded by `x`
//! itself (`S - S/2` is not negative), a min or max in a sum is one of its operands, a common
//! factor is taken out (`B*S - S` is `S*(B-1)`), and known bounds of a sum are used for sums that
//! contain it. All of it is sound for all integers within the known intervals.

use std::cell::RefCell;
use std::collections::HashMap;

use super::arith::Sum;
use super::interval::{End, Interval};
use super::node::{Dim, Factors, Kind, Repr, Term};
use super::remainder::split_remainders;

/// The known bounds of parts of expressions.
pub(super) trait KnownBounds {
    /// Returns the interval of a part: a symbol, or an expression without constant term and common
    /// factor.
    fn of(&self, part: &Dim) -> Interval;
    /// Returns the bounded parts with several terms whose first term has these factors.
    fn sums_led_by(&self, lead: &Factors) -> &[Dim];
    /// Returns true if there are such parts.
    fn has_sums(&self) -> bool;
}

/// Most eliminations that may follow each other.
const EFFORT: u32 = 3;
/// More operands of a min or max, or more known sums, are not tried one by one.
const MAX_CASES: usize = 8;
/// Larger sums are bounded term by term only.
const MAX_TERMS: usize = 64;

/// Smaller expressions are bounded again at each occurrence.
const MIN_NOTED: usize = 16;

/// An interval that holds every value of `dim`.
pub(super) fn interval(dim: &Dim, known: &dyn KnownBounds) -> Interval {
    bound(dim, &Known { bounds: known, noted: RefCell::default() }, EFFORT)
}

/// The known bounds, and a memo of this question: a part that occurs several times in each of
/// several parts, as in sizes after layers, is bounded once.
struct Known<'k> {
    bounds: &'k dyn KnownBounds,
    noted: RefCell<HashMap<(Dim, u32), Interval>>,
}

impl Known<'_> {
    fn of(&self, part: &Dim) -> Interval {
        self.bounds.of(part)
    }

    fn sums_led_by(&self, lead: &Factors) -> &[Dim] {
        self.bounds.sums_led_by(lead)
    }
}

fn bound(dim: &Dim, known: &Known, effort: u32) -> Interval {
    if dim.nodes() < MIN_NOTED {
        return bound_anew(dim, known, effort);
    }
    let key = (dim.clone(), effort);
    if let Some(&noted) = known.noted.borrow().get(&key) {
        return noted;
    }
    let found = bound_anew(dim, known, effort);
    known.noted.borrow_mut().insert(key, found);
    found
}

fn bound_anew(dim: &Dim, known: &Known, effort: u32) -> Interval {
    match (&dim.0, dim.kind()) {
        (Repr::Const(value), _) => Interval::point((*value).into()),
        (Repr::Invalid(_), _) => Interval::ALL,
        (_, None) => known.of(dim),
        (_, Some(Kind::Sum(terms))) => {
            let direct = bound_terms(dim, known, effort).intersect(bound_known(dim, known));
            if effort == 0 { direct } else { refine(dim, terms, direct, known, effort - 1) }
        }
        (_, Some(kind)) => bound_operation(kind, known, effort).intersect(known.of(dim)),
    }
}

fn bound_operation(kind: &Kind, known: &Known, effort: u32) -> Interval {
    let all = |dims: &[Dim], pick: fn(Interval, Interval) -> Interval| {
        dims.iter().map(|dim| bound(dim, known, effort)).reduce(pick).unwrap_or(Interval::ALL)
    };
    match kind {
        Kind::FloorDiv(a, b) => bound(a, known, effort).floor_div(bound(b, known, effort)),
        Kind::Mod(a, b) => bound(a, known, effort).modulo(bound(b, known, effort)),
        Kind::Min(dims) => all(dims, Interval::minimum),
        Kind::Max(dims) => all(dims, Interval::maximum),
        Kind::Sum(_) => Interval::ALL,
    }
}

/// Bounds term by term, with remainders recognised.
fn bound_terms(dim: &Dim, known: &Known, effort: u32) -> Interval {
    let (remainders, rest) = split_remainders(dim);
    let mut sum = Interval::point(0);
    for remainder in &remainders {
        let dividend = bound(&remainder.dividend, known, effort.saturating_sub(1));
        let value = dividend.modulo(Interval::point(remainder.divisor.into()));
        sum = sum.plus(value.times(bound_term(&remainder.scale, known, effort)));
    }
    rest.to_terms().iter().fold(sum, |sum, term| sum.plus(bound_term(term, known, effort)))
}

fn bound_term(term: &Term, known: &Known, effort: u32) -> Interval {
    let factors = term.factors.iter().map(|(factor, power)| bound(factor, known, effort).power(*power));
    let product = factors.fold(Interval::point(1), Interval::times);
    let part = match term.factors.as_slice() {
        [_, _, ..] | [(_, 2..)] => known.of(&Dim::from_terms(vec![Term { coefficient: 1, factors: term.factors.clone() }])),
        _ => Interval::ALL,
    };
    product.intersect(part).scaled(term.coefficient)
}

/// Returns the known interval of exactly this sum, up to a constant and a constant factor.
fn bound_known(dim: &Dim, known: &Known) -> Interval {
    let (part, scale, constant) = dim.affine_part();
    known.of(&part).scaled(scale).plus(Interval::point(constant.into()))
}

impl Dim {
    /// `(part, scale, constant)` with `self == scale * part + constant`, the coefficients of the
    /// part having no common factor and the first one being positive.
    pub(super) fn affine_part(&self) -> (Dim, i64, i64) {
        let (variable, constant) = self.split_constant();
        let (content, _) = variable.content();
        let scale = content.coefficient;
        let divided = variable
            .to_terms()
            .into_iter()
            .map(|term| Some(Term { coefficient: term.coefficient.checked_div(scale)?, factors: term.factors }));
        match divided.collect::<Option<Vec<Term>>>() {
            Some(terms) => (Dim::from_terms(terms), scale, constant),
            None => (variable, 1, constant),
        }
    }
}

fn refine(dim: &Dim, terms: &[Term], direct: Interval, known: &Known, effort: u32) -> Interval {
    let mut interval = direct;
    if (2..=MAX_TERMS).contains(&terms.len()) && direct.lo != direct.hi {
        if let Some(factored) = bound_factored(dim, known, effort) {
            interval = interval.intersect(factored);
        }
        if let Some(without) = terms.iter().find_map(|term| without_quotient(dim, term, &|sum| bound(sum, known, effort))) {
            interval = interval.intersect(without);
        }
        // The dividend of one of the other quotients may be a sum with known bounds.
        if known.bounds.has_sums() {
            let stated = |term| without_quotient(dim, term, &|sum| bound_known(sum, known));
            interval = terms.iter().filter_map(stated).fold(interval, Interval::intersect);
        }
        if let Some(cases) = terms.iter().find_map(|term| bound_by_cases(dim, term, known, effort)) {
            interval = interval.intersect(cases);
        }
        let related = terms.iter().flat_map(|term| known.sums_led_by(&term.factors));
        for sum in related.take(MAX_CASES) {
            if let Some(using) = bound_using(dim, terms, sum, known, effort) {
                interval = interval.intersect(using);
            }
        }
    }
    interval
}

/// A common factor taken out.
fn bound_factored(dim: &Dim, known: &Known, effort: u32) -> Option<Interval> {
    let (content, primitive) = dim.content();
    (!content.factors.is_empty()).then(|| bound_term(&content, known, effort).times(bound(&primitive, known, effort)))
}

/// Eliminates the quotient: `dim` is `rest + k*(x/c)`, and `x - c + 1 <= c*(x/c) <= x`, so `c*dim`
/// is between `c*rest + k*x` and the same with `x - c + 1`, which `bound` bounds.
fn without_quotient(dim: &Dim, term: &Term, bound: &dyn Fn(&Dim) -> Interval) -> Option<Interval> {
    let [(factor, 1)] = term.factors.as_slice() else { return None };
    let Some(Kind::FloorDiv(numerator, divisor)) = factor.kind() else { return None };
    let divisor = divisor.as_const().filter(|c| *c > 1)?;
    let scaled = |shift: i64| {
        let mut sum = Sum::default();
        sum.add(divisor.into(), dim);
        sum.add(-i128::from(divisor) * i128::from(term.coefficient), factor);
        sum.add(term.coefficient.into(), &numerator.plus(&Dim::constant(-shift)));
        let sum = sum.finish();
        sum.defect().is_none().then(|| bound(&sum))
    };
    let (exact, short) = (scaled(0)?, scaled(divisor - 1)?);
    let (low, high) = if term.coefficient > 0 { (short, exact) } else { (exact, short) };
    let by = Interval::point(divisor.into());
    // The low end is rounded up, the high end down.
    let lo = low.negated().floor_div(by).negated().lo;
    Some(Interval::new(lo, high.floor_div(by).hi))
}

/// Bounds by cases: `dim` is `rest + k*min(a, b)`, so it is `rest + k*a` or `rest + k*b`, whichever
/// is smaller (larger for a negative `k`).
fn bound_by_cases(dim: &Dim, term: &Term, known: &Known, effort: u32) -> Option<Interval> {
    let [(factor, 1)] = term.factors.as_slice() else { return None };
    let (operands, is_min) = match factor.kind()? {
        Kind::Min(dims) => (dims, true),
        Kind::Max(dims) => (dims, false),
        _ => return None,
    };
    if operands.len() > MAX_CASES {
        return None;
    }
    let pick = if is_min == (term.coefficient > 0) { Interval::minimum } else { Interval::maximum };
    let cases = operands.iter().map(|operand| {
        let mut sum = Sum::default();
        sum.add(1, dim);
        sum.add(-i128::from(term.coefficient), factor);
        sum.add(term.coefficient.into(), operand);
        bound(&sum.finish(), known, effort)
    });
    cases.reduce(pick)
}

/// `dim` is `k*sum + rest` for a sum with known bounds.
fn bound_using(dim: &Dim, terms: &[Term], sum: &Dim, known: &Known, effort: u32) -> Option<Interval> {
    let first = sum.sum_terms()?.first()?;
    let here = terms.iter().find(|term| term.factors == first.factors)?;
    let scale = here.coefficient.checked_div(first.coefficient).filter(|scale| *scale != 0)?;
    let rest = dim.plus_scaled(scale.checked_neg()?, sum);
    if rest.defect().is_some() || rest.to_terms().len() >= terms.len() {
        return None;
    }
    Some(known.of(sum).scaled(scale).plus(bound(&rest, known, effort)))
}

/// Returns the interval of `part` for which `scale * part + constant` is in `interval`.
pub(super) fn solve_affine(interval: Interval, scale: i64, constant: i64) -> Interval {
    let shifted = interval.plus(Interval::point(constant.into()).negated());
    let (shifted, scale) = if scale < 0 { (shifted.negated(), i128::from(scale).abs()) } else { (shifted, scale.into()) };
    let by = Interval::point(scale.max(1));
    let lo = if shifted.lo == End::Below { End::Below } else { shifted.negated().floor_div(by).negated().lo };
    let hi = if shifted.hi == End::Above { End::Above } else { shifted.floor_div(by).hi };
    Interval::new(lo, hi)
}
