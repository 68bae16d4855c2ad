//! Solves the facts: equalities for symbols, divisibilities with hidden symbols, the rest as rewrite rules and intervals.

use super::Memo;
use super::system::{Quotient, Rule, System, contains, hidden, is_hidden};
use crate::dim::arith::{gcd, remove_factors};
use crate::dim::facts::reduced_divisibility;
use crate::dim::interval::Interval;
use crate::dim::node::{Dim, Factors, Kind, Term};
use crate::dim::{Fact, Facts, Symbol};

/// More rules than this are not completed with what follows from pairs of them.
const MAX_RULES: usize = 32;
/// Equations that are made rules at most; the others are used no further.
const MAX_STEPS: usize = 128;
/// Rounds in which bounds narrow each other.
const BOUND_ROUNDS: usize = 3;

pub(super) fn build(facts: &Facts, rank: &dyn Fn(&Symbol) -> u32) -> System {
    let mut builder = Builder { system: System::default(), equations: Vec::new(), rank };
    builder.collect_bounds(facts);
    builder.collect_equations(facts);
    builder.solve();
    builder.add_quotients(facts);
    builder.solve();
    for _ in 0..BOUND_ROUNDS {
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

struct Builder<'a> {
    system: System,
    /// Dims that are 0.
    equations: Vec<Dim>,
    rank: &'a dyn Fn(&Symbol) -> u32,
}

impl Builder<'_> {
    fn normal(&self, dim: &Dim) -> Dim {
        // The system changes while it is built, so nothing is kept between calls.
        self.system.normal(dim, &mut Memo::default())
    }

    fn collect_bounds(&mut self, facts: &Facts) {
        for fact in facts.iter() {
            if let Fact::Range(dim, range) = fact {
                self.system.bounds.narrow(&dim, range.into());
                self.system.stated.narrow(&dim, range.into());
            }
        }
    }

    fn collect_equations(&mut self, facts: &Facts) {
        for fact in facts.iter() {
            match fact {
                Fact::Equal(a, b) => self.add_equation(&a - &b),
                Fact::Range(dim, range) => {
                    if let (Some(lo), true) = (range.lo, range.lo == range.hi) {
                        self.add_equation(dim - lo);
                    }
                }
                Fact::Divisible(..) | Fact::Likely(..) => {}
            }
        }
    }

    fn add_equation(&mut self, zero: Dim) {
        if zero.defect().is_none() {
            self.equations.push(zero);
        }
    }

    /// Solves equations for symbols until none can be solved.
    fn solve(&mut self) {
        loop {
            let mut solved = None;
            let quotients = self.system.quotients.len();
            let equations = std::mem::take(&mut self.equations);
            for (i, equation) in equations.iter().enumerate() {
                let equation = self.reduced(equation);
                match equation.as_const() {
                    Some(0) => {}
                    Some(value) => self.contradict(format!("the equalities give 0 == {value}")),
                    None if has_no_integer_solution(&equation) => {
                        self.contradict(format!("{} is never 0", self.system.reveal(&equation)));
                    }
                    None => {
                        if let Some((symbol, value)) = self.solution(&equation) {
                            solved = Some((symbol, value));
                            self.equations.extend_from_slice(&equations[i + 1..]);
                            break;
                        }
                        match proportion(&equation) {
                            // 2*x == 3*y: both are multiples of x/3.
                            Some(([x, y], [a, b])) => self.add_quotient(&[(x, b), (y, a)]),
                            None => self.equations.push(equation),
                        }
                    }
                }
            }
            match solved {
                Some((symbol, value)) => self.replace(symbol, value),
                None if self.system.quotients.len() == quotients => return,
                None => {}
            }
        }
    }

    fn contradict(&mut self, why: String) {
        self.system.contradiction.get_or_insert(why);
    }

    /// The equation with replaced symbols replaced, divided by its constant factor and by factors that are never 0.
    fn reduced(&self, equation: &Dim) -> Dim {
        let replaced = equation.substitute(&|symbol| self.system.replaced.get(symbol).cloned());
        if replaced.defect().is_some() || replaced.as_const().is_some() {
            return if replaced.as_const().is_some() { replaced } else { equation.clone() };
        }
        let (content, primitive) = replaced.content();
        let memo = &mut Memo::default();
        let may_be_zero = content.factors.into_iter().filter(|(factor, _)| !self.system.nonzero(factor, memo)).collect();
        let factors = Dim::from_terms(vec![Term { coefficient: 1, factors: may_be_zero }]);
        let reduced = factors.times(&primitive);
        if reduced.defect().is_none() { reduced } else { replaced }
    }

    /// The symbol for which the equation can be solved, and its value: one that occurs once, alone, with the coefficient 1 or
    /// -1. Of several, the one of the innermost scope with the last name.
    fn solution(&self, equation: &Dim) -> Option<(Symbol, Dim)> {
        let mut occurrences = std::collections::BTreeMap::<Symbol, usize>::new();
        equation.visit_symbols(&mut |symbol| *occurrences.entry(symbol.clone()).or_default() += 1);
        let terms = equation.to_terms();
        let alone = terms.iter().filter_map(|term| match term.factors.as_slice() {
            [(factor, 1)] if term.coefficient.unsigned_abs() == 1 => Some((factor.as_symbol()?, term.coefficient)),
            _ => None,
        });
        let once = alone.filter(|(symbol, _)| occurrences.get(symbol) == Some(&1));
        let (symbol, coefficient) =
            once.max_by_key(|(s, _)| (!is_hidden(s), if is_hidden(s) { 0 } else { (self.rank)(s) }, *s))?;
        let others = equation.plus_scaled(-coefficient, &Dim::symbol(symbol));
        let value = Dim::constant(0).plus_scaled(-coefficient, &others);
        value.defect().is_none().then(|| (symbol.clone(), value))
    }

    fn replace(&mut self, symbol: Symbol, value: Dim) {
        let with = |s: &Symbol| (*s == symbol).then(|| value.clone());
        let replaced: Vec<(Symbol, Dim)> =
            self.system.replaced.iter().map(|(s, old)| (s.clone(), old.substitute(&with))).collect();
        if replaced.iter().any(|(_, value)| value.defect().is_some()) {
            // Too large to be put everywhere: the equality is used no further.
            return;
        }
        self.system.replaced = replaced.into_iter().collect();
        self.system.replaced.insert(symbol, value);
    }

    /// `dim % by == 0` as `dim == by * q` with a hidden `q`.
    fn add_quotients(&mut self, facts: &Facts) {
        for fact in facts.iter() {
            let Fact::Divisible(dim, by) = &fact else { continue };
            let (dim, by) = reduced_divisibility(&self.normal(dim), *by);
            if dim.as_const().is_some_and(|rest| rest % by != 0) {
                self.contradict(format!("{fact} does not hold"));
            } else if by > 1 && dim.as_const().is_none() {
                self.add_quotient(&[(dim, by)]);
                self.solve();
            }
        }
    }

    /// A new symbol for the quotients `dim / by`, which are exact and equal.
    fn add_quotient(&mut self, quotients: &[(Dim, i64)]) {
        let symbol = hidden(self.system.quotients.len());
        let q = Dim::symbol(&symbol);
        let mut revealed = Vec::new();
        for (dim, by) in quotients {
            let bounds = crate::dim::bounds::interval(dim, &self.system.bounds);
            self.system.bounds.narrow(&q, bounds.floor_div(Interval::point((*by).into())));
            self.add_equation(dim.plus_scaled(-by, &q));
            revealed.push(Quotient { dim: self.system.reveal(dim), by: *by });
        }
        self.system.quotients.insert(symbol, revealed);
    }

    /// Makes rules of the equations that are left, and of what follows from pairs of them.
    fn add_rules(&mut self) {
        for _ in 0..MAX_STEPS {
            let Some(equation) = self.equations.pop() else { return };
            let equation = self.reduced(&self.normal(&equation));
            match equation.as_const() {
                Some(0) => continue,
                Some(value) => {
                    self.contradict(format!("the equalities give 0 == {value}"));
                    continue;
                }
                None if has_no_integer_solution(&equation) => {
                    self.contradict(format!("{} is never 0", self.system.reveal(&equation)));
                    continue;
                }
                None => {}
            }
            let Some(rule) = Rule::from_equation(&equation) else { continue };
            if self.system.rules.len() < MAX_RULES {
                self.equations.extend(self.system.rules.iter().filter_map(|other| consequence(&rule, other)));
            }
            self.system.rules.push(rule);
            self.retract_stale_rules();
        }
        self.equations.clear();
    }

    /// Turns rules whose left side is rewritten by other rules (or by bounds) back into equations.
    fn retract_stale_rules(&mut self) {
        for i in (0..self.system.rules.len()).rev() {
            let rule = self.system.rules.remove(i);
            let lead = Dim::from_terms(vec![Term { coefficient: rule.coefficient, factors: rule.factors.clone() }]);
            if self.normal(&lead) == lead {
                self.system.rules.insert(i, rule);
            } else {
                self.add_equation(&lead - &rule.rest);
            }
        }
    }

    fn narrow_bounds(&mut self, facts: &Facts) {
        // Bounds simplify dims (a max that is decided), and simpler dims give bounds for other parts.
        for _ in 0..BOUND_ROUNDS {
            let known = self.known_intervals(facts);
            known.iter().for_each(|(dim, interval)| self.narrow(dim, *interval));
            known.iter().for_each(|(dim, interval)| self.narrow_terms(dim, *interval));
        }
    }

    /// The ranges of facts, of replaced symbols (they are dims as well, so >= 0), and of what rules rewrite.
    fn known_intervals(&self, facts: &Facts) -> Vec<(Dim, Interval)> {
        let mut known = Vec::new();
        for fact in facts.iter() {
            if let Fact::Range(dim, range) = fact {
                known.push((self.normal(&dim), range.into()));
            }
        }
        let replaced = self.system.replaced.iter().filter(|(symbol, _)| !is_hidden(symbol));
        known.extend(replaced.map(|(_, value)| (self.normal(value), Interval::NOT_NEGATIVE)));
        for rule in &self.system.rules {
            let lead = Dim::from_terms(vec![Term { coefficient: rule.coefficient, factors: rule.factors.clone() }]);
            known.push((self.normal(&rule.rest), crate::dim::bounds::interval(&lead, &self.system.bounds)));
            known.extend(relations(&lead, &rule.rest).into_iter().map(|(dim, interval)| (self.normal(&dim), interval)));
        }
        known
    }

    fn narrow(&mut self, dim: &Dim, interval: Interval) {
        let possible = crate::dim::bounds::interval(dim, &self.system.bounds).intersect(interval);
        if possible.is_empty() {
            self.contradict(format!("{} has no possible value", self.system.reveal(dim)));
            return;
        }
        match possible.single().and_then(|value| i64::try_from(value).ok()) {
            // A sum with one possible value is an equality: C <= C/2 leaves 0 for C - C/2. Recorded as a bound, it would make
            // that sum 0 and nothing else.
            Some(value) if dim.as_const().is_none() => self.add_equation(dim - value),
            _ => {
                self.system.bounds.narrow(dim, interval);
            }
        }
    }

    /// Where `k*t + rest` is in the interval, `k*t` is in the interval less that of the rest.
    fn narrow_terms(&mut self, dim: &Dim, interval: Interval) {
        if interval == Interval::ALL {
            return;
        }
        for term in dim.to_terms().into_iter().filter(|term| !term.factors.is_empty()) {
            let lone = Dim::from_terms(vec![term]);
            let rest = dim - &lone;
            let rest = crate::dim::bounds::interval(&rest, &self.system.bounds);
            self.narrow(&lone, interval.plus(rest.negated()));
        }
    }

    fn add_likely(&mut self, facts: &Facts) {
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

/// `([x, y], [a, b])` where the equation is `a*x == b*y` for two symbols and positive coprime numbers above 1.
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

/// `4*x + 6*y + 1` is odd, whatever `x` and `y` are.
fn has_no_integer_solution(equation: &Dim) -> bool {
    let (variable, constant) = equation.split_constant();
    let shared = variable.to_terms().iter().fold(0, |g, term| gcd(g, term.coefficient.unsigned_abs()));
    shared != 0 && constant.unsigned_abs() % shared != 0
}

/// How the value of an operation relates to its operands, which a rule that rewrites the operation would hide.
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

/// What follows from two rules that share a factor: both rewrite the smallest product that has both left sides.
fn consequence(a: &Rule, b: &Rule) -> Option<Dim> {
    if a.coefficient != 1 || b.coefficient != 1 || !a.factors.iter().any(|(dim, _)| b.factors.iter().any(|(d, _)| d == dim)) {
        return None;
    }
    let (only_b, only_a) = (missing(&b.factors, &a.factors), missing(&a.factors, &b.factors));
    let product = |factors: Factors, rest: &Dim| Dim::from_terms(vec![Term { coefficient: 1, factors }]).times(rest);
    let difference = product(only_b, &a.rest) - product(only_a, &b.rest);
    difference.defect().is_none().then_some(difference)
}

/// What `factors` has beyond `of`.
fn missing(factors: &Factors, of: &Factors) -> Factors {
    let mut left = factors.clone();
    let shared: Factors = factors
        .iter()
        .filter_map(|(dim, power)| {
            let other = of.iter().find(|(factor, _)| factor == dim)?.1;
            Some((dim.clone(), (*power).min(other)))
        })
        .collect();
    debug_assert!(contains(&left, &shared), "a part of the factors");
    remove_factors(&mut left, &shared);
    left
}
