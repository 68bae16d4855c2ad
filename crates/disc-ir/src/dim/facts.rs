//! Stores the facts about the dims of one function: the `where` section.
//!
//! It proves nothing: it normalises and orders facts, and refuses those that cannot hold. `Solver`
//! draws conclusions.
//!
//! Invariants:
//! - Every symbol is a dim, so it is >= 0; that is not stored.
//! - Facts are stored simplified (`2*S <= 7` is `S <= 3`), each dim once per kind, in an order that
//!   depends on names only.
//! - Facts that hold by themselves (`B == B`, `S >= 0`) are not stored.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::bounds::{KnownBounds, interval, solve_affine};
use super::fact::{Fact, divisibility};
use super::interval::{Interval, Range};
use super::node::{Dim, Factors, Kind, Repr};
use super::parse::{DimParseError, Parser};
use super::{Defect, Symbol};

/// The reason why a fact is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactError {
    /// It cannot hold, by itself or together with the other facts.
    #[error("`{fact}` cannot hold{}{because}", if because.is_empty() { "" } else { ": " })]
    Contradiction {
        /// The fact as given.
        fact: Fact,
        /// The facts that it contradicts; empty if it cannot hold at all.
        because: String,
    },
    /// The divisor is 0 or negative.
    #[error("`{fact}` is no fact: the divisor must be positive")]
    Divisor {
        /// The fact as given.
        fact: Fact,
    },
    /// A dim in it is not representable.
    #[error("`{fact}` is no fact: {defect}")]
    Invalid {
        /// The fact as given.
        fact: Fact,
        /// The defect.
        defect: Defect,
    },
}

/// A set of facts, in deterministic order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    equal: BTreeSet<(Dim, Dim)>,
    ranges: BTreeMap<Dim, Range>,
    divisors: BTreeMap<Dim, i64>,
    likely: BTreeMap<Dim, Vec<i64>>,
}

impl Facts {
    /// No facts.
    pub fn new() -> Facts {
        Facts::default()
    }

    /// Facts separated by commas.
    pub fn parse(text: &str) -> Result<Facts, DimParseError> {
        let mut parser = Parser::new(text)?;
        let mut facts = Facts::new();
        loop {
            parser.skip_space();
            let offset = parser.offset();
            let fact = parser.fact()?;
            facts.add(fact).map_err(|error| DimParseError { offset, message: error.to_string() })?;
            if !parser.accept(",") {
                parser.end()?;
                return Ok(facts);
            }
        }
    }

    /// Adds one fact of any kind.
    pub fn add(&mut self, fact: Fact) -> Result<(), FactError> {
        match fact {
            Fact::Equal(a, b) => self.add_equal(a, b),
            Fact::Range(dim, range) => self.add_range(dim, range.lo, range.hi),
            Fact::Divisible(dim, by) => self.add_divisible(dim, by),
            Fact::Likely(dim, values) => self.add_likely(dim, values),
        }
    }

    /// Adds `a == b`; the sides may be products.
    pub fn add_equal(&mut self, a: impl Into<Dim>, b: impl Into<Dim>) -> Result<(), FactError> {
        let (a, b) = (a.into(), b.into());
        let fact = Fact::Equal(a.clone(), b.clone());
        let difference = valid(&a, &fact).and(valid(&b, &fact)).map(|()| &a - &b)?;
        if let Some(Fact::Divisible(dim, by)) = divisibility(&a, &b) {
            return self.add_divisible(dim, by);
        }
        if !self.interval(&difference).contains(0) {
            return Err(self.contradiction(fact, &[&a, &b]));
        }
        if a != b {
            // Symbols first, numbers last.
            let in_order = b.as_const().is_some() || (a.as_const().is_none() && a < b);
            self.equal.insert(if in_order { (a, b) } else { (b, a) });
        }
        Ok(())
    }

    /// Adds `lo <= dim <= hi`; `None` is no bound.
    pub fn add_range(&mut self, dim: impl Into<Dim>, lo: Option<i64>, hi: Option<i64>) -> Result<(), FactError> {
        let dim = dim.into();
        let fact = Fact::Range(dim.clone(), Range { lo, hi });
        valid(&dim, &fact)?;
        let bounds = Interval::bounded(lo, hi);
        if self.interval(&dim).intersect(bounds).is_empty() {
            return Err(self.contradiction(fact, &[&dim]));
        }
        // A bound that the dim itself guarantees is not stored, but one that other facts imply is:
        // facts do not depend on their order.
        if interval(&dim, &NoFacts).intersect(bounds) == interval(&dim, &NoFacts) {
            return Ok(());
        }
        let (part, scale, constant) = dim.affine_part();
        let old = self.ranges.get(&part).map_or(Interval::ALL, |range| Interval::from(*range));
        let narrowed = old.intersect(solve_affine(bounds, scale, constant));
        self.add_to_operands(&part, narrowed.into())?;
        if self.interval(&part).intersect(narrowed).is_empty() {
            return Err(self.contradiction(fact, &[&dim]));
        }
        let (mut range, itself) = (Range::from(narrowed), interval(&part, &NoFacts));
        range.lo = range.lo.filter(|_| itself.lo < narrowed.lo);
        range.hi = range.hi.filter(|_| itself.hi > narrowed.hi);
        if range.lo.is_some() || range.hi.is_some() {
            self.ranges.insert(part, range);
        }
        Ok(())
    }

