//! Removes ops whose results nothing uses (`rules/dead_ops.rs`), and constants that nothing reads.
use crate::{
    analysis::query::Query,
    pass::{PassCx, PassDef},
    rules::dead_ops::remove_while,
};
use disc_ir::{Attr, Diagnostic, Function, FunctionKind, Module, OpKind, ops::Stage};
use std::{collections::HashSet, sync::Arc};

/// Removes dead ops, and constants of the module that no op names.
pub static PASS: PassDef = PassDef {
    name: "dce",
    doc: "Removes ops whose results nothing uses, unless they may fail or write; then constants of the module that no op names.",
    stages: (Stage::Tensor, Stage::Tensor),
    run,
};

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let functions = module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func);
    let removed = functions.map(|function| remove_while(function, &mut || cx.spend())).sum::<usize>();
    Ok(removed + remove_constants(module, cx))
}

/// Constants of the program exist for their uses; weights of the model are its interface, and stay.
fn remove_constants(module: &mut Module, cx: &mut PassCx) -> usize {
    let used: HashSet<Arc<str>> = module.functions.iter().flat_map(weight_names).collect();
    let before = module.weights.len();
    module.weights.retain(|weight| weight.data.is_none() || used.contains(&weight.name) || !cx.spend());
    before - module.weights.len()
}

/// The names in the `weight` ops of a function.
pub(crate) fn weight_names(function: &Function) -> Vec<Arc<str>> {
    let insts = function.walk(function.body);
    let weights = insts.into_iter().filter(|&inst| function.kind_of(inst) == OpKind::Weight);
    let names = weights.filter_map(|inst| match function.attr(inst, "name") {
        Some(Attr::Symbol(name)) => Some(Arc::clone(name)),
        _ => None,
    });
    names.collect()
}
