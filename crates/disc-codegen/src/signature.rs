//! What an entry checks before it does anything: that the sizes of its inputs fit its signature.
//!
//! The runtime has checked the number, ranks and element types of the inputs. A symbol is read from the first parameter dimension that is
//! that symbol alone; every other dimension, and every fact, is compared with what the symbols make of it.
use disc_ir::{Dim, Function, Symbol};
use std::collections::HashSet;

/// Where a symbol's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    pub symbol: Symbol,
    pub input: usize,
    pub axis: usize,
}

/// A size that must have a value known by then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeCheck {
    pub input: usize,
    pub axis: usize,
    pub expected: Dim,
}

/// The bindings and the checks of an entry.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    pub bindings: Vec<Binding>,
    pub sizes: Vec<SizeCheck>,
}

impl Signature {
    pub fn of(entry: &Function) -> Self {
        let mut found = Self::default();
        let mut bound: HashSet<Symbol> = HashSet::new();
        for (input, &parameter) in entry.parameters().iter().enumerate() {
            let Some(tensor) = entry.ty(parameter).shaped() else { continue };
            for (axis, dim) in tensor.dims.iter().enumerate() {
                match dim.as_symbol() {
                    Some(symbol) if bound.insert(symbol.clone()) => {
                        found.bindings.push(Binding { symbol: symbol.clone(), input, axis });
                    }
                    _ => found.sizes.push(SizeCheck { input, axis, expected: dim.clone() }),
                }
            }
        }
        found
    }
}
