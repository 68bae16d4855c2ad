//! The pass: plans the memory of each function, and tries what is gained where cheap values are computed again.
use super::{planner::Planner, rematerialize, sample_sizes};
use crate::pass::{PassCx, PassDef};
use disc_ir::{Diagnostic, Function, FunctionKind, Module, Solver, ops::Stage};
use std::sync::Arc;

/// Gives every value memory: a part of the arena, or an output of the caller.
pub static PASS: PassDef = PassDef {
    name: "plan-buffers",
    doc: "Gives every value memory: a part of the arena, or an output of the caller. Cheap values are computed again where keeping them would take more.",
    stages: (Stage::Fused, Stage::Buffer),
    run,
};

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let mut changes = 0;
    for function in module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func) {
        *function = plan(function, cx)?;
        changes += 1;
    }
    Ok(changes)
}

/// The host program of a function, in which cheap values are computed again where that takes less memory.
fn plan(function: &Function, cx: &mut PassCx) -> Result<Function, Diagnostic> {
    let (mut host, bytes) = Planner::plan(function)?;
    let mut chosen = rematerialize::candidates(function);
    if chosen.is_empty() || !cx.spend_on("recompute") {
        return Ok(host);
    }
    let with = |again: &[rematerialize::Rematerialization]| {
        let mut changed = function.clone();
        let solver = Arc::new(Solver::new(&function.facts));
        again.iter().try_for_each(|again| again.apply(&mut changed, &solver))?;
        Planner::plan(&changed)
    };
    let (other, least) = with(&chosen)?;
    if !sample_sizes::saves(&least, &bytes) {
        return Ok(host);
    }
    host = other;
    // Not all of them may be needed for that: halves of them are left out, quarters, and so on.
    let (mut size, mut tries) = (chosen.len(), 0);
    while size > 1 {
        size = size.div_ceil(2);
        let mut start = 0;
        while start < chosen.len() && tries < rematerialize::MOST_TRIES {
            let mut fewer = chosen.clone();
            fewer.drain(start..(start + size).min(chosen.len()));
            let (other, own) = with(&fewer)?;
            if sample_sizes::saves(&least, &own) {
                start += size;
            } else {
                (host, chosen) = (other, fewer);
            }
            tries += 1;
        }
    }
    Ok(host)
}
