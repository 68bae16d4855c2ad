//! Writes equal sizes alike, and learns facts from assertions about sizes.
//!
//! Where `B == N` is known, types that say `[N]` say `[B]` afterwards, so that comparing types as they are written is as good as asking the
//! solver. The signature stays: it is what callers see, and what binds the dims.
//!
//! Invariant: no fact is dropped.
use crate::{
    pass::{PassCx, PassDef},
    query::Query,
};
use disc_ir::{
    Attr, Diagnostic, Dim, Facts, Function, FunctionKind, Inst, Module, OpKind, Solver, Symbol, Type, Value, dim::Fact,
    dim::Range, ops::Stage,
};
use std::collections::{BTreeSet, HashMap};

/// Gives equal sizes one form, and makes facts of assertions about sizes.
pub static PASS: PassDef = PassDef {
    name: "unify-sizes",
    doc: "Makes facts of assertions about sizes, which every call checks at its entry, and writes sizes that are equal by the facts alike.",
    stages: (Stage::Tensor, Stage::Tensor),
    run,
};

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let functions = module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func);
    Ok(functions.map(|function| learn(function, cx) + unify(function)).sum())
}

/// Moves assertions about sizes into the facts: those that every call reaches.
fn learn(function: &mut Function, cx: &mut PassCx) -> usize {
    let insts = function.insts(function.body).to_vec();
    let before = insts.len();
    let mut kept = Vec::with_capacity(before);
    for inst in insts {
        let fact = asserted(function, inst).filter(|_| cx.spend());
        let mut facts: Facts = function.facts.clone();
        match fact.map(|fact| facts.add(fact)) {
            Some(Ok(())) => function.facts = facts,
            // A fact that cannot hold: the assertion says so in its own words.
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

/// Writes equal sizes alike, everywhere but in the signature; gives the number of types and attributes that changed.
///
/// Symbols are replaced, each wherever it occurs, and nothing else: what an op infers from its operands then changes as its type does.
/// (A canonical form of each whole size would be shorter, but what an op infers from such forms may be hard to prove equal to them.)
fn unify(function: &mut Function) -> usize {
    let solver = Solver::new(&function.facts);
    let known: HashMap<Symbol, Dim> = symbols(function)
        .into_iter()
        .map(|symbol| (symbol.clone(), solver.canonical(&Dim::symbol(&symbol))))
        .filter(|(symbol, dim)| dim.as_symbol() != Some(symbol))
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
        for attr in function.inst_mut(inst).attrs.iter_mut().flatten() {
            changes += usize::from(map_attr(attr, &mut renamed));
        }
    }
    changes
}

/// The symbols of the signature: there are no others.
fn symbols(function: &Function) -> BTreeSet<Symbol> {
    let sizes = function.parameters().iter().filter_map(|&parameter| function.ty(parameter).shaped()).flat_map(|ty| &ty.dims);
    sizes.flat_map(Dim::symbols).collect()
}

/// Replaces the sizes in a value's type; says whether that changed it.
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

/// Replaces the sizes in an attribute; says whether that changed it.
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
        shapes,
        testing::{after, parse},
    };

    #[test]
    fn equal_sizes_are_written_alike_and_the_signature_stays() {
        let text = after(
            &shapes::PASS,
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
        crate::pass::PassManager::default().run(&mut module, &shapes::PASS).unwrap();
        let text = module.to_string();
        assert!(text.contains("where S <= 511"), "{text}");
        assert_eq!(text.matches("assert").count(), 1, "{text}");
    }
}
