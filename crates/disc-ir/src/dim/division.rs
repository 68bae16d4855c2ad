//! Divides dims: floor division and remainder.
//!
//! `a / 0` and `a % 0` are 0; otherwise the quotient rounds down and the remainder has the sign of
//! the divisor. Every rewrite here holds for all integers. The ones that need a nonzero or
//! nonnegative operand are in the solver.
//!
//! Invariants of the canonical form, for a constant divisor `c`:
//! - `c` is positive (and not 1), the coefficients of the numerator are in `0..c` and have no
//!   common factor with it. If only one is not of a constant, it is at most `c/2`: `(6*x)/7` is
//!   `x - (x+6)/7`, so that `x + (7 - x%7)%7` is `7*((x+6)/7)`.
//! - A numerator holds no lone `x/a` any more: `(x/a + y)/c` is `(x + a*y)/(a*c)`.
//! - There is no remainder: `x % c` is `x - c*(x/c)`, so `8*(x/8) + x%8` is `x`, and
//!   `(x/4)%2*4 + x%4` is `x%8`.

use super::arith::{Sum, gcd};
use super::node::{Defect, Dim, Factors, Kind, Repr, Term};

impl Dim {
    /// Returns `self / divisor`, rounded down; 0 if the divisor is 0.
    pub fn floor_div(&self, divisor: &Dim) -> Dim {
        match (&self.0, &divisor.0) {
            (Repr::Invalid(_), _) | (Repr::Const(0), _) => self.clone(),
            (_, Repr::Invalid(_)) => divisor.clone(),
            (_, Repr::Const(0)) => Dim::constant(0),
            (Repr::Const(a), Repr::Const(c)) => match i64::try_from(floor_div(i128::from(*a), i128::from(*c))) {
                Ok(quotient) => Dim::constant(quotient),
                Err(_) => Dim(Repr::Invalid(Defect::Overflow)),
            },
            (_, Repr::Const(c)) if *c > 0 => floor_div_by_const(self, *c),
            (_, Repr::Const(c)) => match c.checked_neg() {
                Some(c) => floor_div_by_const(&self.negated(), c),
                None => Dim::from_kind(Kind::FloorDiv(self.clone(), divisor.clone())),
            },
            _ => {
                let (numerator, divisor) = reduced(self, divisor);
                if let Repr::Invalid(_) = numerator.0 {
                    return numerator;
                }
                Dim::from_kind(Kind::FloorDiv(numerator, divisor))
            }
        }
    }

    /// Returns `self / divisor`, rounded up; 0 if the divisor is 0.
    pub fn ceil_div(&self, divisor: &Dim) -> Dim {
        match divisor.as_const() {
            Some(c) if c > 0 => self.plus(&Dim::constant(c - 1)).floor_div(divisor),
            _ => self.negated().floor_div(divisor).negated(),
        }
    }

    /// Returns `self` modulo `divisor`: the remainder of [`Dim::floor_div`], with the sign of the
    /// divisor; 0 if the divisor is 0.
    pub fn modulo(&self, divisor: &Dim) -> Dim {
        match (&self.0, &divisor.0) {
            (Repr::Invalid(_), _) => self.clone(),
            (_, Repr::Invalid(_)) => divisor.clone(),
            (_, Repr::Const(0)) => Dim::constant(0),
            (Repr::Const(a), Repr::Const(c)) => {
                Dim::constant((i128::from(*a) - i128::from(*c) * floor_div(i128::from(*a), i128::from(*c))) as i64)
            }
            (_, Repr::Const(c)) => {
                let mut sum = Sum::default();
                sum.add(1, self);
                sum.add(-i128::from(*c), &self.floor_div(divisor));
                sum.finish()
            }
            _ => modulo_by_dim(self, divisor),
        }
    }
}

/// Floor division of numbers, for a nonzero divisor.
pub(super) fn floor_div(a: i128, b: i128) -> i128 {
    let quotient = a / b;
    if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
}

