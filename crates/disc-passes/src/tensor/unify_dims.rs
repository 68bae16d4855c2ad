//! Unifies equal sizes, and learns facts from assertions about sizes.
//!
//! If `B == N` is known, types that mention `[N]` mention `[B]` afterwards, so that comparing types
//! as written is as good as asking the solver. The signature stays: callers see it, and it binds
//! the dims.
//!
//! Invariant: no fact is dropped.
use crate::{
    analysis::query::Query,
    pass::{PassCx, PassDef},
};
use disc_ir::{
    Attr, Diagnostic, Dim, Facts, Function, FunctionKind, Inst, Module, OpKind, Solver, Symbol, Type, Value, dim::Fact,
    dim::Range, ops::Stage,
};
use std::collections::{BTreeSet, HashMap};

/// Gives equal sizes one form, and makes facts of assertions about sizes.
pub static PASS: PassDef = PassDef {
    name: "unify-dims",
    doc: "Makes facts of assertions about sizes, which every call checks at its entry, and gives sizes that the facts prove \
          equal one form.",
    stages: (Stage::Tensor, Stage::Tensor),
    run,
};

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let functions = module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func);
    Ok(functions.map(|function| learn(function, cx) + learn_bound(function, cx) + unify(function, cx)).sum())
}

/// Learns from ops that bind dims: a size that is a dim already, and that a count is at most the
/// number of elements counted.
fn learn_bound(function: &mut Function, cx: &mut PassCx) -> usize {
    let mut learned = 0;
    for inst in function.walk(function.body) {
        let Some(symbol) = function.bound_by(inst).next() else { continue };
        let (bound, size) = (Dim::symbol(symbol), function.operands(inst)[0]);
        let fact = match (function.as_dim(size), counted(function, size)) {
            (Some(dim), _) => Fact::Equal(bound, dim),
            (None, Some(most)) => Fact::Range(bound - most, Range { lo: None, hi: Some(0) }),
            (None, None) => continue,
        };
        let before = function.facts.len();
        // A fact that cannot hold is reported when the size is bound.
        if cx.spend() && function.facts.add(fact).is_ok() {
            learned += usize::from(function.facts.len() > before);
        }
    }
    learned
}

/// The number of counted elements, for a value that sums the booleans of a tensor.
fn counted(function: &Function, value: Value) -> Option<Dim> {
    let sum = function.made_by(value, OpKind::Reduce)?;
    let [input, init] = function.operands(sum) else { return None };
    let ones = function.made_by(*input, OpKind::Convert)?;
    let mask = function.operands(ones)[0];
    let from_zero = function.splat(*init).is_some_and(|zero| zero.i64_at(0) == 0);
    let region = function.inst(sum).regions[0];
    let adds = function.insts(region).first().is_some_and(|&op| function.kind_of(op) == OpKind::Add);
    let of_truth = function.ty(mask).dtype() == disc_ir::DType::I1 && function.ty(value).as_tensor()?.rank() == 0;
    (from_zero && adds && of_truth && function.insts(region).len() == 2)
        .then(|| Dim::product(function.shape(mask).iter().cloned()))
}

/// Moves assertions about sizes that every call reaches into the facts.
fn learn(function: &mut Function, cx: &mut PassCx) -> usize {
    let insts = function.insts(function.body).to_vec();
    let before = insts.len();
    let mut kept = Vec::with_capacity(before);
    for inst in insts {
        let fact = asserted(function, inst).filter(|_| cx.spend());
        let mut facts: Facts = function.facts.clone();
        match fact.map(|fact| facts.add(fact)) {
            Some(Ok(())) => function.facts = facts,
            // For a fact that cannot hold, the assertion stays and reports it in its own words.
            Some(Err(_)) | None => kept.push(inst),
        }
    }
    let learned = before - kept.len();
    function.set_insts(function.body, kept);
    learned
}

/// The fact that an assertion about sizes states.
fn asserted(function: &Function, inst: Inst) -> Option<Fact> {
    if function.kind_of(inst) != OpKind::Assert {
        return None;
    }
    let compare = function.made_by(*function.operands(inst).first()?, OpKind::Compare)?;
    let [a, b] = [0, 1].map(|i| function.as_dim(function.operands(compare)[i]));
    let (a, b): (Dim, Dim) = (a?, b?);
    let at_most = |difference: Dim| Some(Fact::Range(difference, Range { lo: None, hi: Some(0) }));
    match function.word(compare, "direction") {
        "EQ" => Some(Fact::Equal(a, b)),
        "LE" => at_most(a - b),
        "LT" => at_most(a - b + 1),
        "GE" => at_most(b - a),
        "GT" => at_most(b - a + 1),
        _ => None,
    }
}

/// Gives equal sizes one form, except in the signature; returns the number of changed types and
/// attributes.
///
/// Only symbols are replaced, each wherever it occurs, so that an inferred type changes as its
/// operands do. (A canonical form of each whole size would be shorter, but sizes inferred from such
/// forms may be hard to prove equal to them.)
fn unify(function: &mut Function, cx: &mut PassCx) -> usize {
    // A dim that an op binds is never used where it has no value yet.
    let inner: HashMap<Symbol, u32> = function.data_dims().into_iter().zip(1..).collect();
    let rank = |symbol: &Symbol| inner.get(symbol).copied().unwrap_or(0);
    let solver = Solver::with_ranks(&function.facts, &rank);
    let known: HashMap<Symbol, Dim> = symbols(function)
        .into_iter()
        .map(|symbol| (symbol.clone(), solver.canonical(&Dim::symbol(&symbol))))
        .filter(|(symbol, dim)| dim.as_symbol() != Some(symbol))
        .filter(|(symbol, dim)| dim.symbols().iter().all(|other| rank(other) <= rank(symbol)))
        .filter(|_| cx.spend())
        .collect();
    if known.is_empty() {
        return 0;
    }
    let mut renamed = |dim: &Dim| dim.substitute(&|symbol| known.get(symbol).cloned());
    let mut changes = 0;
    for inst in function.walk(function.body) {
        let regions = &function.inst(inst).regions;
        let mut values: Vec<Value> = regions.iter().flat_map(|&region| function.arguments(region)).copied().collect();
        values.extend(function.results_of(inst));
        for value in values {
            changes += usize::from(map_type(function, value, &mut renamed));
        }
        if function.bound_by(inst).next().is_some() {
            continue;
        }
        for attr in function.inst_mut(inst).attrs.iter_mut().flatten() {
            changes += usize::from(map_attr(attr, &mut renamed));
        }
    }
    changes
}

