//! Specialises an entry for given values of its dims, as a program of its own.
//!
//! It is no pass: it makes a second program, which goes through the whole pipeline with constant
//! sizes.
//!
//! Invariants: the program computes the results of the entry for these sizes and refuses others;
//! dims without a value stay dynamic.
use crate::{
    analysis::query::Query,
    tensor::{
        dce::weight_names,
        unify_dims::{map_attr, map_type},
    },
};
use disc_ir::{Attr, Code, Diagnostic, Dim, Facts, Function, Module, OpKind, Symbol, Type, Value, dim::Fact};
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

/// Returns the entry `name` of a module at the tensor stage with these dims as constants, together
/// with the functions that it calls and the weights that they read.
///
/// # Errors
/// There is no such function, or its facts do not hold for these values.
pub fn specialize(module: &Module, name: &str, values: &BTreeMap<Symbol, i64>) -> Result<Module, Diagnostic> {
    let entry = module.function(name);
    let entry = entry.ok_or_else(|| Diagnostic::new(Code::E0103, format!("there is no function @{name}")))?;
    let mut specialized = entry.clone();
    fix_dims(&mut specialized, values)?;
    let mut functions = vec![specialized];
    functions.extend(called(module, entry).into_iter().cloned());
    let read: HashSet<Arc<str>> = functions.iter().flat_map(weight_names).collect();
    let weights = module.weights.iter().filter(|weight| read.contains(&weight.name)).cloned().collect();
    Ok(Module { functions, weights, lines: module.lines.clone() })
}

/// Replaces dims by constants everywhere in a function.
fn fix_dims(function: &mut Function, values: &BTreeMap<Symbol, i64>) -> Result<(), Diagnostic> {
    let constant = |symbol: &Symbol| values.get(symbol).map(|&value| Dim::constant(value));
    // A likely value of a constant is no hint any more.
    let is_hint = |fact: &Fact| matches!(fact, Fact::Likely(dim, _) if dim.symbols().iter().any(|s| values.contains_key(s)));
    let mut facts = Facts::new();
    let stated = function.facts.iter().filter(|fact| !is_hint(fact)).try_for_each(|fact| facts.add(fact));
    let facts = stated.and_then(|()| facts.substitute(&constant));
    function.facts = facts.map_err(|error| Diagnostic::new(Code::E0212, error.to_string()))?;
    let mut fixed = |dim: &Dim| dim.substitute(&constant);
    let insts = function.walk(function.body);
    let blocks = insts.iter().flat_map(|&inst| function.inst(inst).regions.iter().copied()).chain([function.body]);
    let arguments: Vec<Value> = blocks.flat_map(|block| function.arguments(block).to_vec()).collect();
    let results: Vec<Value> = insts.iter().flat_map(|&inst| function.results_of(inst).to_vec()).collect();
    for value in arguments.into_iter().chain(results) {
        map_type(function, value, &mut fixed);
    }
    for inst in insts {
        for attr in function.inst_mut(inst).attrs.iter_mut().flatten() {
            map_attr(attr, &mut fixed);
        }
    }
    for result in &mut function.results {
        if let Type::Tensor(tensor) = result {
            *result = Type::tensor(tensor.dims.iter().map(&mut fixed), tensor.dtype);
        }
    }
    Ok(())
}

/// The functions that a function calls, directly or indirectly.
fn called<'m>(module: &'m Module, entry: &Function) -> Vec<&'m Function> {
    let (mut found, mut open): (Vec<&Function>, Vec<Arc<str>>) = (Vec::new(), callees(entry));
    while let Some(name) = open.pop() {
        let known = found.iter().any(|function| function.name == name);
        if let Some(function) = module.function(&name).filter(|_| !known) {
            open.extend(callees(function));
            found.push(function);
        }
    }
    found
}

fn callees(function: &Function) -> Vec<Arc<str>> {
    let calls = function.walk(function.body).into_iter().filter(|&inst| function.kind_of(inst) == OpKind::Call);
    let names = calls.filter_map(|call| match function.attr(call, "callee") {
        Some(Attr::Symbol(name)) => Some(Arc::clone(name)),
        _ => None,
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;

    const PROGRAM: &str = "
func @main(%x: tensor<[B]x[S]xf32>, %y: tensor<[2*S]xf32>) -> tensor<[B]x[S+1]xf32> where S <= 64, S % 2 == 0, S likely [8, 10] {
  %w = weight @w : tensor<4xf32>
  %zero = constant dense<0.0> : tensor<f32>
  %p = pad %x, %zero, low = [0, 0], high = [0, 1] : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]x[S+1]xf32>
  %r = call @twice(%p) : (tensor<[B]x[S+1]xf32>) -> tensor<[B]x[S+1]xf32>
  return %r : tensor<[B]x[S+1]xf32>
}
func @twice(%x: tensor<[B]x[N]xf32>) -> tensor<[B]x[N]xf32> {
  %y = add %x, %x : tensor<[B]x[N]xf32>
  return %y : tensor<[B]x[N]xf32>
}
func @other(%x: tensor<[B]xf32>) -> tensor<[B]xf32> {
  return %x : tensor<[B]xf32>
}
weight @w : tensor<4xf32>
weight @v : tensor<4xf32>";

    fn of(values: &[(&str, i64)]) -> Result<Module, Diagnostic> {
        specialize(&parse(PROGRAM), "main", &values.iter().map(|&(name, value)| (Symbol::new(name), value)).collect())
    }

    #[test]
    fn dims_become_constants_everywhere() {
        let module = of(&[("B", 3), ("S", 8)]).unwrap();
        disc_ir::verify::verify(&module, disc_ir::ops::Stage::Tensor).unwrap();
        let entry = module.function("main").unwrap();
        assert!(entry.bound_symbols().is_empty() && entry.facts.is_empty(), "{module}");
        assert!(module.to_string().contains("%y: tensor<16xf32>) -> tensor<3x9xf32>"), "{module}");
        assert!(module.function("twice").is_some() && module.function("other").is_none());
        assert!(module.weight("w").is_some() && module.weight("v").is_none());
    }

    #[test]
    fn dims_without_a_value_stay_and_so_do_their_facts() {
        let module = of(&[("B", 3)]).unwrap();
        disc_ir::verify::verify(&module, disc_ir::ops::Stage::Tensor).unwrap();
        assert!(module.to_string().contains("%x: tensor<3x[S]xf32>"), "{module}");
        assert!(module.to_string().contains("S <= 64, S % 2 == 0, S likely [8, 10]"), "{module}");
    }

    #[test]
    fn values_that_the_entry_refuses_are_an_error() {
        assert_eq!(of(&[("S", 7)]).unwrap_err().code, Code::E0212);
        let missing = specialize(&parse(PROGRAM), "absent", &BTreeMap::new()).unwrap_err();
        assert_eq!(missing.code, Code::E0103);
    }
}
