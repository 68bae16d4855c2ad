//! Selects branches of constant predicates, and drops assertions that hold.
use crate::{
    analysis::query::Query,
    pass::{PassCx, PassDef},
};
use disc_ir::{Block, Diagnostic, Function, FunctionKind, Inst, Module, OpKind, Value, ops::Stage};
use std::collections::HashMap;

/// Replaces an `if` whose predicate is a constant by the ops of its branch.
pub static PASS: PassDef = PassDef {
    name: "fold-branches",
    doc: "Replaces an `if` of a constant by the ops of its branch, and drops an `assert` of a constant that is true.",
    stages: (Stage::Tensor, Stage::Tensor),
    run,
};

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let mut changes = 0;
    for function in module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func) {
        let mut replaced = HashMap::new();
        changes += fold_block(function, function.body, &mut replaced, cx);
        function.replace_uses(&replaced);
    }
    Ok(changes)
}

fn fold_block(function: &mut Function, block: Block, replaced: &mut HashMap<Value, Value>, cx: &mut PassCx) -> usize {
    let mut changes = 0;
    let mut kept = Vec::with_capacity(function.insts(block).len());
    for inst in function.insts(block).to_vec() {
        for region in function.inst(inst).regions.clone() {
            changes += fold_block(function, region, replaced, cx);
        }
        match decided(function, inst).filter(|_| cx.spend()) {
            Some(Decided::Holds) => changes += 1,
            Some(Decided::Takes(region)) => {
                changes += 1;
                let mut inner = function.insts(region).to_vec();
                let end = inner.pop().expect("a region ends in `return`");
                kept.extend(inner);
                let results = function.results_of(inst).iter().copied();
                replaced.extend(results.zip(function.operands(end).iter().copied()));
            }
            None => kept.push(inst),
        }
    }
    function.set_insts(block, kept);
    changes
}

enum Decided {
    Holds,
    Takes(Block),
}

fn decided(function: &Function, inst: Inst) -> Option<Decided> {
    let holds = || Some(function.splat(*function.operands(inst).first()?)?.i64_at(0) != 0);
    match function.kind_of(inst) {
        OpKind::Assert => holds().filter(|holds| *holds).map(|_| Decided::Holds),
        OpKind::If => holds().map(|holds| Decided::Takes(function.inst(inst).regions[usize::from(!holds)])),
        _ => None,
    }
}
