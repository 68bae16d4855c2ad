//! Determines the dims of a function from the sizes of a call.
//!
//! A symbol that is a size of a parameter is that size. One that occurs only within larger
//! expressions is solved for, if it is the one unknown of a sum: `[2*B]`, `[S+3]`, `[2*B+S]` once
//! `S` is known.
//!
//! Invariant: a caller that binds symbols this way checks every size against its expression, and
//! refuses symbols below 0: then the solution is unique.
use crate::{
    dim::{Dim, DimView, Symbol},
    graph::Function,
};
use std::collections::BTreeSet;

/// Longest chain of sizes that determine each other.
pub(crate) const MOST_ROUNDS: usize = 16;

/// The equation that determines a symbol: the size is `scale * symbol + rest`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    pub symbol: Symbol,
    pub parameter: usize,
    pub axis: usize,
    /// Not 0.
    pub scale: i64,
    /// Only of symbols that are bound before.
    pub rest: Dim,
}

impl Binding {
    /// Returns true if the size is only the symbol.
    pub fn is_plain(&self) -> bool {
        self.scale == 1 && self.rest.is_const(0)
    }

    /// Solves for the symbol, given a size and the value of `rest`; the size may contradict the
    /// result.
    pub fn solve(&self, size: i64, rest: i64) -> i64 {
        size.wrapping_sub(rest).checked_div_euclid(self.scale).unwrap_or(-1)
    }
}

/// Returns the bindings of a function's dims, in the order in which they can be made: first the
/// symbols that are whole sizes.
pub fn bindings(function: &Function) -> Vec<Binding> {
    let shaped = function.parameters().iter().map(|&parameter| function.ty(parameter).shaped());
    let sizes = shaped.enumerate().flat_map(|(i, tensor)| {
        tensor.into_iter().flat_map(move |tensor| tensor.dims.iter().enumerate().map(move |(axis, dim)| (i, axis, dim)))
    });
    let (alone, mut open): (Vec<_>, Vec<_>) = sizes.partition(|(_, _, dim)| dim.as_symbol().is_some());
    let mut known: BTreeSet<Symbol> = BTreeSet::new();
    let mut found = Vec::new();
    let mut learn = |known: &mut BTreeSet<Symbol>, (parameter, axis, dim): (usize, usize, &Dim)| {
        let Some(Solvable { symbol, scale }) = solvable(dim, known) else { return false };
        let rest = dim.substitute(&|s| (*s == symbol).then(|| Dim::constant(0)));
        known.insert(symbol.clone());
        found.push(Binding { symbol, parameter, axis, scale, rest });
        true
    };
    for size in alone {
        learn(&mut known, size);
    }
    for _ in 0..MOST_ROUNDS {
        let before = open.len();
        open.retain(|&size| !learn(&mut known, size));
        if open.len() == before {
            break;
        }
    }
    found
}

/// The equation that determines a symbol: `size = scale * symbol + known`.
pub(crate) struct Solvable {
    pub(crate) symbol: Symbol,
    pub(crate) scale: i64,
}

/// Returns the one unknown symbol of `dim`, if its value follows from that of `dim`.
pub(crate) fn solvable(dim: &Dim, known: &BTreeSet<Symbol>) -> Option<Solvable> {
    let unknown: Vec<Symbol> = dim.symbols().into_iter().filter(|symbol| !known.contains(symbol)).collect();
    let [symbol] = &unknown[..] else { return None };
    let scale = match dim.view() {
        DimView::Symbol(_) => 1,
        DimView::Sum(terms) => {
            let mentions = |dim: &Dim| dim.symbols().contains(symbol);
            let mut with = terms.iter().filter(|term| term.factors().iter().any(|(factor, _)| mentions(factor)));
            match (with.next(), with.next()) {
                (Some(term), None) if matches!(term.factors(), [(factor, 1)] if factor.as_symbol() == Some(symbol)) => {
                    term.coefficient()
                }
                _ => return None,
            }
        }
        _ => return None,
    };
    Some(Solvable { symbol: symbol.clone(), scale })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn of(parameters: &str) -> Vec<String> {
        let module = parse(&format!("func @f({parameters}) {{ return }}")).unwrap();
        let text = |b: &Binding| format!("{}: {} of {}.{} less {}", b.symbol, b.scale, b.parameter, b.axis, b.rest);
        bindings(&module.functions[0]).iter().map(text).collect()
    }

    #[test]
    fn symbols_that_stand_alone_come_first() {
        assert_eq!(of("%x: tensor<[2*B+S]xf32>, %y: tensor<[S]x[S]xf32>"), ["S: 1 of 1.0 less 0", "B: 2 of 0.0 less S"]);
    }

    #[test]
    fn a_chain_is_solved_and_a_product_is_not() {
        assert_eq!(of("%x: tensor<[A+B]x[B+3]xf32>"), ["B: 1 of 0.1 less 3", "A: 1 of 0.0 less B"]);
        assert_eq!(of("%x: tensor<[8-S]xf32>"), ["S: -1 of 0.0 less 8"]);
        assert_eq!(of("%x: tensor<[A*B]xf32>"), [""; 0]);
    }

    #[test]
    fn a_size_that_is_no_multiple_gives_a_value_that_contradicts_it() {
        let binding = Binding { symbol: "B".into(), parameter: 0, axis: 0, scale: 2, rest: Dim::constant(3) };
        assert_eq!([binding.solve(7, 3), binding.solve(8, 3), binding.solve(1, 3)], [2, 2, -1]);
        let binding = Binding { scale: -1, ..binding };
        assert_eq!([binding.solve(1, 3), binding.solve(5, 3), binding.solve(i64::MIN, i64::MAX)], [2, -2, -1]);
    }
}