    /// Adds what the range of a minimum or a maximum says of its operands: none of a minimum is
    /// below it.
    fn add_to_operands(&mut self, dim: &Dim, Range { lo, hi }: Range) -> Result<(), FactError> {
        match dim.kind() {
            Some(Kind::Min(operands)) if lo.is_some() => {
                operands.iter().try_for_each(|operand| self.add_range(operand.clone(), lo, None))
            }
            Some(Kind::Max(operands)) if hi.is_some() => {
                operands.iter().try_for_each(|operand| self.add_range(operand.clone(), None, hi))
            }
            _ => Ok(()),
        }
    }

    /// Adds `dim % by == 0`.
    pub fn add_divisible(&mut self, dim: impl Into<Dim>, by: i64) -> Result<(), FactError> {
        let dim = dim.into();
        let fact = Fact::Divisible(dim.clone(), by);
        valid(&dim, &fact)?;
        if by <= 0 {
            return Err(FactError::Divisor { fact });
        }
        // The dim is reduced modulo the divisor, and the divisor by common factors: 6*S % 8 == 0
        // says S % 4 == 0.
        let (remainder, divisor) = reduced_divisibility(&dim, by);
        let rest = dim.modulo(&Dim::constant(by));
        if !self.interval(&rest).contains(0) {
            let decided = self.interval(&dim).single().is_some();
            return Err(self.contradiction(fact, &[if decided { &dim } else { &rest }]));
        }
        if divisor == 1 || remainder.is_const(0) {
            return Ok(());
        }
        let old = self.divisors.get(&remainder).copied().unwrap_or(1);
        let shared = super::arith::gcd(old.unsigned_abs(), divisor.unsigned_abs()) as i64;
        match (old / shared).checked_mul(divisor) {
            Some(multiple) => {
                self.divisors.insert(remainder, multiple);
                Ok(())
            }
            None => Err(FactError::Invalid { fact, defect: Defect::Overflow }),
        }
    }

    /// Adds values that `dim` often has, after those already known.
    pub fn add_likely(&mut self, dim: impl Into<Dim>, values: impl IntoIterator<Item = i64>) -> Result<(), FactError> {
        let (dim, values): (Dim, Vec<i64>) = (dim.into(), values.into_iter().collect());
        let fact = Fact::Likely(dim.clone(), values.clone());
        valid(&dim, &fact)?;
        let known = self.interval(&dim);
        if values.iter().any(|value| !known.contains((*value).into())) {
            return Err(self.contradiction(fact, &[&dim]));
        }
        if dim.as_const().is_none() && !values.is_empty() {
            let all = self.likely.entry(dim).or_default();
            for value in values {
                if !all.contains(&value) {
                    all.push(value);
                }
            }
        }
        Ok(())
    }

