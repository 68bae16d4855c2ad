//! Finds the remainders of a symbol that periodic facts leave.
//!
//! A model that halves an image says `S/8 == (S+4)/8`, and one that cuts it into windows
//! `7*((S+24)/28) == S/4`. Nothing grows in such a fact: whether it holds depends on `S` modulo the
//! divisors, and each remainder can be tried. If those that are left are `r` modulo `m`, `S - r` is
//! a multiple of `m`, and the solver proves the rest by arithmetic.
//!
//! Invariant: an added fact follows from the given ones. The work is bounded; what would take more
//! is not found.

use std::{borrow::Cow, collections::BTreeMap};

use super::arith::gcd;
use super::periodic::{drift, period, repeats};
use super::{Dim, Fact, Facts, Symbol};

/// Remainders that are tried for one fact.
const MAX_TRIED: i64 = 1 << 12;
/// The largest modulus of a symbol.
const MAX_MODULUS: i64 = 1 << 30;

/// A symbol is `rest` modulo `by`.
#[derive(Clone, Copy, PartialEq)]
struct Residue {
    rest: i64,
    by: i64,
}

/// Returns the facts, with the divisibilities of single symbols that they imply.
pub(super) fn with_residues(facts: &Facts) -> Cow<'_, Facts> {
    let periodic: Vec<(Symbol, i64, Fact)> = facts.iter().filter_map(periodic_fact).collect();
    let mut known: BTreeMap<&Symbol, Residue> = BTreeMap::new();
    let mut is_changed = !periodic.is_empty();
    // A residue that one fact leaves shortens the search in the next.
    while std::mem::take(&mut is_changed) {
        for (symbol, period, fact) in &periodic {
            let before = known.get(symbol).copied().unwrap_or(Residue { rest: 0, by: 1 });
            if let Some(after) = left_by(fact, *period, before).filter(|after| *after != before) {
                known.insert(symbol, after);
                is_changed = true;
            }
        }
    }
    if known.is_empty() {
        return Cow::Borrowed(facts);
    }
    let mut out = facts.clone();
    for (symbol, Residue { rest, by }) in known {
        if out.add_divisible(Dim::symbol(symbol) - rest, by).is_err() {
            // The facts contradict each other: the solver says so.
            return Cow::Borrowed(facts);
        }
    }
    Cow::Owned(out)
}

/// Returns the symbol of a fact that repeats with it, and the period.
fn periodic_fact(fact: Fact) -> Option<(Symbol, i64, Fact)> {
    let (symbol, period) = match &fact {
        Fact::Equal(a, b) => repeating(&(a - b))?,
        Fact::Range(dim, _) => repeating(dim)?,
        Fact::Divisible(dim, by) => (dim.as_symbol()?.clone(), *by),
        Fact::Likely(..) => return None,
    };
    Some((symbol, period, fact))
}

/// Returns the only symbol of a dim that does not grow with it, and its period.
fn repeating(dim: &Dim) -> Option<(Symbol, i64)> {
    let mut symbols = dim.symbols();
    let symbol = symbols.pop().filter(|_| symbols.is_empty() && repeats(dim))?;
    let period = drift(dim)?.is_const(0).then(|| period(dim, &symbol))??;
    Some((symbol, period))
}

/// Returns the residue of the symbol under one more fact; `None` if no single one is left, or too
/// many would have to be tried.
fn left_by(fact: &Fact, period: i64, known: Residue) -> Option<Residue> {
    let shared = gcd(period.unsigned_abs(), known.by.unsigned_abs()) as i64;
    let whole = (period / shared).checked_mul(known.by).filter(|whole| *whole <= MAX_MODULUS)?;
    if whole / known.by > MAX_TRIED {
        return None;
    }
    let mut holds = (0..whole / known.by).map(|turn| known.rest + turn * known.by).filter(|value| is_true(fact, *value));
    let first = holds.next()?;
    let by = holds.fold(whole, |by, other| gcd(by.unsigned_abs(), (other - first).unsigned_abs()) as i64);
    Some(Residue { rest: first % by, by })
}

fn is_true(fact: &Fact, value: i64) -> bool {
    let at = |dim: &Dim| dim.eval(&|_| Some(value)).ok();
    match fact {
        Fact::Equal(a, b) => at(a).is_some() && at(a) == at(b),
        Fact::Range(dim, range) => {
            at(dim).is_some_and(|it| range.lo.is_none_or(|lo| lo <= it) && range.hi.is_none_or(|hi| it <= hi))
        }
        Fact::Divisible(dim, by) => at(dim).is_some_and(|it| it % by == 0),
        Fact::Likely(..) => true,
    }
}
