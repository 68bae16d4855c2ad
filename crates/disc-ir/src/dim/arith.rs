//! Adds and multiplies dims: the polynomial part of the canonical form.
//!
//! Invariants:
//! - Like terms are one term, no coefficient is 0, terms and factors are sorted; so a sum has one
//!   form whatever the order in which it was written.
//! - A product of sums is multiplied out while that gives at most [`MAX_PRODUCT_TERMS`] terms (one
//!   sum times one term always is). Beyond, the sums stay as factors, divided by their common
//!   factor, so that the factors do not depend on the order.
//! - Coefficients are added in 128 bits; one that does not fit 64 bits at the end is a defect,
//!   never a wrapped number.

use super::node::{Defect, Dim, Factors, Kind, Repr, Term, compare_factors};

/// The most terms that multiplying out may give.
pub const MAX_PRODUCT_TERMS: usize = 64;

impl Dim {
    /// The sum of all `dims`; 0 for none.
    pub fn sum(dims: impl IntoIterator<Item = Dim>) -> Dim {
        let mut sum = Sum::default();
        dims.into_iter().for_each(|dim| sum.add(1, &dim));
        sum.finish()
    }

    /// The product of all `dims` (an element count); 1 for none.
    pub fn product(dims: impl IntoIterator<Item = Dim>) -> Dim {
        let mut product = Product::one();
        dims.into_iter().for_each(|dim| product.multiply(&dim, 1));
        product.finish()
    }

    pub(super) fn plus(&self, other: &Dim) -> Dim {
        match (self.as_const(), other.as_const()) {
            (Some(a), Some(b)) => a.checked_add(b).map_or(Dim(Repr::Invalid(Defect::Overflow)), Dim::constant),
            (Some(0), None) => other.clone(),
            (None, Some(0)) => self.clone(),
            _ => self.plus_scaled(1, other),
        }
    }

    pub(super) fn minus(&self, other: &Dim) -> Dim {
        if other.is_const(0) { self.clone() } else { self.plus_scaled(-1, other) }
    }

    /// `self + scale * other`, with no overflow between the two steps.
    pub(super) fn plus_scaled(&self, scale: i64, other: &Dim) -> Dim {
        let mut sum = Sum::default();
        sum.add(1, self);
        sum.add(i128::from(scale), other);
        sum.finish()
    }

    pub(super) fn negated(&self) -> Dim {
        Dim::constant(0).plus_scaled(-1, self)
    }

    pub(super) fn times(&self, other: &Dim) -> Dim {
        match (self.as_const(), other.as_const()) {
            (Some(a), Some(b)) => a.checked_mul(b).map_or(Dim(Repr::Invalid(Defect::Overflow)), Dim::constant),
            (Some(1), None) => other.clone(),
            (None, Some(1)) => self.clone(),
            (Some(scale), None) => Dim::constant(0).plus_scaled(scale, other),
            (None, Some(scale)) => Dim::constant(0).plus_scaled(scale, self),
            (None, None) => Dim::product([self.clone(), other.clone()]),
        }
    }

    /// The dim with these terms, which are sorted, distinct and without 0.
    pub(super) fn from_terms(mut terms: Vec<Term>) -> Dim {
        match terms.as_slice() {
            [] => Dim::constant(0),
            [term] if term.factors.is_empty() => Dim::constant(term.coefficient),
            [term] if term.coefficient == 1 && term.factors.len() == 1 && term.factors[0].1 == 1 => {
                terms.swap_remove(0).factors.remove(0).0
            }
            _ => Dim::from_kind(Kind::Sum(terms)),
        }
    }

    /// Returns the dim as terms: a constant or a lone factor is one term.
    pub(super) fn to_terms(&self) -> Vec<Term> {
        match (&self.0, self.sum_terms()) {
            (_, Some(terms)) => terms.to_vec(),
            (Repr::Const(0), _) => Vec::new(),
            (Repr::Const(value), _) => vec![Term { coefficient: *value, factors: Factors::new() }],
            _ => vec![Term { coefficient: 1, factors: Factors::from_iter([(self.clone(), 1)]) }],
        }
    }
}

/// A sum that is being collected.
#[derive(Default)]
pub(super) struct Sum {
    terms: Vec<(i128, Factors)>,
    defect: Option<Defect>,
}

