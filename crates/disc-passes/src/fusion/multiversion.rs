//! Adds variants of an entry under facts that nobody states but that hold in nearly all calls.
//!
//! With all sizes dynamic, it is not known that tensors used alike have equal sizes (queries and
//! keys), nor that a size is a multiple of its divisor (the halves of rows). This pass fuses the
//! program once to find the missing facts: equalities that `explain` names, and divisibilities that
//! make two slices equal in size. A copy of the entry that states them is a variant of it
//! (`disc_ir::variants`), which the other passes treat as one more function; each call runs the
//! first variant whose facts hold.
//!
//! Versions of a single group are no variants: they are chosen one by one, and share the groups of
//! the entry.
//!
//! Invariants: a variant is its entry with more facts, all of them about sizes known at the start
//! of a call; entries with more than a few groups have none, since kernels are compiled for each.
use crate::{
    analysis::cost_model::CostModel,
    analysis::query::Query,
    fusion::{self, Reason},
    options::Options,
    pass::{PassCx, PassDef, PassManager},
};
use disc_ir::{
    Diagnostic, Dim, Facts, Function, FunctionKind, Module, OpKind, Solver, Symbol,
    dim::{DimView, Fact, Term},
    ops::Stage,
};
use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

/// Adds variants of small entries.
pub static PASS: PassDef = PassDef {
    name: "multiversion",
    doc: "Adds variants to entries of a few groups: copies that state equalities and divisibilities which fusion lacks, run \
          where these hold.",
    stages: (Stage::Tensor, Stage::Tensor),
    run,
};

/// The most ops of an entry to consider, groups of an entry with variants, and distinct sizes of
/// its slices.
const MOST_OPS: usize = 100;
const MOST_GROUPS: usize = 8;
const MOST_SIZES: usize = 8;

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let mut added = 0;
    let varied: HashSet<Arc<str>> = module.functions.iter().filter_map(|function| function.variant_of.clone()).collect();
    for function in std::mem::take(&mut module.functions) {
        let has_variants = function.variant_of.is_some() || varied.contains(&function.name);
        let variants =
            if has_variants || function.kind != FunctionKind::Func { Vec::new() } else { variants(module, &function, cx) };
        added += variants.len();
        module.functions.push(function);
        module.functions.extend(variants);
    }
    Ok(added)
}

/// The variants of an entry, in the order in which they are tried.
fn variants(module: &Module, entry: &Function, cx: &mut PassCx) -> Vec<Function> {
    if entry.walk(entry.body).len() > MOST_OPS {
        return Vec::new();
    }
    let alike = alike(entry);
    if alike.is_empty() && parts(entry).is_empty() {
        return Vec::new();
    }
    let Some(general) = fused(module, entry, cx).filter(|general| groups(general, entry) <= MOST_GROUPS) else {
        return Vec::new();
    };
    let even = divisibilities(entry, &general);
    let mut equal = equalities(&alike, &general, &*cx.options.model);
    equal.extend(even.iter().cloned());
    let joins =
        |variant: &Function| fused(module, variant, cx).is_some_and(|fused| groups(&fused, variant) < groups(&general, entry));
    let joined = (equal.len() > even.len()).then(|| variant(entry, 1, equal)).flatten().filter(joins);
    let number = 1 + usize::from(joined.is_some());
    let even = (!even.is_empty()).then(|| variant(entry, number, even)).flatten();
    joined.into_iter().chain(even).take_while(|_| cx.spend()).collect()
}

/// A copy of an entry that also states these facts; `None` if they cannot hold.
fn variant(entry: &Function, number: usize, facts: Vec<Fact>) -> Option<Function> {
    let mut variant = entry.clone();
    facts.into_iter().try_for_each(|fact| variant.facts.add(fact)).ok()?;
    variant.name = format!("{}.variant{number}", entry.name).into();
    variant.variant_of = Some(entry.name.clone());
    Some(variant)
}

/// A module of one function, after the remaining steps up to fusion.
fn fused(module: &Module, function: &Function, cx: &PassCx) -> Option<Module> {
    let mut function = function.clone();
    function.variant_of = None;
    let mut alone = Module { functions: vec![function], weights: module.weights.clone(), ..Module::default() };
    let mut manager = PassManager::new(Options { fuel: None, ..cx.options.clone() });
    let mut rest = cx.remaining.iter().take_while(|step| step.stages.1 <= Stage::Fused);
    rest.try_for_each(|step| manager.run(&mut alone, step).map(drop)).ok().map(|()| alone)
}

