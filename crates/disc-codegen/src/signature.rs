//! What an entry checks before it does anything: that its inputs fit its signature.
//!
//! The runtime has checked the number, ranks and element types of the inputs. A symbol is read from the first parameter dimension that is
//! that symbol alone; every other dimension, and every fact, is compared with what the symbols make of it. Not checked are likely values,
//! which are hints, and facts about symbols that no input binds, which have no value at entry.
use crate::element::Site;
use disc_ir::{
    Code, Dim, Function, Symbol,
    dim::{Fact, Range},
};
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

/// A fact that must hold; where it does not, the entry fails at `site` with the value of its dim, or of both sides of an equality.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactCheck {
    pub fact: Fact,
    pub site: i64,
}

/// The bindings and the checks of an entry, in the order of their sites.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    pub bindings: Vec<Binding>,
    /// The site of an input that is not contiguous, whose number is the value.
    pub contiguous: i64,
    pub sizes: Vec<SizeCheck>,
    pub facts: Vec<FactCheck>,
}

impl Signature {
    /// The signature of an entry, whose checks get the sites from `first_site` on.
    pub fn of(entry: &Function, first_site: i64) -> Self {
        let mut found = Self { contiguous: first_site, ..Self::default() };
        let mut site = first_site;
        let mut next_site = || {
            site += 1;
            site
        };
        let mut bound: HashSet<Symbol> = HashSet::new();
        for (input, &parameter) in entry.parameters().iter().enumerate() {
            let Some(tensor) = entry.ty(parameter).shaped() else { continue };
            for (axis, dim) in tensor.dims.iter().enumerate() {
                match dim.as_symbol() {
                    Some(symbol) if bound.insert(symbol.clone()) => {
                        found.bindings.push(Binding { symbol: symbol.clone(), input, axis });
                    }
                    _ => found.sizes.push(SizeCheck { input, axis, expected: dim.clone(), site: next_site() }),
                }
            }
        }
        for fact in entry.facts.iter().filter(|fact| !matches!(fact, Fact::Likely(..))) {
            let mut known = true;
            fact.visit_symbols(&mut |symbol| known &= bound.contains(symbol));
            if known {
                found.facts.push(FactCheck { fact, site: next_site() });
            }
        }
        found
    }

    /// The messages of the checks, in the order of their sites.
    pub fn sites(&self, entry: &Function) -> Vec<Site> {
        let site = |code, message: String| Site { code, op: "entry".into(), message, kernel_values: 0 };
        let contiguous = site(Code::E0601, "input {0} has strides, expected contiguous memory in row-major order".into());
        let sizes = self.sizes.iter().map(|check| site(Code::E0602, size_message(check, entry)));
        let facts = self.facts.iter().map(|check| site(Code::E0602, fact_message(&check.fact)));
        std::iter::once(contiguous).chain(sizes).chain(facts).collect()
    }
}

fn size_message(check: &SizeCheck, entry: &Function) -> String {
    let parameter = entry.parameters()[check.input];
    let name = entry.name_of(parameter).map_or_else(|| format!("input {}", check.input), |name| format!("`{name}`"));
    format!("dimension {} of {name} has size {{0}}, expected {} = {{1}}", check.axis, check.expected)
}

fn fact_message(fact: &Fact) -> String {
    match fact {
        Fact::Equal(a, b) if b.as_const().is_some() => format!("dim {a} is {{0}}, expected {fact}"),
        Fact::Equal(a, b) => format!("dim {a} is {{0}} and dim {b} is {{1}}, expected {fact}"),
        // The bound comes last, as people write it.
        Fact::Range(dim, Range { lo: Some(lo), hi: None }) => format!("dim {dim} is {{0}}, expected {dim} >= {lo}"),
        Fact::Range(dim, _) | Fact::Divisible(dim, _) | Fact::Likely(dim, _) => format!("dim {dim} is {{0}}, expected {fact}"),
    }
}
