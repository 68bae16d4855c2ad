//! Counts the element computations in a kernel: each value is computed once for every position that
//! reads it.
//!
//! Slices and concatenations read their operand at other positions than their own. If a value is
//! read directly and through such an op, its code doubles, and again with each further one; the
//! count bounds the size of a kernel, so that such chains are cut.
use crate::analysis::query::Query;
use disc_ir::{Function, Inst, OpKind, Value};
use std::collections::{HashMap, HashSet};

/// The number of element computations in the code of the ops for which `inside` returns true, from
/// these outputs on. Values in `once` are computed at one position and stored for the others.
pub(super) fn computations(
    function: &Function,
    outputs: &[Value],
    inside: &dyn Fn(Inst) -> bool,
    once: &dyn Fn(Value) -> bool,
) -> usize {
    let defining = |value: Value| function.defining(value).filter(|&inst| inside(inst));
    // Users before operands: the reverse of a topological order.
    let (mut order, mut seen) = (Vec::new(), HashSet::new());
    let mut stack: Vec<(Inst, bool)> = outputs.iter().filter_map(|&value| defining(value)).map(|inst| (inst, false)).collect();
    while let Some((inst, done)) = stack.pop() {
        if done {
            order.push(inst);
        } else if seen.insert(inst) {
            stack.push((inst, true));
            stack.extend(function.operands(inst).iter().filter_map(|&value| defining(value)).map(|inst| (inst, false)));
        }
    }
    // For each op, the number of positions: those of one user at its own position, plus those of
    // all users that read elsewhere.
    let mut places: HashMap<Inst, (usize, usize)> =
        outputs.iter().filter_map(|&value| defining(value)).map(|inst| (inst, (1, 0))).collect();
    let mut total = 0_usize;
    for inst in order.into_iter().rev() {
        let (here, elsewhere) = places.get(&inst).copied().unwrap_or((1, 0));
        let is_once = function.results_of(inst).iter().any(|&value| once(value));
        let count = if is_once { 1 } else { here.saturating_add(elsewhere) };
        total = total.saturating_add(count);
        if function.kind_of(inst) == OpKind::Reduce {
            continue;
        }
        for operand in function.operands(inst).iter().filter_map(|&value| defining(value)) {
            let (here, elsewhere) = places.entry(operand).or_insert((0, 0));
            match moves(function, inst) {
                true => *elsewhere = elsewhere.saturating_add(count),
                false => *here = (*here).max(count),
            }
        }
    }
    total
}

/// Returns true if an op reads its operands at other positions than its own.
fn moves(function: &Function, inst: Inst) -> bool {
    match function.kind_of(inst) {
        OpKind::Slice => {
            let strides = function.ints(inst, "strides");
            strides.iter().any(|&stride| stride != 1) || function.dims(inst, "start").iter().any(|start| !start.is_const(0))
        }
        kind => matches!(kind, OpKind::Concatenate | OpKind::Pad | OpKind::Reverse | OpKind::Gather | OpKind::DynamicSlice),
    }
}