    /// All facts: equalities, ranges, divisibilities, likely values, each kind ordered by its dims.
    pub fn iter(&self) -> impl Iterator<Item = Fact> + '_ {
        let equal = self.equal.iter().map(|(a, b)| Fact::Equal(a.clone(), b.clone()));
        let ranges = self.ranges.iter().map(|(dim, range)| Fact::Range(dim.clone(), *range));
        let divisors = self.divisors.iter().map(|(dim, by)| Fact::Divisible(dim.clone(), *by));
        let likely = self.likely.iter().map(|(dim, values)| Fact::Likely(dim.clone(), values.clone()));
        equal.chain(ranges).chain(divisors).chain(likely)
    }

    /// Returns true if there is no fact.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of facts.
    pub fn len(&self) -> usize {
        self.equal.len() + self.ranges.len() + self.divisors.len() + self.likely.len()
    }

    /// Adds all facts of `other`.
    pub fn merge(&mut self, other: &Facts) -> Result<(), FactError> {
        other.iter().try_for_each(|fact| self.add(fact))
    }

    /// Returns the facts with symbols replaced simultaneously by other dims (`None` keeps a
    /// symbol).
    pub fn substitute(&self, replacement: &dyn Fn(&Symbol) -> Option<Dim>) -> Result<Facts, FactError> {
        let mut facts = Facts::new();
        self.iter().try_for_each(|fact| facts.add(fact.map(&mut |dim| dim.substitute(replacement))))?;
        Ok(facts)
    }

    /// Returns the facts with symbols renamed (`None` keeps a name). Fails if two dims become one
    /// and cannot be equal.
    pub fn rename(&self, name: &dyn Fn(&Symbol) -> Option<Symbol>) -> Result<Facts, FactError> {
        self.substitute(&|symbol| name(symbol).map(Dim::symbol))
    }

    /// Drops the facts that say nothing about the symbols in `used`, directly or through other
    /// symbols.
    pub fn remove_unused(&mut self, used: &BTreeSet<Symbol>) {
        let mut related = used.clone();
        let facts: Vec<(Fact, BTreeSet<Symbol>)> = self.iter().map(|fact| (fact.clone(), fact_symbols(&fact))).collect();
        loop {
            let before = related.len();
            for (_, symbols) in facts.iter().filter(|(_, symbols)| !symbols.is_disjoint(&related)).collect::<Vec<_>>() {
                related.extend(symbols.iter().cloned());
            }
            if related.len() == before {
                break;
            }
        }
        let keep = |dim: &Dim| dim.symbols().iter().any(|symbol| related.contains(symbol));
        self.equal.retain(|(a, b)| keep(a) || keep(b));
        self.ranges.retain(|dim, _| keep(dim));
        self.divisors.retain(|dim, _| keep(dim));
        self.likely.retain(|dim, _| keep(dim));
    }

    fn interval(&self, dim: &Dim) -> Interval {
        interval(dim, self)
    }

    fn contradiction(&self, fact: Fact, dims: &[&Dim]) -> FactError {
        let known = dims.iter().filter(|dim| dim.as_const().is_none()).filter_map(|dim| {
            let range = Range::from(self.interval(dim));
            match (range.lo, range.hi) {
                (None, None) => None,
                (Some(lo), Some(hi)) if lo == hi => Some(format!("{dim} == {lo}")),
                _ => Some(Fact::Range((*dim).clone(), range).to_string()),
            }
        });
        FactError::Contradiction { fact, because: known.map(|k| format!("`{k}` is known")).collect::<Vec<_>>().join(", ") }
    }
}

fn valid(dim: &Dim, fact: &Fact) -> Result<(), FactError> {
    match dim.defect() {
        Some(defect) => Err(FactError::Invalid { fact: fact.clone(), defect }),
        None => Ok(()),
    }
}

fn fact_symbols(fact: &Fact) -> BTreeSet<Symbol> {
    let mut symbols = BTreeSet::new();
    fact.visit_symbols(&mut |symbol| {
        symbols.insert(symbol.clone());
    });
    symbols
}

/// Returns `(remainder, divisor)`, both as small as possible, such that `dim % by == 0` is
/// equivalent to `remainder % divisor == 0`.
pub(super) fn reduced_divisibility(dim: &Dim, by: i64) -> (Dim, i64) {
    let (mut terms, mut by) = (dim.to_terms(), by);
    for term in &mut terms {
        term.coefficient = term.coefficient.rem_euclid(by);
    }
    terms.retain(|term| term.coefficient != 0);
    let shared = terms.iter().fold(by.unsigned_abs(), |g, term| super::arith::gcd(g, term.coefficient.unsigned_abs())) as i64;
    by /= shared;
    terms.iter_mut().for_each(|term| term.coefficient /= shared);
    // A common factor that is coprime to the divisor: k*x is divisible exactly if x is.
    let common = terms.iter().fold(0, |g, term| super::arith::gcd(g, term.coefficient.unsigned_abs())).max(1);
    if terms.iter().any(|term| !term.factors.is_empty()) && super::arith::gcd(common, by.unsigned_abs()) == 1 {
        terms.iter_mut().for_each(|term| term.coefficient /= common as i64);
    }
    (Dim::from_terms(terms), by)
}

impl KnownBounds for Facts {
    fn of(&self, part: &Dim) -> Interval {
        let known = self.ranges.get(part).map_or(Interval::ALL, |range| Interval::from(*range));
        let with = |value: i64| (part.clone(), Dim::constant(value));
        let number = self.equal.range(with(i64::MIN)..=with(i64::MAX)).find_map(|(_, value)| value.as_const());
        let number = number.map_or(Interval::ALL, |value| Interval::point(value.into()));
        NoFacts.of(part).intersect(known).intersect(number)
    }

    fn sums_led_by(&self, _: &Factors) -> &[Dim] {
        &[]
    }

    fn has_sums(&self) -> bool {
        false
    }
}

/// The bounds that hold for any dims.
struct NoFacts;

impl KnownBounds for NoFacts {
    fn of(&self, part: &Dim) -> Interval {
        if matches!(part.0, Repr::Symbol(_)) { Interval::NOT_NEGATIVE } else { Interval::ALL }
    }

    fn sums_led_by(&self, _: &Factors) -> &[Dim] {
        &[]
    }

    fn has_sums(&self) -> bool {
        false
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fact) in self.iter().enumerate() {
            write!(f, "{}{fact}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