/// The symbols of the signature, and those that ops bind.
fn symbols(function: &Function) -> BTreeSet<Symbol> {
    let sizes = function.parameters().iter().filter_map(|&parameter| function.ty(parameter).shaped()).flat_map(|ty| &ty.dims);
    sizes.flat_map(Dim::symbols).chain(function.data_dims()).collect()
}

/// Replaces the sizes in a value's type; returns true if that changed it.
pub(crate) fn map_type(function: &mut Function, value: Value, map: &mut dyn FnMut(&Dim) -> Dim) -> bool {
    let Type::Tensor(tensor) = function.ty(value) else { return false };
    let dims: Vec<Dim> = tensor.dims.iter().map(map).collect();
    let changed = dims != tensor.dims;
    if changed {
        let ty = Type::tensor(dims, tensor.dtype);
        function.set_type(value, ty);
    }
    changed
}

/// Replaces the sizes in an attribute; returns true if that changed it.
pub(crate) fn map_attr(attr: &mut Attr, map: &mut dyn FnMut(&Dim) -> Dim) -> bool {
    let new = match attr {
        Attr::Dim(dim) => Attr::Dim(map(dim)),
        Attr::Dims(dims) => Attr::Dims(dims.iter().map(map).collect()),
        _ => return false,
    };
    let changed = new != *attr;
    *attr = new;
    changed
}

#[cfg(test)]
mod tests {
    use crate::{
        tensor::unify_dims,
        testing::{after, parse},
    };

    #[test]
    fn equal_sizes_are_written_alike_and_the_signature_stays() {
        let text = after(
            &unify_dims::PASS,
            "func @f(%x: tensor<[B]xf32>, %y: tensor<[N]xf32>) -> tensor<[N]xf32> where B == N {
              %a = negate %y : tensor<[N]xf32>
              %b = negate %x : tensor<[B]xf32>
              return %a : tensor<[N]xf32>
            }",
        );
        assert!(text.contains("%a = negate %y : (tensor<[N]xf32>) -> tensor<[B]xf32>"), "{text}");
        assert!(text.contains("%y: tensor<[N]xf32>) -> tensor<[N]xf32> where B == N"), "{text}");
    }

    #[test]
    fn a_size_is_not_written_by_one_that_is_bound_later() {
        let text = after(
            &unify_dims::PASS,
            "func @f(%x: tensor<[N]xf32>, %n: tensor<i64>) -> tensor<[N]xf32> where N == S*S {
              %a = negate %x : tensor<[N]xf32>
              bind_dim %n, dim = [S] : tensor<i64>
              %i = iota dim = 0 : tensor<[S]xf32>
              return %a : tensor<[N]xf32>
            }",
        );
        assert!(text.contains("%a = negate %x : tensor<[N]xf32>"), "{text}");
    }

    #[test]
    fn a_count_is_at_most_what_is_counted_and_a_known_size_is_one() {
        let text = after(
            &unify_dims::PASS,
            "func @f(%x: tensor<[N]xi1>) -> (tensor<[K]xi64>, tensor<[A]xi64>) {
              %zero = constant dense<0> : tensor<i64>
              %ones = convert %x : (tensor<[N]xi1>) -> tensor<[N]xi64>
              %n = reduce %ones, %zero, dims = [0] : (tensor<[N]xi64>, tensor<i64>) -> tensor<i64> applies add
              bind_dim %n, dim = [K] : tensor<i64>
              %p = nonzero %x : (tensor<[N]xi1>) -> tensor<[K]xi64>
              %size = dim [2*N] : tensor<i64>
              bind_dim %size, dim = [A] : tensor<i64>
              %i = iota dim = 0 : tensor<[A]xi64>
              return %p, %i : (tensor<[K]xi64>, tensor<[A]xi64>)
            }",
        );
        assert!(text.contains("K-N <= 0") && text.contains("A == 2*N"), "{text}");
        assert!(text.contains("%i = iota dim = 0 : tensor<[2*N]xi64>"), "{text}");
    }

    #[test]
    fn assertions_about_sizes_become_facts() {
        let mut module = parse(
            "func @f(%x: tensor<[B]x[S]xf32>) -> tensor<[B]x[S]xf32> {
              %b = dim [B] : tensor<i64>
              %s = dim [S] : tensor<i64>
              %n = constant dense<512> : tensor<i64>
              %p = compare LT, %s, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
              assert %p, message = \"too long\" : tensor<i1>
              %q = compare NE, %b, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
              assert %q : tensor<i1>
              return %x : tensor<[B]x[S]xf32>
            }",
        );
        crate::pass::PassManager::default().run(&mut module, &unify_dims::PASS).unwrap();
        let text = module.to_string();
        assert!(text.contains("where S <= 511"), "{text}");
        assert_eq!(text.matches("assert").count(), 1, "{text}");
    }
}
