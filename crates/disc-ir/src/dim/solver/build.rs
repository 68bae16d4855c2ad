//! Solves the facts: equalities for symbols, divisibilities with hidden symbols. The remaining
//! facts become rules and bounds.
//!
//! Invariant: the work is bounded, whatever the facts are. Facts beyond the bounds are not used:
//! less is proved, nothing wrong.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Memo;
use super::system::{Quotient, System, hidden, is_hidden};
use crate::dim::arith::gcd;
use crate::dim::bounds;
use crate::dim::facts::reduced_divisibility;
use crate::dim::interval::Interval;
use crate::dim::node::{Dim, Kind, Term};
use crate::dim::residues::with_residues;
use crate::dim::{Fact, Facts, Symbol};

/// Nodes of expressions that may be visited while equations are solved.
const MAX_WORK: usize = 1 << 18;
/// A larger value replaces no symbol.
const MAX_VALUE: usize = 128;
/// Rounds over equations that can only be solved after others.
const MAX_PASSES: usize = 8;
/// Rounds in which bounds, rules and each other's consequences are found.
const MAX_ROUNDS: usize = 3;

pub(super) fn build(facts: &Facts, rank: &dyn Fn(&Symbol) -> u32) -> System {
    let mut builder =
        Builder { system: System::default(), equations: Vec::new(), mentions: BTreeMap::new(), work: MAX_WORK, rank };
    if facts.is_empty() {
        return builder.system;
    }
    let facts = &with_residues(facts);
    builder.collect(facts);
    builder.solve();
    builder.add_quotients(facts);
    builder.solve();
    for _ in 0..MAX_ROUNDS {
        builder.add_rules();
        builder.narrow_bounds(facts);
        builder.retract_stale_rules();
        if builder.equations.is_empty() {
            break;
        }
    }
    builder.add_rules();
    builder.add_likely(facts);
    builder.system
}

pub(super) struct Builder<'a> {
    pub(super) system: System,
    /// Dims that are 0 and have not been used yet.
    pub(super) equations: Vec<Dim>,
    /// The replaced symbols whose values mention a symbol.
    mentions: BTreeMap<Symbol, BTreeSet<Symbol>>,
    work: usize,
    rank: &'a dyn Fn(&Symbol) -> u32,
}