fn floor_div_by_const(numerator: &Dim, divisor: i64) -> Dim {
    if divisor == 1 || numerator.defect().is_some() {
        return numerator.clone();
    }
    let (quotient, rest) = split(numerator, divisor);
    let shared = rest.iter().filter(|t| !t.factors.is_empty()).map(|t| t.coefficient.unsigned_abs());
    let shared = shared.fold(divisor.unsigned_abs(), gcd) as i64;
    // (g*x + r)/(g*c) == (x + r/g)/c, because x + r/g is (g*x + r)/g rounded down.
    let rest = Dim::from_terms(divide_terms(rest, shared));
    let divisor = divisor / shared;
    if divisor == 1 {
        return quotient.plus(&rest);
    }
    if let Some((inner, outer)) = merge_inner_division(&rest, divisor) {
        return quotient.plus(&floor_div_by_const(&inner, outer));
    }
    if let Some((whole, missing)) = rounded_from_above(&rest, divisor) {
        return quotient.plus(&whole).minus(&floor_div_by_const(&missing, divisor));
    }
    quotient.plus(&Dim::from_kind(Kind::FloorDiv(rest, Dim::constant(divisor))))
}

/// `(quotient, rest)` with `dim == divisor * quotient + rest`, the coefficients of the rest being
/// in `0..divisor`.
fn split(dim: &Dim, divisor: i64) -> (Dim, Vec<Term>) {
    let mut quotient = Vec::new();
    let mut rest = Vec::new();
    for term in dim.to_terms() {
        let (whole, part) = (term.coefficient.div_euclid(divisor), term.coefficient.rem_euclid(divisor));
        if whole != 0 {
            quotient.push(Term { coefficient: whole, factors: term.factors.clone() });
        }
        if part != 0 {
            rest.push(Term { coefficient: part, factors: term.factors });
        }
    }
    (Dim::from_terms(quotient), rest)
}

/// Every coefficient (none negative) divided by `by`, rounded down.
fn divide_terms(terms: Vec<Term>, by: i64) -> Vec<Term> {
    let divided = terms.into_iter().map(|term| Term { coefficient: term.coefficient / by, factors: term.factors });
    divided.filter(|term| term.coefficient != 0).collect()
}

/// Merges divisions: `(x/a + y)/c` is `(x + a*y)/(a*c)` for positive constants, if the numerator
/// has exactly one such term `x/a`.
fn merge_inner_division(numerator: &Dim, divisor: i64) -> Option<(Dim, i64)> {
    let terms = numerator.to_terms();
    let mut divisions = terms.iter().filter_map(|term| Some((term, division_by_const(term)?)));
    let (term, (inner, inner_divisor)) = divisions.next()?;
    if divisions.next().is_some() {
        return None;
    }
    let outer = inner_divisor.checked_mul(divisor)?;
    let others = Dim::from_terms(terms.iter().filter(|other| *other != term).cloned().collect());
    let merged = inner.plus_scaled(inner_divisor, &others);
    merged.defect().is_none().then_some((merged, outer))
}

/// Returns `(x, y)` with `numerator/divisor == x - y/divisor`, where `numerator` is `k*x + r` with
/// `k > divisor/2`: `y` is `(divisor-k)*x - r + divisor-1`.
fn rounded_from_above(numerator: &Dim, divisor: i64) -> Option<(Dim, Dim)> {
    let terms = numerator.to_terms();
    let mut variable = terms.iter().filter(|term| !term.factors.is_empty());
    let (term, None) = (variable.next()?, variable.next()) else { return None };
    if term.coefficient <= divisor / 2 || term.coefficient >= divisor {
        return None;
    }
    let whole = Dim::from_terms(vec![Term { coefficient: 1, factors: term.factors.clone() }]);
    let missing = Dim::constant(divisor - 1).plus_scaled(divisor, &whole).minus(numerator);
    missing.defect().is_none().then_some((whole, missing))
}