/// The number of groups of a function at the fused stage.
fn groups(fused: &Module, function: &Function) -> usize {
    let function = fused.function(&function.name).expect("no pass removes an entry");
    let is_group = |&inst: &_| function.kind_of(inst) == OpKind::Fusion;
    function.walk(function.body).into_iter().filter(is_group).count()
}

/// The sizes at one position of two inputs of one rank and element type that are not known to be
/// equal.
fn alike(entry: &Function) -> HashSet<[Symbol; 2]> {
    let inputs: Vec<_> = entry.parameters().iter().filter_map(|&parameter| entry.ty(parameter).as_tensor()).collect();
    let mut found = HashSet::new();
    for (number, x) in inputs.iter().enumerate() {
        for y in inputs[..number].iter().filter(|y| y.rank() == x.rank() && y.dtype == x.dtype) {
            let sizes = x.dims.iter().zip(&y.dims).filter_map(|(a, b)| Some((a.as_symbol()?, b.as_symbol()?)));
            found.extend(sizes.filter(|(a, b)| a != b).map(|(a, b)| in_order(a, b)));
        }
    }
    found
}

fn in_order(a: &Symbol, b: &Symbol) -> [Symbol; 2] {
    [a.min(b).clone(), a.max(b).clone()]
}

/// The equalities of such sizes that keep groups apart.
fn equalities(alike: &HashSet<[Symbol; 2]>, fused: &Module, model: &dyn CostModel) -> Vec<Fact> {
    let is_expected = |fact: &Fact| match fact {
        Fact::Equal(a, b) => a.as_symbol().zip(b.as_symbol()).is_some_and(|(a, b)| alike.contains(&in_order(a, b))),
        _ => false,
    };
    let mut found = Vec::new();
    for plan in fusion::explain(fused, model) {
        let edges = plan.edges.into_iter().map(|edge| edge.reason);
        for reason in edges.chain(plan.siblings.into_iter().map(|siblings| siblings.reason)) {
            match reason {
                Reason::MissingFacts(facts) if facts.iter().all(is_expected) => found.extend(facts),
                _ => {}
            }
        }
    }
    found
}

/// The divisibilities that make two slices equal in size.
fn divisibilities(entry: &Function, fused: &Module) -> Vec<Fact> {
    let function = fused.function(&entry.name).expect("no pass removes an entry");
    let bound = entry.bound_symbols();
    let parts: Vec<Dim> = parts(function).into_iter().take(MOST_SIZES).collect();
    let (mut known, mut found) = (function.facts.clone(), Vec::new());
    for (number, first) in parts.iter().enumerate() {
        for second in &parts[..number] {
            if Solver::new(&known).equal(first, second) {
                continue;
            }
            let divided = quotients(first).into_iter().chain(quotients(second)).filter(|(symbol, _)| bound.contains(symbol));
            let facts = divided.map(|(symbol, by)| Fact::Divisible(Dim::symbol(symbol), by));
            let mut with = facts.filter_map(|fact| Some((stating(&known, &fact)?, fact)));
            if let Some((facts, fact)) = with.find(|(facts, _)| Solver::new(facts).equal(first, second)) {
                known = facts;
                found.push(fact);
            }
        }
    }
    found
}

/// These facts with one more, unless it contradicts them.
fn stating(facts: &Facts, fact: &Fact) -> Option<Facts> {
    let mut facts = facts.clone();
    facts.add(fact.clone()).is_ok().then_some(facts)
}

/// The sizes of slices that are computed by division.
fn parts(function: &Function) -> BTreeSet<Dim> {
    let slices = function.walk(function.body).into_iter().filter(|&inst| function.kind_of(inst) == OpKind::Slice);
    let sizes = slices.flat_map(|inst| function.shape(function.result(inst)).to_vec());
    sizes.filter(|size| !quotients(size).is_empty()).collect()
}

/// The symbols that a size divides by constants, alone or in a sum with constants.
fn quotients(size: &Dim) -> Vec<(Symbol, i64)> {
    let (mut found, mut open) = (Vec::new(), vec![size]);
    while let Some(dim) = open.pop() {
        match dim.view() {
            DimView::FloorDiv(dividend, by) => match (&dividend.symbols()[..], by.as_const()) {
                ([symbol], Some(by)) => found.push((symbol.clone(), by)),
                _ => open.push(dividend),
            },
            DimView::Sum(terms) => open.extend(terms.iter().flat_map(Term::factors).map(|(factor, _)| factor)),
            DimView::Min(dims) | DimView::Max(dims) => open.extend(dims),
            _ => {}
        }
    }
    found
}
