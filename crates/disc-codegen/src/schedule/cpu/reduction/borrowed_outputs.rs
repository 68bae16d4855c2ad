//! Borrows the memory of outputs: values that a row keeps from phase to phase are stored in the
//! memory of an output of the same type that is written later.
//!
//! Invariants:
//! - An element of the output is written by the code that has read the kept element of that
//!   position, and no other code reads it: the users of a kept value are computed element by
//!   element, or are reductions.
//! - An output may alias an input that dies in the group. So from the phase on that keeps a value,
//!   no code reads an input with an element for each position: the remaining values come from kept
//!   values and totals.
use super::{
    Group, ReductionSchedule,
    plan::{Placed, Reduction},
};
use crate::schedule::Argument;
use disc_ir::{Dim, OpKind, Value};
use disc_passes::analysis::query::used_in_step;
use std::collections::HashSet;

/// For each kept value, the output whose memory it may have; no two share one.
pub(super) fn borrowed_outputs(group: &Group<'_>, plan: &ReductionSchedule, kept: &[Placed]) -> Vec<Option<Argument>> {
    let (solver, outputs) = (&group.solver, group.outputs());
    let mut taken = HashSet::new();
    let mut found = Vec::new();
    for placed in kept {
        let tensor = group.tensor(placed.value);
        let fits = |&(number, output): &(usize, &Value)| {
            let own = group.tensor(*output);
            let alike = own.dtype == tensor.dtype && own.dims.len() == tensor.dims.len();
            !taken.contains(&number)
                && plan.early(*output).is_none()
                && plan.layout.reordered(*output).is_none()
                && alike
                && own.dims.iter().zip(&tensor.dims).all(|(a, b)| solver.equal(a, b))
        };
        let free = used_in_step(group.function, group.function.body, placed.value, true).is_some()
            && needs_no_input(group, plan, kept, plan.first_phase(placed.value));
        let output = outputs.iter().enumerate().find(fits).filter(|_| free).map(|(number, _)| number);
        taken.extend(output);
        found.push(output.map(|number| Argument::Output(group.wanted[number])));
    }
    found
}

/// Returns true if the computations from a phase on read no input with as many elements as there
/// are positions, except through values that are kept by then.
fn needs_no_input(group: &Group<'_>, plan: &ReductionSchedule, kept: &[Placed], phase: usize) -> bool {
    let function = group.function;
    let is_kept = |value: Value| kept.iter().any(|one| one.value == value && plan.first_phase(value) <= phase);
    let later = |r: &&Reduction| r.phase >= phase;
    let reduced = plan.reductions.iter().filter(later).flat_map(|r| function.operands(r.inst).to_vec());
    let outputs = group.outputs().into_iter().filter(|&output| plan.early(output).is_none_or(|early| early >= phase));
    let mut stack: Vec<Value> = outputs.chain(reduced).collect();
    let positions = Dim::product(plan.layout.space.iter().cloned());
    let mut seen = HashSet::new();
    while let Some(value) = stack.pop() {
        if is_kept(value) || !seen.insert(value) {
            continue;
        }
        match function.defining(value) {
            // A total of a phase that is over is in memory; those of others are queried by
            // themselves.
            Some(inst) if function.kind_of(inst) == OpKind::Reduce => {}
            Some(inst) => stack.extend(function.operands(inst)),
            None if group.solver.equal(&group.tensor(value).element_count(), &positions) => return false,
            None => {}
        }
    }
    true
}
