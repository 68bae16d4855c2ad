//! Draws conclusions from facts: equality, order, divisibility and ranges of dims.
//!
//! A solver is built once from the facts of a function and asked many times; answers are kept. It
//! proves or it does not know: a `false` never says that the opposite holds.
//!
//! Every equality is solved for a symbol (or, if that is not possible, becomes a rule that rewrites
//! a product), and every divisibility `e % n == 0` gets a hidden symbol `q` with `e = n*q`. So each
//! dim has a normal form over the remaining symbols; two dims are equal if their difference is 0.
//! `canonical` puts the hidden symbols back (`q` is `e/n`).
//!
//! Invariants:
//! - A proved relation holds for every binding of the symbols to numbers >= 0 that satisfies the
//!   facts. If no binding does ([`Solver::contradiction`]), anything may be proved.
//! - `canonical` is idempotent, and its result equals its argument under the facts.
//! - Answers do not depend on the order of the questions.

mod build;
mod narrow;
mod normal;
mod question;
mod rules;
mod system;

use std::collections::HashMap;
use std::sync::Mutex;

use super::interval::Interval;
use super::{Dim, Facts, Symbol};

/// Proves things about dims from facts. See the [module page](self).
pub struct Solver {
    system: system::System,
    memo: Mutex<Memo>,
}

/// Memo of earlier answers. Bounded: a full memo is emptied.
#[derive(Default)]
struct Memo {
    normal: HashMap<Dim, Dim>,
    canonical: HashMap<Dim, Dim>,
    intervals: HashMap<Dim, Interval>,
    equal: HashMap<(Dim, Dim), bool>,
    /// Nesting depth of the current normal form.
    nesting: usize,
}

impl Memo {
    const MAX_ENTRIES: usize = 1 << 16;

    fn trim(&mut self) {
        if self.normal.len() + self.canonical.len() + self.intervals.len() + self.equal.len() > Self::MAX_ENTRIES {
            *self = Memo::default();
        }
    }
}

impl Solver {
    /// Builds the solver for these facts. Of equal dims, the one with the first name represents
    /// all.
    pub fn new(facts: &Facts) -> Solver {
        Solver::with_ranks(facts, &|_| 0)
    }

    /// Like [`Solver::new`], but a symbol of lower rank represents those of higher rank: the rank
    /// is the depth of the scope that binds the symbol, so that canonical dims use symbols of the
    /// outer scope where they can.
    pub fn with_ranks(facts: &Facts, rank: &dyn Fn(&Symbol) -> u32) -> Solver {
        Solver { system: build::build(facts, rank), memo: Mutex::default() }
    }

    fn ask<T>(&self, question: impl FnOnce(&system::System, &mut Memo) -> T) -> T {
        // A panic elsewhere cannot leave a wrong entry: entries are only ever inserted complete.
        let mut memo = self.memo.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        memo.trim();
        question(&self.system, &mut memo)
    }
}

impl std::fmt::Debug for Solver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.system.fmt(f)
    }
}

impl Default for Solver {
    fn default() -> Self {
        Solver::new(&Facts::new())
    }
}