impl Sum {
    /// Adds `scale * dim`.
    pub(super) fn add(&mut self, scale: i128, dim: &Dim) {
        match (&dim.0, dim.sum_terms()) {
            (Repr::Invalid(defect), _) => self.defect = self.defect.or(Some(*defect)),
            (Repr::Const(value), _) => self.add_term(scale, i128::from(*value), Factors::new()),
            (_, Some(terms)) => {
                terms.iter().for_each(|term| self.add_term(scale, i128::from(term.coefficient), term.factors.clone()));
            }
            _ => self.add_term(scale, 1, Factors::from_iter([(dim.clone(), 1)])),
        }
    }

    fn add_term(&mut self, scale: i128, coefficient: i128, factors: Factors) {
        match scale.checked_mul(coefficient) {
            Some(coefficient) => self.terms.push((coefficient, factors)),
            None => self.defect = Some(Defect::Overflow),
        }
    }

    pub(super) fn finish(mut self) -> Dim {
        if let Some(defect) = self.defect {
            return Dim(Repr::Invalid(defect));
        }
        if !self.terms.is_sorted_by(|a, b| compare_factors(&a.1, &b.1).is_lt()) {
            self.terms.sort_by(|a, b| compare_factors(&a.1, &b.1));
        }
        match merged(self.terms) {
            Some(terms) => Dim::from_terms(terms),
            None => Dim(Repr::Invalid(Defect::Overflow)),
        }
    }
}

/// Sorts terms and adds like ones; `None` if a coefficient overflows.
fn merged(sorted: Vec<(i128, Factors)>) -> Option<Vec<Term>> {
    let mut terms: Vec<(i128, Factors)> = Vec::with_capacity(sorted.len());
    for (coefficient, factors) in sorted {
        match terms.last_mut() {
            Some((total, last)) if *last == factors => *total = total.checked_add(coefficient)?,
            _ => terms.push((coefficient, factors)),
        }
    }
    let nonzero = terms.into_iter().filter(|(coefficient, _)| *coefficient != 0);
    nonzero.map(|(c, factors)| Some(Term { coefficient: i64::try_from(c).ok()?, factors })).collect()
}

/// A product that is being collected: `coefficient * atoms * sums`, a sum being a dim of two or
/// more terms.
struct Product {
    coefficient: Result<i128, Defect>,
    atoms: Vec<(Dim, u32)>,
    sums: Vec<(Dim, u32)>,
}

impl Product {
    fn one() -> Product {
        Product { coefficient: Ok(1), atoms: Vec::new(), sums: Vec::new() }
    }

    fn scale(&mut self, by: i64, power: u32) {
        if by == 1 || self.coefficient == Ok(0) {
            return;
        }
        let power = i128::from(by).checked_pow(power);
        self.coefficient = self.coefficient.and_then(|c| power.and_then(|p| c.checked_mul(p)).ok_or(Defect::Overflow));
    }

    fn multiply(&mut self, dim: &Dim, power: u32) {
        match (&dim.0, dim.sum_terms()) {
            (Repr::Invalid(defect), _) => self.coefficient = self.coefficient.and(Err(*defect)),
            (Repr::Const(value), _) => self.scale(*value, power),
            (_, Some([term])) => self.multiply_term(term, power),
            (_, Some(_)) => self.sums.push((dim.clone(), power)),
            _ => self.atoms.push((dim.clone(), power)),
        }
    }

    fn multiply_term(&mut self, term: &Term, power: u32) {
        self.scale(term.coefficient, power);
        for (factor, inner) in &term.factors {
            match inner.checked_mul(power) {
                Some(power) => self.multiply(factor, power),
                None => self.coefficient = Err(Defect::TooLarge),
            }
        }
    }