impl Builder<'_> {
    pub(super) fn normal(&self, dim: &Dim) -> Dim {
        // The system changes while it is built, so nothing is kept between calls.
        self.system.normal(dim, &mut Memo::default())
    }

    fn collect(&mut self, facts: &Facts) {
        for fact in facts.iter() {
            match fact {
                Fact::Equal(a, b) => self.add_equation(&a - &b),
                Fact::Range(dim, range) => {
                    self.system.bounds.narrow(&dim, range.into());
                    self.system.stated.narrow(&dim, range.into());
                    if let (Some(lo), true) = (range.lo, range.lo == range.hi) {
                        self.add_equation(dim - lo);
                    }
                }
                Fact::Divisible(..) | Fact::Likely(..) => {}
            }
        }
    }

    pub(super) fn add_equation(&mut self, zero: Dim) {
        if zero.defect().is_none() {
            self.equations.push(zero);
        }
    }

    pub(super) fn contradict(&mut self, why: String) {
        self.system.contradiction.get_or_insert(why);
    }

    /// Solves equations for symbols until none can be solved.
    fn solve(&mut self) {
        for _ in 0..MAX_PASSES {
            let mut unsolved = Vec::new();
            let mut progress = false;
            let mut work = VecDeque::from(std::mem::take(&mut self.equations));
            while let Some(equation) = work.pop_front() {
                self.work = self.work.saturating_sub(equation.nodes());
                if self.work == 0 {
                    break;
                }
                match self.solve_one(&equation) {
                    None => progress = true,
                    Some(equation) => unsolved.push(equation),
                }
                self.equations.drain(..).for_each(|equation| work.push_front(equation));
            }
            self.equations = unsolved;
            if !progress {
                return;
            }
        }
    }

    /// Uses an equation, or returns it, simplified.
    fn solve_one(&mut self, equation: &Dim) -> Option<Dim> {
        let equation = self.reduced(equation);
        if self.is_decided(&equation) {
            return None;
        }
        if let Some((symbol, value)) = self.solution(&equation) {
            return if self.replace(symbol, value) { None } else { Some(equation) };
        }
        // 2*x == 3*y: both are multiples of x/3.
        if let Some(([x, y], [a, b])) = proportion(&equation) {
            self.add_quotient(&[(x, b), (y, a)]);
            return None;
        }
        // Two halves are equal: the whole is even.
        if let Some(whole) = exact_quotient(&equation) {
            self.add_quotient(&[whole]);
            return None;
        }
        Some(equation)
    }

    /// Returns true if the equation always holds or cannot hold (which is noted).
    pub(super) fn is_decided(&mut self, equation: &Dim) -> bool {
        match equation.as_const() {
            Some(0) => true,
            Some(value) => {
                self.contradict(format!("the equalities give 0 == {value}"));
                true
            }
            None if has_no_integer_solution(equation) => {
                self.contradict(format!("{} is never 0", self.system.reveal(equation)));
                true
            }
            None => false,
        }
    }

    /// Simplifies the equation: replaced symbols are substituted, and its constant factor and
    /// factors that are never 0 are divided out.
    pub(super) fn reduced(&self, equation: &Dim) -> Dim {
        let replaced = equation.substitute(&|symbol| self.system.replaced.get(symbol).cloned());
        if replaced.as_const().is_some() {
            return replaced;
        }
        if replaced.defect().is_some() {
            return equation.clone();
        }
        let (content, primitive) = replaced.content();
        let memo = &mut Memo::default();
        let may_be_zero = content.factors.into_iter().filter(|(factor, _)| !self.system.nonzero(factor, memo)).collect();
        let factors = Dim::from_terms(vec![Term { coefficient: 1, factors: may_be_zero }]);
        let reduced = factors.times(&primitive);
        if reduced.defect().is_none() { reduced } else { replaced }
    }

    /// Returns a symbol that the equation can be solved for, and its value: one that occurs once,
    /// as a separate term, with the coefficient 1 or -1. Of several, the one of the innermost
    /// scope with the last name.
    fn solution(&self, equation: &Dim) -> Option<(Symbol, Dim)> {
        let mut occurrences = BTreeMap::<Symbol, usize>::new();
        equation.visit_symbols(&mut |symbol| *occurrences.entry(symbol.clone()).or_default() += 1);
        let terms = equation.to_terms();
        let alone = terms.iter().filter_map(|term| match term.factors.as_slice() {
            [(factor, 1)] if term.coefficient.unsigned_abs() == 1 => Some((factor.as_symbol()?, term.coefficient)),
            _ => None,
        });
        let once = alone.filter(|(symbol, _)| occurrences.get(symbol) == Some(&1));
        let rank = |symbol: &Symbol| if is_hidden(symbol) { (false, 0) } else { (true, (self.rank)(symbol)) };
        let (symbol, coefficient) = once.max_by_key(|(symbol, _)| (rank(symbol), *symbol))?;
        let others = equation.plus_scaled(-coefficient, &Dim::symbol(symbol));
        let value = Dim::constant(0).plus_scaled(-coefficient, &others);
        (value.defect().is_none() && value.nodes() <= MAX_VALUE).then(|| (symbol.clone(), value))
    }

    /// Replaces the symbol, in the values of other symbols as well. Returns false if a value would
    /// become too large.
    fn replace(&mut self, symbol: Symbol, value: Dim) -> bool {
        let with = |s: &Symbol| (*s == symbol).then(|| value.clone());
        let affected = self.mentions.get(&symbol).cloned().unwrap_or_default();
        let mut changed = Vec::with_capacity(affected.len() + 1);
        for other in affected {
            let new = self.system.replaced[&other].substitute(&with);
            self.work = self.work.saturating_sub(new.nodes());
            if new.defect().is_some() || new.nodes() > MAX_VALUE || self.work == 0 {
                return false;
            }
            changed.push((other, new));
        }
        self.mentions.remove(&symbol);
        changed.push((symbol, value));
        for (symbol, value) in changed {
            value.visit_symbols(&mut |mentioned| {
                self.mentions.entry(mentioned.clone()).or_default().insert(symbol.clone());
            });
            self.system.replaced.insert(symbol, value);
        }
        true
    }

    /// Adds `dim % by == 0` as `dim == by * q` with a hidden `q`.
    fn add_quotients(&mut self, facts: &Facts) {
        for fact in facts.iter() {
            let Fact::Divisible(dim, by) = &fact else { continue };
            if self.work == 0 {
                return;
            }
            let (dim, by) = reduced_divisibility(&self.normal(dim), *by);
            self.work = self.work.saturating_sub(dim.nodes());
            if dim.as_const().is_some_and(|rest| rest % by != 0) {
                self.contradict(format!("{fact} does not hold"));
            } else if by > 1 && dim.as_const().is_none() {
                let unsolved = std::mem::take(&mut self.equations);
                self.add_quotient(&[(dim, by)]);
                let added = std::mem::replace(&mut self.equations, unsolved);
                let left: Vec<Dim> = added.iter().filter_map(|equation| self.solve_one(equation)).collect();
                self.equations.extend(left);
            }
        }
    }

    /// A new symbol for the quotients `dim / by`, which are exact and equal.
    fn add_quotient(&mut self, quotients: &[(Dim, i64)]) {
        let symbol = hidden(self.system.quotients.len());
        let q = Dim::symbol(&symbol);
        let mut revealed = Vec::new();
        for (dim, by) in quotients {
            let bounds = bounds::interval(dim, &self.system.bounds);
            self.system.bounds.narrow(&q, bounds.floor_div(Interval::point((*by).into())));
            self.add_equation(dim.plus_scaled(-by, &q));
            revealed.push(Quotient { dim: self.system.reveal(dim), by: *by });
        }
        self.system.quotients.insert(symbol, revealed);
    }
}

