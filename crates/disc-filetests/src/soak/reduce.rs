//! Reduces a failing program: drops results, and turns values into inputs, as long as it fails.
use super::{Failure, LIMITS, wrong};
use crate::Compiled;
use disc_ir::{
    Function, Inst, Module, OpKind, Type, Value,
    interp::{Tensor, run_with},
};
use disc_passes::{pass::PassManager, tensor::dce};
use std::collections::HashMap;

type Shrunk = (Module, Vec<Tensor>, String);

/// The smallest failing program so far, its inputs, and its failure.
pub(super) fn reduce(failure: &Failure, compiled: &dyn Compiled) -> Shrunk {
    let mut best: Shrunk = (failure.module.clone(), failure.inputs.clone(), failure.why.clone());
    if best.1.is_empty() {
        // It does not compile: any inputs would do, and there are none.
        best.1 = disc_ir::generate::inputs(&best.0, "main", 1);
    }
    loop {
        let before = size(&best.0);
        for step in [fewer_results, fewer_ops, fewer_inputs] {
            step(&mut best, compiled);
        }
        if size(&best.0) >= before {
            return best;
        }
    }
}

fn main(module: &Module) -> &Function {
    &module.functions[0]
}

fn size(module: &Module) -> usize {
    let function = main(module);
    // An input in place of an op is smaller.
    2 * function.walk(function.body).len() + function.parameters().len() + function.results.len()
}

/// Keeps a change if the program is smaller, and still fails.
fn keep(best: &mut Shrunk, mut module: Module, inputs: Vec<Tensor>, compiled: &dyn Compiled) -> bool {
    if PassManager::default().run(&mut module, &dce::PASS).is_err() {
        return false;
    }
    if size(&module) >= size(&best.0) {
        return false;
    }
    match wrong(&module, &inputs, compiled) {
        Some(why) => {
            *best = (module, inputs, why);
            true
        }
        None => false,
    }
}

fn returning(module: &Module, values: &[Value]) -> Option<Module> {
    let mut module = module.clone();
    let function = &mut module.functions[0];
    let end = function.terminator(function.body)?;
    function.inst_mut(end).operands = values.iter().copied().collect();
    function.results = values.iter().map(|&value| function.ty(value).clone()).collect();
    function.stores.clear();
    Some(module)
}

fn fewer_results(best: &mut Shrunk, compiled: &dyn Compiled) {
    let function = main(&best.0);
    let Some(end) = function.terminator(function.body) else { return };
    for value in function.operands(end).to_vec() {
        let Some(module) = returning(&best.0, &[value]) else { return };
        let inputs = best.1.clone();
        if size(&module) < size(&best.0) && keep(best, module, inputs, compiled) {
            return;
        }
    }
}

/// Replaces results of ops by inputs, from the first op on; and forwards an operand in place of a
/// result of its type.
fn fewer_ops(best: &mut Shrunk, compiled: &dyn Compiled) {
    let mut position = 0;
    while let Some(&inst) = main(&best.0).insts(main(&best.0).body).get(position) {
        let is_kept =
            main(&best.0).kind_of(inst) == OpKind::Return || !(forward(best, inst, compiled) || cut(best, inst, compiled));
        position += usize::from(is_kept);
    }
}

fn cut(best: &mut Shrunk, inst: Inst, compiled: &dyn Compiled) -> bool {
    let function = main(&best.0);
    let results = function.results_of(inst).to_vec();
    let is_input_like = matches!(function.kind_of(inst), OpKind::Constant | OpKind::DimValue);
    if results.is_empty() || is_input_like {
        return false;
    }
    let Some(probe) = returning(&best.0, &results) else { return false };
    let Ok(values) = run_with(&probe, "main", &best.1, &|_| None, LIMITS) else { return false };
    let mut module = best.0.clone();
    let function = &mut module.functions[0];
    let mut replaced = HashMap::new();
    for &result in &results {
        let ty: Type = function.ty(result).clone();
        let argument = function.add_argument(function.body, ty);
        function.inherit_name(result, argument);
        replaced.insert(result, argument);
    }
    function.replace_uses(&replaced);
    let inputs = best.1.iter().cloned().chain(values).collect();
    keep(best, module, inputs, compiled)
}

fn forward(best: &mut Shrunk, inst: Inst, compiled: &dyn Compiled) -> bool {
    let function = main(&best.0);
    let [result] = *function.results_of(inst) else { return false };
    let same = function.operands(inst).iter().copied().find(|&operand| function.ty(operand) == function.ty(result));
    let Some(operand) = same else { return false };
    let mut module = best.0.clone();
    module.functions[0].replace_uses(&HashMap::from([(result, operand)]));
    let inputs = best.1.clone();
    keep(best, module, inputs, compiled)
}

/// Removes inputs that nothing uses; those that bind dims are needed.
fn fewer_inputs(best: &mut Shrunk, compiled: &dyn Compiled) {
    let mut position = main(&best.0).parameters().len();
    while position > 0 {
        position -= 1;
        let function = main(&best.0);
        let value = function.parameters()[position];
        if function.use_counts()[value.index()] > 0 || !function.stores.is_empty() {
            continue;
        }
        let (mut module, mut inputs) = (best.0.clone(), best.1.clone());
        let body = module.functions[0].body;
        module.functions[0].remove_argument(body, position);
        if position < inputs.len() {
            inputs.remove(position);
        }
        keep(best, module, inputs, compiled);
    }
}
