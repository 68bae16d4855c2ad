//! Facts and solver in their smallest form: nothing is known, and equality is that of the canonical form.
use super::Dim;

/// What is known about the dims of a function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts(());

/// Decides questions about dims.
#[derive(Clone, Debug, Default)]
pub struct Solver(());

impl Solver {
    pub fn new(_: &Facts) -> Solver {
        Solver(())
    }

    pub fn equal(&self, a: &Dim, b: &Dim) -> bool {
        a == b
    }

    pub fn product_equal(&self, a: &[Dim], b: &[Dim]) -> bool {
        Dim::product(a.iter().cloned()) == Dim::product(b.iter().cloned())
    }

    pub fn less_equal(&self, a: &Dim, b: &Dim) -> bool {
        (b - a).as_const().is_some_and(|d| d >= 0)
    }

    pub fn divisible(&self, a: &Dim, n: i64) -> bool {
        a.modulo(&Dim::constant(n)).is_const(0)
    }

    /// The fact that would make two dims equal.
    pub fn explain_unequal(&self, a: &Dim, b: &Dim) -> String {
        format!("{a} == {b}")
    }
}