    fn finish(mut self) -> Dim {
        match self.coefficient {
            Err(defect) => return Dim(Repr::Invalid(defect)),
            Ok(0) => return Dim::constant(0),
            Ok(_) => {}
        }
        let terms = self.sums.iter().map(|(sum, power)| sum.term_count().saturating_pow(*power));
        let terms = terms.fold(1_usize, usize::saturating_mul);
        let one_sum = matches!(self.sums.as_slice(), [(_, 1)]);
        if terms > MAX_PRODUCT_TERMS && !one_sum {
            for (sum, power) in std::mem::take(&mut self.sums) {
                let (content, primitive) = sum.content();
                self.multiply_term(&content, power);
                self.atoms.push((primitive, power));
            }
        }
        let sums = std::mem::take(&mut self.sums);
        let coefficient = match self.coefficient {
            Err(defect) => return Dim(Repr::Invalid(defect)),
            Ok(coefficient) => coefficient,
        };
        let Some(atoms) = merged_powers(self.atoms) else { return Dim(Repr::Invalid(Defect::TooLarge)) };
        expand(coefficient, atoms, &sums)
    }
}

/// Sorts factors and merges equal ones to powers; `None` if a power overflows.
fn merged_powers(mut factors: Vec<(Dim, u32)>) -> Option<Factors> {
    factors.sort_by(|a, b| a.0.cmp(&b.0));
    let mut out = Factors::new();
    for (dim, power) in factors {
        match out.last_mut() {
            Some((last, total)) if *last == dim => *total = total.checked_add(power)?,
            _ => out.push((dim, power)),
        }
    }
    Some(out)
}

fn expand(coefficient: i128, atoms: Factors, sums: &[(Dim, u32)]) -> Dim {
    let mut terms = vec![(coefficient, atoms)];
    for (sum, power) in sums {
        for _ in 0..*power {
            let mut next = Sum::default();
            for (a, left) in &terms {
                for term in sum.sum_terms().unwrap_or_default() {
                    let both = left.iter().chain(&term.factors).cloned().collect();
                    match merged_powers(both) {
                        Some(factors) => next.add_term(*a, i128::from(term.coefficient), factors),
                        None => next.defect = Some(Defect::TooLarge),
                    }
                }
            }
            let partial = next.finish();
            if let Repr::Invalid(defect) = partial.0 {
                return Dim(Repr::Invalid(defect));
            }
            terms = partial.to_terms().into_iter().map(|t| (i128::from(t.coefficient), t.factors)).collect();
        }
    }
    Sum { terms, defect: None }.finish()
}

impl Dim {
    fn term_count(&self) -> usize {
        self.sum_terms().map_or(1, <[Term]>::len)
    }

    /// `(content, primitive)` with `self == content * primitive`: the largest common factor of all
    /// terms (factors that are sums stay where they are), signed so that the first coefficient of
    /// the primitive part is positive.
    pub(super) fn content(&self) -> (Term, Dim) {
        let mut terms = self.to_terms();
        let Some(first) = terms.first() else {
            return (Term { coefficient: 1, factors: Factors::new() }, self.clone());
        };
        let negative = first.coefficient < 0;
        let mut shared: Factors = first.factors.iter().filter(|(dim, _)| dim.sum_terms().is_none()).cloned().collect();
        let mut divisor = 0_u64;
        for term in &terms {
            divisor = gcd(divisor, term.coefficient.unsigned_abs());
            shared.retain(|(dim, power)| {
                let other = term.factors.iter().find(|(factor, _)| factor == dim);
                *power = (*power).min(other.map_or(0, |(_, power)| *power));
                *power > 0
            });
        }
        // 2^63 has no positive i64: such a sum (all coefficients i64::MIN) keeps half of it.
        let divisor = i64::try_from(divisor).unwrap_or(1 << 62);
        let coefficient = if negative { -divisor } else { divisor };
        for term in &mut terms {
            let Some(quotient) = term.coefficient.checked_div(coefficient) else {
                return (Term { coefficient: 1, factors: Factors::new() }, self.clone());
            };
            term.coefficient = quotient;
            remove_factors(&mut term.factors, &shared);
        }
        (Term { coefficient, factors: shared }, rebuilt(terms))
    }
}

fn rebuilt(terms: Vec<Term>) -> Dim {
    let mut sum = Sum::default();
    terms.into_iter().for_each(|term| sum.add_term(1, i128::from(term.coefficient), term.factors));
    sum.finish()
}

/// Lowers the powers of `factors` by those of `shared`, which it contains.
pub(super) fn remove_factors(factors: &mut Factors, shared: &[(Dim, u32)]) {
    factors.retain(|(dim, power)| {
        *power -= shared.iter().find(|(factor, _)| factor == dim).map_or(0, |(_, power)| *power);
        *power > 0
    });
}

pub(super) fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