/// Returns `([x, y], [a, b])` if the equation is `a*x == b*y` for two symbols and positive coprime
/// numbers above 1.
fn proportion(equation: &Dim) -> Option<([Dim; 2], [i64; 2])> {
    let terms = equation.to_terms();
    let [x, y] = terms.as_slice() else { return None };
    let symbol = |term: &Term| match term.factors.as_slice() {
        [(factor, 1)] => factor.as_symbol().map(Dim::symbol),
        _ => None,
    };
    let (a, b) = (x.coefficient.checked_abs()?, y.coefficient.checked_abs()?);
    let opposite = (x.coefficient < 0) != (y.coefficient < 0);
    let coprime = gcd(a.unsigned_abs(), b.unsigned_abs()) == 1;
    (opposite && coprime && a > 1 && b > 1).then_some(([symbol(x)?, symbol(y)?], [a, b]))
}

/// Returns `(x, n)` if the equation is `x == n*((x+c)/n)` for a number `c` with `0 <= c < n`: it is
/// equivalent to `n` dividing `x`.
fn exact_quotient(equation: &Dim) -> Option<(Dim, i64)> {
    equation.to_terms().into_iter().find_map(|term| {
        let [(quotient, 1)] = term.factors.as_slice() else { return None };
        let Some(Kind::FloorDiv(rounded, by)) = quotient.kind() else { return None };
        let by = by.as_const().filter(|&by| by > 1 && term.coefficient.checked_abs() == Some(by))?;
        let others = equation - &Dim::from_terms(vec![term.clone()]);
        let whole = Dim::constant(0).plus_scaled(-term.coefficient.signum(), &others);
        let added = (rounded - &whole).as_const()?;
        (0..by).contains(&added).then_some((whole, by))
    })
}

/// Returns true for equations such as `4*x + 6*y + 1 == 0`, whose left side is odd for all `x` and
/// `y`.
fn has_no_integer_solution(equation: &Dim) -> bool {
    let (variable, constant) = equation.split_constant();
    let shared = variable.to_terms().iter().fold(0, |g, term| gcd(g, term.coefficient.unsigned_abs()));
    shared != 0 && !constant.unsigned_abs().is_multiple_of(shared)
}
