//! Decides which of two dims is never less than the other if their difference is periodic.
//!
//! `2*((S+1)/2) - S + 1` is `2 - (S+1)%2`: no size grows in it, and it is 1 or 2 for every integer.
//! Padding "as TensorFlow does it" is the larger of 0 and such a sum.
//!
//! A quotient `(a*u + b)/c` is a line of slope `a/c` over the *form* `u` (a sum of symbols and
//! other factors) plus a periodic remainder. The lines of a dim are its drift. Two dims with the
//! same drift differ by remainders and a constant, whose minimum is searched over each form's
//! period; the forms are treated as independent, like symbols.
//!
//! Invariants:
//! - A proved relation holds for all integers.
//! - The answer is exact for independent forms. So it is transitive, on which the one form of a
//!   minimum relies: the operands that remain do not depend on the order in which they came.

use super::arith::{Sum, gcd};
use super::division::floor_div;
use super::node::{Dim, Kind, Term};
use super::symbol::Symbol;

/// Divisors of this number are examined: strides and patches of images, and the windows of both
/// together. They have a common multiple, so differences of differences are examined too.
const PERIODS: i64 = 128 * 9 * 5 * 7;

/// Returns true if `dim` contains a periodic quotient; without one, no two operands of a minimum
/// have the same drift.
pub(super) fn repeats(dim: &Dim) -> bool {
    match dim.sum_terms() {
        Some(terms) => terms.iter().any(|term| matches!(term.factors.as_slice(), [(factor, 1)] if quotient(factor).is_some())),
        None => quotient(dim).is_some(),
    }
}

/// Returns the growing part of `dim`, times a constant; equal for two dims exactly if `never_less`
/// may compare them. `None` if it is not representable.
pub(super) fn drift(dim: &Dim) -> Option<Dim> {
    let mut lines = Sum::default();
    for term in dim.to_terms().into_iter().filter(|term| !term.factors.is_empty()) {
        match Step::of(&term) {
            Some(step) => lines.add(step.slope(), &step.form),
            None => lines.add(PERIODS.into(), &Dim::from_terms(vec![term])),
        }
    }
    let lines = lines.finish();
    lines.defect().is_none().then_some(lines)
}

/// Returns the factor that alone grows, with slope 1, in a dim with this drift.
pub(super) fn lone_drift(drift: &Dim) -> Option<Dim> {
    match drift.sum_terms()? {
        [Term { coefficient: PERIODS, factors }] => match factors.as_slice() {
            [(factor, 1)] => Some(factor.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Returns true if `a` is never less than `b`, for dims with the same drift.
pub(super) fn never_less(a: &Dim, b: &Dim) -> bool {
    let difference = a.minus(b);
    difference.defect().is_none() && ends(&difference).0 >= 0
}

/// Returns the minimum and the maximum of a dim without drift.
pub(super) fn bounds(dim: &Dim) -> Option<(i64, i64)> {
    if dim.defect().is_some() {
        return None;
    }
    let (least, most) = ends(dim);
    let periods = i128::from(PERIODS);
    // The low end is rounded up, the high end down: the value is an integer.
    Some((i64::try_from(-floor_div(-least, periods)).ok()?, i64::try_from(floor_div(most, periods)).ok()?))
}

/// Returns after how many steps of `symbol`, its only one, a dim without drift repeats; `None` if
/// it has quotients of other forms.
pub(super) fn period(dim: &Dim, symbol: &Symbol) -> Option<i64> {
    let terms = dim.to_terms();
    let quotients = terms.iter().filter(|term| repeats(&Dim::from_terms(vec![(*term).clone()])));
    let steps: Vec<Step> = quotients.map(Step::of).collect::<Option<_>>()?;
    steps.iter().all(|step| step.form.as_symbol() == Some(symbol)).then(|| common_period(&steps))
}

/// Returns [`PERIODS`] times the minimum and the maximum of a dim without drift, for independent
/// forms. Terms that are no quotients cancel out.
fn ends(dim: &Dim) -> (i128, i128) {
    let terms = dim.to_terms();
    let constant = terms.last().filter(|term| term.factors.is_empty()).map_or(0, |term| i128::from(term.coefficient));
    let mut forms: Vec<(Dim, Vec<Step>)> = Vec::new();
    for step in terms.iter().filter_map(Step::of) {
        match forms.iter_mut().find(|(form, _)| *form == step.form) {
            Some((_, steps)) => steps.push(step),
            None => forms.push((step.form.clone(), vec![step])),
        }
    }
    let constant = i128::from(PERIODS) * constant;
    forms.iter().map(|(_, steps)| rests(steps)).fold((constant, constant), |(a, b), (least, most)| (a + least, b + most))
}

/// `times * ((scale*form + offset) / divisor)`, the divisor being one of [`PERIODS`].
struct Step {
    times: i64,
    form: Dim,
    scale: i64,
    offset: i64,
    divisor: i64,
}

impl Step {
    fn of(term: &Term) -> Option<Step> {
        let [(factor, 1)] = term.factors.as_slice() else { return None };
        let (numerator, divisor) = quotient(factor)?;
        let (form, scale, offset) = numerator.affine_part();
        // The canonical form has both in `0..divisor`.
        let small = 0..divisor;
        let times = term.coefficient;
        (small.contains(&scale) && small.contains(&offset)).then_some(Step { times, form, scale, offset, divisor })
    }

    /// Returns [`PERIODS`] times the growth per step of its form.
    fn slope(&self) -> i128 {
        i128::from(self.times) * i128::from(self.scale) * i128::from(PERIODS / self.divisor)
    }

    /// Returns [`PERIODS`] times the remainder part at a place of the form.
    fn rest_at(&self, place: i64) -> i128 {
        let quotient = (self.scale * place + self.offset).div_euclid(self.divisor);
        i128::from(self.times) * i128::from(PERIODS) * i128::from(quotient) - self.slope() * i128::from(place)
    }
}

/// Returns `(x, c)` for `x/c`, if its period is examined.
fn quotient(factor: &Dim) -> Option<(&Dim, i64)> {
    match factor.kind()? {
        Kind::FloorDiv(numerator, divisor) => Some((numerator, divisor.as_const().filter(|c| *c > 1 && PERIODS % c == 0)?)),
        _ => None,
    }
}

/// Returns [`PERIODS`] times the least and the largest sum of the remainder parts of steps over one
/// form.
fn rests(steps: &[Step]) -> (i128, i128) {
    let rests = (0..common_period(steps)).map(|place| steps.iter().map(|step| step.rest_at(place)).sum::<i128>());
    rests.fold((i128::MAX, i128::MIN), |(least, most), rest| (least.min(rest), most.max(rest)))
}

/// Returns the least common multiple of the divisors.
fn common_period(steps: &[Step]) -> i64 {
    steps.iter().fold(1, |period, step| period / gcd(period.unsigned_abs(), step.divisor.unsigned_abs()) as i64 * step.divisor)
}
