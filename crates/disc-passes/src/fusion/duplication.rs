//! How often a kernel computes what it computes: once for each place that a value is read at.
//!
//! Slices and concatenations read their operand at other places than they are read at. Where a value is read through two of them, and that
//! value as well, code doubles with each; so a chain of them is cut. Gives a number of element computations, which bounds the size of a kernel.
use crate::analysis::query::Query;
use disc_ir::{Function, Inst, OpKind, Value};
use std::collections::{HashMap, HashSet};

/// The computations of single elements in the code of the ops that `inside` says yes to, from these outputs on; `once`: values whose elements are
/// computed at one place and found at others.
pub(super) fn computations(
    function: &Function,
    outputs: &[Value],
    inside: &dyn Fn(Inst) -> bool,
    once: &dyn Fn(Value) -> bool,
) -> usize {
    let defining = |value: Value| function.defining(value).filter(|&inst| inside(inst));
    // Users before what they use: the reverse of an order in which operands come first.
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
    // Of each op at how many places it is computed: those of one user that reads where it is read itself, and of all that read elsewhere.
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

/// Whether an op reads its operands at other places than it is read at.
fn moves(function: &Function, inst: Inst) -> bool {
    match function.kind_of(inst) {
        OpKind::Slice => {
            let strides = function.ints(inst, "strides");
            strides.iter().any(|&stride| stride != 1) || function.dims(inst, "start").iter().any(|start| !start.is_const(0))
        }
        kind => matches!(kind, OpKind::Concatenate | OpKind::Pad | OpKind::Reverse | OpKind::Gather | OpKind::DynamicSlice),
    }
}
