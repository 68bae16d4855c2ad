//! Removes ops whose results nothing uses.
//!
//! Invariant: an op that may fail, or that writes, stays, and so does everything it needs.
use crate::pass::{PassCx, PassDef};
use disc_ir::{Block, Diagnostic, Function, FunctionKind, Inst, Module, OpKind, ops::Stage, ops::is_pure};
use std::{collections::HashSet, sync::Arc};

/// Removes ops without use, and constants of the module that no op names.
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

/// Removes dead ops from a function; gives their number.
pub(crate) fn remove_dead(function: &mut Function) -> usize {
    remove_while(function, &mut || true)
}

/// Removes dead ops from a function as long as `may` says so.
fn remove_while(function: &mut Function, may: &mut dyn FnMut() -> bool) -> usize {
    let mut uses = function.use_counts();
    sweep(function, function.body, &mut uses, may)
}

fn sweep(function: &mut Function, block: Block, uses: &mut [u32], may: &mut dyn FnMut() -> bool) -> usize {
    let mut removed = 0;
    let mut kept = Vec::with_capacity(function.insts(block).len());
    for inst in function.insts(block).to_vec().into_iter().rev() {
        let unused = function.results_of(inst).iter().all(|result| uses[result.index()] == 0);
        if unused && is_removable(function, inst) && may() {
            removed += 1;
            forget(function, inst, uses);
        } else {
            for region in function.inst(inst).regions.clone() {
                removed += sweep(function, region, uses, may);
            }
            kept.push(inst);
        }
    }
    if removed > 0 {
        kept.reverse();
        function.set_insts(block, kept);
    }
    removed
}

fn forget(function: &Function, inst: Inst, uses: &mut [u32]) {
    function.operands(inst).iter().for_each(|operand| uses[operand.index()] -= 1);
    for &region in &function.inst(inst).regions {
        function.insts(region).iter().for_each(|&inner| forget(function, inner, uses));
    }
}

/// Whether nothing happens if the op does not run.
pub(crate) fn is_removable(function: &Function, inst: Inst) -> bool {
    let def = function.def(inst);
    match def.kind {
        OpKind::If | OpKind::While | OpKind::Fusion => {
            let regions = &function.inst(inst).regions;
            let mut inner = regions.iter().flat_map(|&region| function.insts(region));
            inner.all(|&inner| function.kind_of(inner) == OpKind::Return || is_removable(function, inner))
        }
        _ => is_pure(function.inst(inst)),
    }
}

/// Constants of the program have no meaning but their uses; weights of the model are its interface, and stay.
fn remove_constants(module: &mut Module, cx: &mut PassCx) -> usize {
    let used: HashSet<Arc<str>> = module.functions.iter().flat_map(weight_names).collect();
    let before = module.weights.len();
    module.weights.retain(|weight| weight.data.is_none() || used.contains(&weight.name) || !cx.spend());
    before - module.weights.len()
}

/// The names in the `weight` ops of a function.
pub(crate) fn weight_names(function: &Function) -> Vec<Arc<str>> {
    use crate::analysis::query::Query;
    let insts = function.walk(function.body);
    let weights = insts.into_iter().filter(|&inst| function.kind_of(inst) == OpKind::Weight);
    let names = weights.filter_map(|inst| match function.attr(inst, "name") {
        Some(disc_ir::Attr::Symbol(name)) => Some(Arc::clone(name)),
        _ => None,
    });
    names.collect()
}