/// Returns `(x, a)` if the term is exactly `x/a` for a positive constant `a`.
fn division_by_const(term: &Term) -> Option<(&Dim, i64)> {
    match (term.coefficient, term.factors.as_slice()) {
        (1, [(factor, 1)]) => match factor.kind()? {
            Kind::FloorDiv(inner, by) => by.as_const().filter(|by| *by > 0).map(|by| (inner, by)),
            _ => None,
        },
        _ => None,
    }
}

/// Both sides divided by their common constant factor, the first coefficient of the divisor made
/// positive.
fn reduced(numerator: &Dim, divisor: &Dim) -> (Dim, Dim) {
    let (mut above, mut below) = (numerator.to_terms(), divisor.to_terms());
    let shared = above.iter().chain(&below).fold(0, |g, term| gcd(g, term.coefficient.unsigned_abs()));
    let Ok(shared) = i64::try_from(shared) else { return (numerator.clone(), divisor.clone()) };
    let by = if below[0].coefficient < 0 { -shared } else { shared };
    for term in above.iter_mut().chain(&mut below) {
        match term.coefficient.checked_div(by) {
            Some(quotient) => term.coefficient = quotient,
            None => return (numerator.clone(), divisor.clone()),
        }
    }
    (Dim::from_terms(above), Dim::from_terms(below))
}

fn modulo_by_dim(numerator: &Dim, divisor: &Dim) -> Dim {
    let (above, below) = reduced(numerator, divisor);
    // The factor that `reduced` took from both sides: g*a % g*b == g*(a % b), also for a negative
    // g.
    let scale = match (divisor.to_terms().first(), below.to_terms().first()) {
        (Some(before), Some(after)) => before.coefficient / after.coefficient,
        _ => 1,
    };
    let simpler = without_multiples(&without_remainders(&above, &below), &below);
    let remainder = match simpler {
        simpler if simpler.is_const(0) || simpler.defect().is_some() => simpler,
        simpler if simpler != above => modulo_by_dim(&simpler, &below),
        _ => Dim::from_kind(Kind::Mod(above, below)),
    };
    Dim::constant(0).plus_scaled(scale, &remainder)
}

/// Drops terms that do not change `dim % divisor`: a dividend equal to the divisor, and, for a
/// divisor of one term, its multiples. This also holds for a divisor of 0, for which every
/// remainder is 0.
fn without_multiples(dim: &Dim, divisor: &Dim) -> Dim {
    if dim == divisor {
        return Dim::constant(0);
    }
    let by = divisor.to_terms();
    let [by] = by.as_slice() else { return dim.clone() };
    Dim::from_terms(dim.to_terms().into_iter().filter(|term| !is_multiple(term, by)).collect())
}

/// Simplifies `(y + z*(x % b)) % b` to `(y + z*x) % b`. Returns `dim` if the result would not be
/// representable.
fn without_remainders(dim: &Dim, divisor: &Dim) -> Dim {
    let inner = |factor: &Dim| match factor.kind() {
        Some(Kind::Mod(dividend, by)) if by == divisor => Some(dividend.clone()),
        _ => None,
    };
    let terms = dim.to_terms();
    if !terms.iter().flat_map(|term| &term.factors).any(|(factor, _)| inner(factor).is_some()) {
        return dim.clone();
    }
    let replaced = Dim::sum(terms.into_iter().map(|term| {
        let factors = term
            .factors
            .iter()
            .flat_map(|(factor, power)| std::iter::repeat_n(inner(factor).unwrap_or_else(|| factor.clone()), *power as usize));
        Dim::product(std::iter::once(Dim::constant(term.coefficient)).chain(factors))
    }));
    if replaced.defect().is_none() { replaced } else { dim.clone() }
}

fn is_multiple(term: &Term, by: &Term) -> bool {
    term.coefficient.checked_rem(by.coefficient) == Some(0) && contains_factors(&term.factors, &by.factors)
}

fn contains_factors(factors: &Factors, of: &Factors) -> bool {
    of.iter().all(|(dim, power)| factors.iter().any(|(factor, more)| factor == dim && more >= power))
}
