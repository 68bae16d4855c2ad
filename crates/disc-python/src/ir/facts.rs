//! Adds facts about dims from Python, and keeps their solver.
use crate::errors::Failure;
use disc_ir::{
    Code, Dim, Facts, Solver,
    dim::{Fact, FactError},
};
use std::sync::Arc;

/// Adds the fact in `text`.
pub(super) fn state(facts: &mut Facts, text: &str) -> Result<(), Failure> {
    let fact = Fact::parse(text).map_err(|error| Failure::new(Code::E0101, format!("the fact `{text}`: {error}")))?;
    facts.add(fact).map_err(|error| refused(&error))
}

/// Adds values that `dim` often has.
pub(super) fn state_likely(facts: &mut Facts, dim: &Dim, values: Vec<i64>) -> Result<(), Failure> {
    facts.add_likely(dim, values).map_err(|error| refused(&error))
}

fn refused(error: &FactError) -> Failure {
    let fact = match error {
        FactError::Contradiction { fact, .. } | FactError::Divisor { fact } | FactError::Invalid { fact, .. } => fact,
    };
    let mut dims = Vec::new();
    fact.visit_symbols(&mut |symbol| {
        if !dims.iter().any(|known| known == symbol.name()) {
            dims.push(symbol.name().to_owned());
        }
    });
    Failure { dims, ..Failure::new(Code::E0212, error.to_string()) }
}

/// The solver for the facts of a function, made on demand.
pub(super) struct Solved(Option<Arc<Solver>>);

impl Solved {
    pub(super) fn new(facts: &Facts) -> Self {
        Self(Some(Arc::new(Solver::new(facts))))
    }

    /// Drops the solver: the facts have changed.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }

    pub(super) fn get(&mut self, facts: &Facts) -> Arc<Solver> {
        self.0.get_or_insert_with(|| Arc::new(Solver::new(facts))).clone()
    }
}
