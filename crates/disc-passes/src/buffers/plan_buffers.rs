//! Plans the memory of each function, with and without rematerialisation of cheap values.
use super::{planner::Planner, rematerialize, sample_sizes};
use crate::{
    fusion::plan,
    pass::{PassCx, PassDef},
};
use disc_ir::{Diagnostic, Function, FunctionKind, Module, Solver, ops::Stage};
use std::sync::Arc;

/// Gives every value memory: an allocation of the arena, or an output of the caller.
pub static PASS: PassDef = PassDef {
    name: "plan-buffers",
    doc: "Gives every value memory: an allocation of the arena, or an output of the caller. Cheap values are recomputed if \
          keeping them would take more memory.",
    stages: (Stage::Fused, Stage::Buffer),
    run,
};

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let mut changes = 0;
    for function in module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func) {
        plan::decide_missing(function, &Solver::new(&function.facts))?;
        *function = host_program(function, cx)?;
        changes += 1;
    }
    Ok(changes)
}

/// Plans the host program of a function; cheap values are rematerialised if that takes less memory.
fn host_program(function: &Function, cx: &mut PassCx) -> Result<Function, Diagnostic> {
    let model = cx.options.model.clone();
    let (mut host, bytes) = Planner::plan(function, &*model)?;
    let mut chosen = rematerialize::candidates(function);
    if chosen.is_empty() || !cx.spend_on("recompute") {
        return Ok(host);
    }
    let with = |again: &[rematerialize::Rematerialization]| {
        let mut changed = function.clone();
        let solver = Arc::new(Solver::new(&function.facts));
        again.iter().try_for_each(|again| again.apply(&mut changed, &solver))?;
        Planner::plan(&changed, &*model)
    };
    let (other, least) = with(&chosen)?;
    if !sample_sizes::saves(&least, &bytes) {
        return Ok(host);
    }
    host = other;
    // Not every candidate may be needed: halves are left out first, then quarters, and so on.
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
