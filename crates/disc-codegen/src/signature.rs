//! What an entry checks before it does anything: that the sizes of its inputs fit its signature.
//!
//! The runtime has checked the number, ranks and element types of the inputs. A symbol is read from the first parameter dimension that is
//! that symbol alone; every other dimension, and every fact, is compared with what the symbols make of it.
use crate::element::Site;
use disc_ir::{Code, Dim, Function, Symbol};
use std::collections::HashSet;

/// Where a symbol's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    pub symbol: Symbol,
    pub input: usize,
    pub axis: usize,
}

/// A size that must have a value known by then; where it has not, the entry fails at `site` with the size that came and the one expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeCheck {
    pub input: usize,
    pub axis: usize,
    pub expected: Dim,
    pub site: i64,
}

/// The bindings and the checks of an entry.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    pub bindings: Vec<Binding>,
    pub sizes: Vec<SizeCheck>,
}

impl Signature {
    /// The signature of an entry, whose checks get the sites from `first_site` on.
    pub fn of(entry: &Function, first_site: i64) -> Self {
        let mut found = Self::default();
        let mut bound: HashSet<Symbol> = HashSet::new();
        for (input, &parameter) in entry.parameters().iter().enumerate() {
            let Some(tensor) = entry.ty(parameter).shaped() else { continue };
            for (axis, dim) in tensor.dims.iter().enumerate() {
                match dim.as_symbol() {
                    Some(symbol) if bound.insert(symbol.clone()) => {
                        found.bindings.push(Binding { symbol: symbol.clone(), input, axis });
                    }
                    _ => {
                        let site = first_site + found.sizes.len() as i64;
                        found.sizes.push(SizeCheck { input, axis, expected: dim.clone(), site });
                    }
                }
            }
        }
        found
    }

    /// The messages of the checks, in the order of their sites.
    pub fn sites(&self, entry: &Function) -> Vec<Site> {
        let message = |check: &SizeCheck| {
            let parameter = entry.parameters()[check.input];
            let name = entry.name_of(parameter).map_or_else(|| format!("input {}", check.input), |name| format!("`{name}`"));
            format!("dimension {} of {name} has size {{0}}, expected {} = {{1}}", check.axis, check.expected)
        };
        let site = |check| Site { code: Code::E0602, op: "entry".into(), message: message(check), kernel_values: 0 };
        self.sizes.iter().map(site).collect()
    }
}
