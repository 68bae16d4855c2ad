//! Makes rewrite rules of the equations that are solved for no symbol: `B*S == 12*N` rewrites
//! `B*S`.

use super::build::Builder;
use super::system::{Rule, contains};
use crate::dim::arith::remove_factors;
use crate::dim::node::{Dim, Factors, Term};

/// More equations are not used.
const MAX_RULES: usize = 128;
/// More rules are not completed with the consequences of pairs of them.
const MAX_COMPLETED: usize = 16;
/// Most consequences of pairs, and their largest size.
const MAX_CONSEQUENCES: usize = 48;
const MAX_CONSEQUENCE: usize = 48;

impl Builder<'_> {
    /// Makes rules of the equations, and of the consequences of pairs of rules.
    pub(super) fn add_rules(&mut self) {
        let mut consequences = 0;
        // Two rounds: the second one takes the equations of rules that those of the first made
        // stale.
        for _ in 0..2 {
            let mut equations = std::mem::take(&mut self.equations);
            while !equations.is_empty() {
                let mut following = Vec::new();
                for equation in equations {
                    let Some(rule) = self.rule(&equation) else { continue };
                    if self.system.rules.len() < MAX_COMPLETED && consequences < MAX_CONSEQUENCES {
                        following.extend(self.system.rules.iter().filter_map(|other| consequence(&rule, other)));
                    }
                    self.system.rules.push(rule);
                }
                following.truncate(MAX_CONSEQUENCES - consequences);
                consequences += following.len();
                equations = following;
            }
            self.retract_stale_rules();
        }
    }

    fn rule(&mut self, equation: &Dim) -> Option<Rule> {
        if self.system.rules.len() >= MAX_RULES {
            return None;
        }
        let equation = self.reduced(&self.normal(equation));
        if self.is_decided(&equation) { None } else { Rule::from_equation(&equation) }
    }

    /// Returns rules whose left side is rewritten by other rules (or by bounds) to the equations.
    pub(super) fn retract_stale_rules(&mut self) {
        for i in (0..self.system.rules.len()).rev() {
            let rule = self.system.rules.remove(i);
            let lead = rule.lead();
            if self.normal(&lead) == lead {
                self.system.rules.insert(i, rule);
            } else {
                self.add_equation(&lead - &rule.rest);
            }
        }
    }
}

/// Returns the consequence of two rules that share a factor: both rewrite the smallest product that
/// has both left sides.
fn consequence(a: &Rule, b: &Rule) -> Option<Dim> {
    if a.coefficient != 1 || b.coefficient != 1 || !a.factors.iter().any(|(dim, _)| b.factors.iter().any(|(d, _)| d == dim)) {
        return None;
    }
    let (only_b, only_a) = (missing(&b.factors, &a.factors), missing(&a.factors, &b.factors));
    let product = |factors: Factors, rest: &Dim| Dim::from_terms(vec![Term { coefficient: 1, factors }]).times(rest);
    let difference = product(only_b, &a.rest) - product(only_a, &b.rest);
    (difference.defect().is_none() && difference.nodes() <= MAX_CONSEQUENCE).then_some(difference)
}

/// Returns the factors that `factors` has beyond `of`.
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
