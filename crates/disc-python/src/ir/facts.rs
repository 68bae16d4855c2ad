//! Exports facts about dims to Python, and adds them to functions.
use crate::errors::{Failure, guarded};
use disc_ir::{
    Code, Dim, Facts,
    dim::{Fact, FactError},
};
use pyo3::prelude::*;
use std::collections::HashMap;

/// A condition on sizes, such as `B % 8 == 0`.
#[pyclass(name = "Fact", module = "disc._disc", frozen)]
pub(crate) struct PyFact(Fact);

#[pymethods]
impl PyFact {
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        guarded(|| Ok(Self(parse(text)?)))
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }

    /// The names in the fact, in the order of its text.
    fn symbols(&self) -> Vec<String> {
        symbols(&self.0)
    }

    /// Returns true if the fact holds for these values of the names; `None` if a name has no value,
    /// or a side does not fit in 64 bits.
    fn holds(&self, values: HashMap<String, i64>) -> PyResult<Option<bool>> {
        guarded(|| Ok(self.0.holds(&|symbol| values.get(symbol.name()).copied())))
    }
}

fn parse(text: &str) -> Result<Fact, Failure> {
    Fact::parse(text).map_err(|error| Failure::new(Code::E0101, format!("the fact `{text}`: {error}")))
}

fn symbols(fact: &Fact) -> Vec<String> {
    let mut names = Vec::new();
    fact.visit_symbols(&mut |symbol| {
        if !names.iter().any(|known| known == symbol.name()) {
            names.push(symbol.name().to_owned());
        }
    });
    names
}

/// Adds the fact in `text`.
pub(super) fn state(facts: &mut Facts, text: &str) -> Result<(), Failure> {
    facts.add(parse(text)?).map_err(|error| refused(&error))
}

/// Adds values that `dim` often has.
pub(super) fn state_likely(facts: &mut Facts, dim: &Dim, values: Vec<i64>) -> Result<(), Failure> {
    facts.add_likely(dim, values).map_err(|error| refused(&error))
}

fn refused(error: &FactError) -> Failure {
    let fact = match error {
        FactError::Contradiction { fact, .. } | FactError::Divisor { fact } | FactError::Invalid { fact, .. } => fact,
    };
    Failure { dims: symbols(fact), ..Failure::new(Code::E0212, error.to_string()) }
}
