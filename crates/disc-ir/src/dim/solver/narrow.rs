//! Records the intervals that facts give, for dims in normal form, and the likely values.

use super::Memo;
use super::build::Builder;
use super::system::is_hidden;
use crate::dim::bounds;
use crate::dim::interval::Interval;
use crate::dim::node::{Dim, Kind};
use crate::dim::{Fact, Facts};

/// Rounds in which bounds simplify dims (a max that is decided), and simpler dims give bounds for
/// other parts.
const MAX_ROUNDS: usize = 3;
/// Larger sums do not narrow the bounds of their terms.
const MAX_TERMS: usize = 16;

impl Builder<'_> {
    pub(super) fn narrow_bounds(&mut self, facts: &Facts) {
        let mut before = Vec::new();
        for _ in 0..MAX_ROUNDS {
            let known = self.known_intervals(facts);
            if known == before {
                return;
            }
            known.iter().for_each(|(dim, interval)| self.narrow(dim, *interval));
            known.iter().for_each(|(dim, interval)| self.narrow_terms(dim, *interval));
            before = known;
        }
    }

    /// Returns the ranges of facts, of replaced symbols (they are dims as well, so >= 0), and of
    /// expressions that rules rewrite.
    fn known_intervals(&self, facts: &Facts) -> Vec<(Dim, Interval)> {
        let (system, memo) = (&self.system, &mut Memo::default());
        let mut known = Vec::new();
        for fact in facts.iter() {
            if let Fact::Range(dim, range) = fact {
                known.push((system.normal(&dim, memo), range.into()));
            }
        }
        for (_, value) in system.replaced.iter().filter(|(symbol, _)| !is_hidden(symbol)) {
            if value.as_symbol().is_none_or(is_hidden) {
                known.push((system.normal(value, memo), Interval::NOT_NEGATIVE));
            }
        }
        for rule in &system.rules {
            let lead = rule.lead();
            known.push((system.normal(&rule.rest, memo), bounds::interval(&lead, &system.bounds)));
            for (dim, interval) in relations(&lead, &rule.rest) {
                known.push((system.normal(&dim, memo), interval));
            }
        }
        known
    }

    fn narrow(&mut self, dim: &Dim, interval: Interval) {
        let possible = bounds::interval(dim, &self.system.bounds).intersect(interval);
        if possible.is_empty() {
            self.contradict(format!("{} has no possible value", self.system.reveal(dim)));
            return;
        }
        match possible.single().and_then(|value| i64::try_from(value).ok()) {
            // A sum with one possible value is an equality: C <= C/2 leaves 0 for C - C/2. Recorded
            // as a bound, it would make that sum 0 and nothing else.
            Some(value) if dim.as_const().is_none() => self.add_equation(dim - value),
            _ => {
                self.system.bounds.narrow(dim, interval);
            }
        }
    }

    /// Narrows terms: if `k*t + rest` is in the interval, `k*t` is in the interval less that of the
    /// rest.
    fn narrow_terms(&mut self, dim: &Dim, interval: Interval) {
        let terms = dim.to_terms();
        if interval == Interval::ALL || terms.len() > MAX_TERMS {
            return;
        }
        for term in terms.into_iter().filter(|term| !term.factors.is_empty()) {
            let lone = Dim::from_terms(vec![term]);
            let rest = dim - &lone;
            let rest = bounds::interval(&rest, &self.system.bounds);
            let lone_interval = interval.plus(rest.negated());
            if lone_interval != Interval::ALL {
                self.narrow(&lone, lone_interval);
            }
        }
    }

    pub(super) fn add_likely(&mut self, facts: &Facts) {
        for fact in facts.iter() {
            let Fact::Likely(dim, values) = fact else { continue };
            let (part, scale, constant) = self.normal(&dim).affine_part();
            let of_part = |value: i64| {
                let shifted = i128::from(value) - i128::from(constant);
                (shifted % i128::from(scale) == 0).then(|| i64::try_from(shifted / i128::from(scale)).ok()).flatten()
            };
            let all = self.system.likely.entry(part).or_default();
            for value in values.into_iter().filter_map(of_part) {
                if !all.contains(&value) {
                    all.push(value);
                }
            }
        }
    }
}

/// Returns the relations between an operation and its operands, which a rule that rewrites the
/// operation would hide.
fn relations(operation: &Dim, value: &Dim) -> Vec<(Dim, Interval)> {
    match operation.kind() {
        Some(Kind::Max(dims)) => dims.iter().map(|dim| (value - dim, Interval::NOT_NEGATIVE)).collect(),
        Some(Kind::Min(dims)) => dims.iter().map(|dim| (dim - value, Interval::NOT_NEGATIVE)).collect(),
        Some(Kind::FloorDiv(dim, by)) => match by.as_const() {
            Some(by) if by > 0 => vec![(dim.plus_scaled(-by, value), Interval::bounded(Some(0), Some(by - 1)))],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}
