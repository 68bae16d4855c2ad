//! Represents symbolic dimensions: integer expressions over named dims.
//!
//! A [`Dim`] is an expression over [`Symbol`]s (`B`, `S`) with `+`, `-`, `*`, floor division,
//! remainder, min and max. It is kept in canonical form by its constructors, so that equality,
//! order and hash are plain structural comparisons. `docs/dims.md` has the grammar of the text form
//! and the list of simplifications.
//!
//! A `Dim` stores no facts: it means the same for all integers. The facts about the dims of one
//! function are in `Facts`, and `Solver` uses them.
//!
//! Invariants:
//! - An expression denotes one integer for every binding of its symbols to integers, without
//!   overflow. `a / 0` and `a % 0` are 0; `/` rounds down, `%` has the sign of the divisor. Every
//!   simplification of a constructor keeps that value.
//! - Nothing panics and nothing wraps. A constant beyond 64 bits or an expression beyond
//!   [`MAX_NODES`] and [`MAX_DEPTH`] gives an invalid dim, which absorbs every operation; see
//!   [`Dim::defect`]. A dim is checked before it is stored in a type.
//! - `Dim::parse(&dim.to_string()) == dim` for every valid dim.
//! - The form and the order of terms depend on names only: never on addresses, ids, or the order of
//!   construction.

mod arith;
mod bounds;
mod display;
mod division;
mod extremum;
mod fact;
mod facts;
mod interval;
mod lower;
mod node;
mod ops;
mod parse;
mod periodic;
mod remainder;
mod residues;
mod solver;
mod symbol;

pub use arith::MAX_PRODUCT_TERMS;
pub use fact::Fact;
pub use facts::{FactError, Facts};
pub use interval::Range;
pub use lower::{DimLowering, EvalError};
pub use node::{Defect, Dim, MAX_DEPTH, MAX_NODES, Term};
pub use parse::{DimParseError, MAX_TEXT};
pub use solver::Solver;
pub use symbol::Symbol;

use node::{Kind, Repr};

/// The structure of a dim, for code that takes one apart. To turn a dim into code or numbers,
/// [`Dim::lower`] is simpler.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DimView<'a> {
    /// A number.
    Const(i64),
    /// A symbol.
    Symbol(&'a Symbol),
    /// A sum of products: also `2*B` and `B*S`, which are sums of one term.
    Sum(&'a [Term]),
    /// Rounds down; 0 for a divisor of 0. A constant divisor is not 0 or 1 (and, but for
    /// `i64::MIN`, is positive).
    FloorDiv(&'a Dim, &'a Dim),
    /// Has the sign of the divisor; 0 for a divisor of 0. The divisor is no constant: `S % 8` is
    /// the sum `S - 8*(S/8)`.
    Mod(&'a Dim, &'a Dim),
    /// Two or more operands.
    Min(&'a [Dim]),
    /// Two or more operands.
    Max(&'a [Dim]),
    /// Not representable: to be reported.
    Invalid(Defect),
}

impl Dim {
    /// A number.
    pub const fn constant(value: i64) -> Dim {
        Dim(Repr::Const(value))
    }

    /// The dim named `symbol`.
    pub fn symbol(symbol: impl Into<Symbol>) -> Dim {
        Dim(Repr::Symbol(symbol.into()))
    }

    /// Returns the value of a constant, else `None`.
    pub fn as_const(&self) -> Option<i64> {
        if let Repr::Const(value) = self.0 { Some(value) } else { None }
    }

    /// Returns true if this is the constant `value`.
    pub fn is_const(&self, value: i64) -> bool {
        self.as_const() == Some(value)
    }

    /// Returns the symbol if this is nothing else.
    pub fn as_symbol(&self) -> Option<&Symbol> {
        if let Repr::Symbol(symbol) = &self.0 { Some(symbol) } else { None }
    }

    /// Returns the reason why this is no usable dim, if it is none.
    pub fn defect(&self) -> Option<Defect> {
        if let Repr::Invalid(defect) = self.0 { Some(defect) } else { None }
    }

    /// The symbols in the expression, sorted, each once.
    pub fn symbols(&self) -> Vec<Symbol> {
        let mut symbols = Vec::new();
        self.visit_symbols(&mut |symbol| symbols.push(symbol.clone()));
        symbols.sort();
        symbols.dedup();
        symbols
    }

    /// Calls `visit` for each occurrence of a symbol.
    pub fn visit_symbols(&self, visit: &mut dyn FnMut(&Symbol)) {
        match &self.0 {
            Repr::Const(_) | Repr::Invalid(_) => {}
            Repr::Symbol(symbol) => visit(symbol),
            Repr::Node(node) => match &node.kind {
                Kind::Sum(terms) => {
                    terms.iter().flat_map(|term| &term.factors).for_each(|(factor, _)| factor.visit_symbols(visit));
                }
                Kind::FloorDiv(a, b) | Kind::Mod(a, b) => [a, b].into_iter().for_each(|dim| dim.visit_symbols(visit)),
                Kind::Min(dims) | Kind::Max(dims) => dims.iter().for_each(|dim| dim.visit_symbols(visit)),
            },
        }
    }

    /// The outermost operation and its operands.
    pub fn view(&self) -> DimView<'_> {
        match &self.0 {
            Repr::Const(value) => DimView::Const(*value),
            Repr::Symbol(symbol) => DimView::Symbol(symbol),
            Repr::Invalid(defect) => DimView::Invalid(*defect),
            Repr::Node(node) => match &node.kind {
                Kind::Sum(terms) => DimView::Sum(terms),
                Kind::FloorDiv(a, b) => DimView::FloorDiv(a, b),
                Kind::Mod(a, b) => DimView::Mod(a, b),
                Kind::Min(dims) => DimView::Min(dims),
                Kind::Max(dims) => DimView::Max(dims),
            },
        }
    }
}

impl Default for Dim {
    fn default() -> Self {
        Dim::constant(0)
    }
}

impl From<i64> for Dim {
    fn from(value: i64) -> Self {
        Dim::constant(value)
    }
}

impl From<Symbol> for Dim {
    fn from(symbol: Symbol) -> Self {
        Dim::symbol(symbol)
    }
}

impl From<&Symbol> for Dim {
    fn from(symbol: &Symbol) -> Self {
        Dim::symbol(symbol)
    }
}

impl From<&Dim> for Dim {
    fn from(dim: &Dim) -> Self {
        dim.clone()
    }
}

#[cfg(test)]
mod tests;
