//! Collects the checks that an entry makes first: that its inputs fit its signature.
//!
//! The runtime has checked the number, ranks and element types of the inputs. Symbols are read or
//! solved for ([`disc_ir::binding`]); every other size, and every fact, is compared with its value
//! computed from the symbols. A fact about a dim that an op binds is checked there. Not checked are
//! likely values, which are hints.
use crate::kernel::Site;
use disc_ir::{
    Block, Code, Dim, Function, OpKind, Symbol,
    binding::{Binding, bindings},
    dim::{Fact, Facts, Range},
    ops::demands,
};
use std::collections::{HashMap, HashSet};

/// A size that must have a value known by then; otherwise the entry fails at `site` with the size
/// that came and the one expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeCheck {
    pub input: usize,
    pub axis: usize,
    pub expected: Dim,
    pub site: i64,
}

/// A fact that must hold; otherwise the entry fails at `site` with the value of its dim, or of both
/// sides of an equality.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactCheck {
    pub fact: Fact,
    pub site: i64,
}

/// The checks at an op that binds a dim: that it is not negative, and the facts whose last dim it
/// is.
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
    /// Computes the signature of an entry, whose checks get the sites from `first_site` on.
    pub fn of(entry: &Function, first_site: i64) -> Self {
        let mut found = Self { contiguous: first_site, ..Self::default() };
        let mut site = first_site;
        let mut next_site = || {
            site += 1;
            site
        };
        found.bindings = bindings(entry);
        let read: HashSet<(usize, usize)> =
            found.bindings.iter().filter(|b| b.is_plain()).map(|b| (b.parameter, b.axis)).collect();
        for (input, &parameter) in entry.parameters().iter().enumerate() {
            let Some(tensor) = entry.ty(parameter).shaped() else { continue };
            let compared = tensor.dims.iter().enumerate().filter(|(axis, _)| !read.contains(&(input, *axis)));
            for (axis, dim) in compared {
                found.sizes.push(SizeCheck { input, axis, expected: dim.clone(), site: next_site() });
            }
        }
        let mut bound: HashSet<Symbol> = found.bindings.iter().map(|b| b.symbol.clone()).collect();
        // A symbol that was solved for may be negative.
        let solved = found.bindings.iter().filter(|binding| !binding.is_plain());
        let solved = solved.map(|b| Fact::Range(Dim::symbol(&b.symbol), Range { lo: Some(0), hi: None }));
        let stated = entry.facts.iter().filter(|fact| !matches!(fact, Fact::Likely(..)));
        let mut open: Vec<Fact> = solved.chain(stated).collect();
        found.facts = take_known(&mut open, &bound, &mut next_site);
        bound_checks(entry, entry.body, &mut bound, &mut open, &mut next_site, &mut found.bound);
        found
    }

    /// The messages of the checks, in the order of their sites.
    pub fn sites(&self, entry: &Function) -> Vec<Site> {
        let site = |code, message: String| Site { code, op: "entry".into(), message, kernel_values: 0 };
        let contiguous = site(Code::E0601, "input {0} has strides, expected contiguous memory in row-major order".into());
        let sizes = self.sizes.iter().map(|check| site(Code::E0602, size_message(check, entry)));
        let asked = asked(entry);
        let fact = |check: &FactCheck| {
            let asks = if let Fact::Range(dim, _) = &check.fact { asked.get(dim) } else { None };
            let why = asks.map_or_else(String::new, |op| format!(", as `{op}` needs"));
            site(Code::E0602, fact_message(&check.fact) + &why)
        };
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
        for symbol in entry.bound_by(inst) {
            known.insert(symbol.clone());
            here.push(symbol.clone());
            if entry.kind_of(inst) == OpKind::LayoutArena {
                continue;
            }
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

/// The dims that ops place demands on, with the first op that does.
fn asked(entry: &Function) -> HashMap<Dim, &'static str> {
    let mut found = HashMap::new();
    for inst in entry.walk(entry.body) {
        for demand in demands(entry, inst) {
            // The dim is in the form in which facts are stored.
            let mut facts = Facts::new();
            let added = facts.add(Fact::Range(demand.excess(), Range { lo: None, hi: Some(0) }));
            if let (Ok(()), Some(Fact::Range(dim, _))) = (added, facts.iter().next()) {
                found.entry(dim).or_insert(entry.def(inst).name);
            }
        }
    }
    found
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

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        let module = disc_ir::parse(text).unwrap();
        let entry = &module.functions[0];
        Signature::of(entry, 1).sites(entry).into_iter().map(|site| site.message).skip(1).collect()
    }

    #[test]
    fn a_fact_that_an_op_needs_names_the_op() {
        let text = "host @main(%x: buffer<[S]xf32>) -> tensor<8xf32> where 8 <= S, S <= 64 {
          %o = alloc_output index = 0 : buffer<8xf32>
          fusion pointwise, %x, %o : (buffer<[S]xf32>, buffer<8xf32>) -> () body(%t: tensor<[S]xf32>) {
            %y = slice %t [0:8] : (tensor<[S]xf32>) -> tensor<8xf32>
            return %y : tensor<8xf32>
          }
          return
        }";
        assert_eq!(messages(text), ["dim S is {0}, expected 8 <= S <= 64, as `slice` needs"]);
    }

    #[test]
    fn symbols_that_are_solved_for_are_checked() {
        let text = "host @main(%x: buffer<[2*B+S]x[S]xf32>) { return }";
        let signature = Signature::of(&disc_ir::parse(text).unwrap().functions[0], 1);
        let order: Vec<String> = signature.bindings.iter().map(|b| b.symbol.to_string()).collect();
        assert_eq!(order, ["S", "B"]);
        let wanted = ["dimension 0 of `x` has size {0}, expected 2*B+S = {1}", "dim B is {0}, expected B >= 0"];
        assert_eq!(messages(text), wanted);
    }
}
