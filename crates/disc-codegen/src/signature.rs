//! What an entry checks before it does anything: that its inputs fit its signature.
//!
//! The runtime has checked the number, ranks and element types of the inputs. A symbol is read from the first parameter dimension that is
//! that symbol alone; every other dimension, and every fact, is compared with what the symbols make of it. A fact about a dim that an op
//! binds is checked there. Not checked are likely values, which are hints.
use crate::element::Site;
use disc_ir::{
    Block, Code, Dim, Function, Symbol,
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

/// What is checked where an op binds a dim: that it is not negative, and the facts whose last dim it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundCheck {
    pub symbol: Symbol,
    pub site: i64,
    pub facts: Vec<FactCheck>,
}

/// The bindings and the checks of an entry, in the order of their sites.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    pub bindings: Vec<Binding>,
    /// The site of an input that is not contiguous, whose number is the value.
    pub contiguous: i64,
    pub sizes: Vec<SizeCheck>,
    pub facts: Vec<FactCheck>,
    pub bound: Vec<BoundCheck>,
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
        let mut open: Vec<Fact> = entry.facts.iter().filter(|fact| !matches!(fact, Fact::Likely(..))).collect();
        found.facts = take_known(&mut open, &bound, &mut next_site);
        bound_checks(entry, entry.body, &mut bound, &mut open, &mut next_site, &mut found.bound);
        found
    }

    /// The messages of the checks, in the order of their sites.
    pub fn sites(&self, entry: &Function) -> Vec<Site> {
        let site = |code, message: String| Site { code, op: "entry".into(), message, kernel_values: 0 };
        let contiguous = site(Code::E0601, "input {0} has strides, expected contiguous memory in row-major order".into());
        let sizes = self.sizes.iter().map(|check| site(Code::E0602, size_message(check, entry)));
        let fact = |check: &FactCheck| site(Code::E0602, fact_message(&check.fact));
        let bound = self.bound.iter().flat_map(|check| {
            let negative = site(Code::E0602, format!("dim {} is {{0}}, expected 0 or more", check.symbol));
            std::iter::once(negative).chain(check.facts.iter().map(fact)).collect::<Vec<_>>()
        });
        std::iter::once(contiguous).chain(sizes).chain(self.facts.iter().map(fact)).chain(bound).collect()
    }
}

/// The facts whose dims are all known; they leave `open`.
fn take_known(open: &mut Vec<Fact>, known: &HashSet<Symbol>, next_site: &mut impl FnMut() -> i64) -> Vec<FactCheck> {
    let mut taken = Vec::new();
    open.retain(|fact| {
        let mut is_known = true;
        fact.visit_symbols(&mut |symbol| is_known &= known.contains(symbol));
        if is_known {
            taken.push(FactCheck { fact: fact.clone(), site: next_site() });
        }
        !is_known
    });
    taken
}

/// The checks of the dims that ops of a block bind, each known to the end of its block.
fn bound_checks(
    entry: &Function,
    block: Block,
    known: &mut HashSet<Symbol>,
    open: &mut Vec<Fact>,
    next_site: &mut impl FnMut() -> i64,
    found: &mut Vec<BoundCheck>,
) {
    let mut here = Vec::new();
    for &inst in entry.insts(block) {
        if let Some(symbol) = entry.bound_by(inst) {
            known.insert(symbol.clone());
            here.push(symbol.clone());
            let site = next_site();
            let facts = take_known(open, known, next_site);
            found.push(BoundCheck { symbol: symbol.clone(), site, facts });
        }
        for &region in &entry.inst(inst).regions {
            bound_checks(entry, region, known, open, next_site, found);
        }
    }
    known.retain(|symbol| !here.contains(symbol));
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
