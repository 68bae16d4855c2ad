//! Lays the arena out at compile time with allocations beside one another.
//!
//! Slots hold one allocation at a time, so two small ones never share the room of a large one. Here
//! each frame and each output is one slot, and an allocation begins at the start of the slot or at
//! the end of another one, at the first place that is free during its live range. Overlaps are
//! decided by proof; an allocation for which nothing is proved goes after all that are live with
//! it.
//!
//! Invariants:
//! - Two allocations that are live together do not overlap, unless one overwrites the other.
//! - An allocation that overwrites another one begins at the same offset.
use super::{
    allocation::{Allocation, Assignment, MOST_NODES, ReusableOutput, Size, Slot, typical},
    frames::Frames,
};
use disc_ir::{Dim, Inst, Solver};
use std::collections::HashMap;

/// Returns the slots of all frames and outputs; `None` if an offset becomes too large an
/// expression.
pub(super) fn pack(
    parts: &[Allocation],
    outputs: Vec<ReusableOutput>,
    overwrites: &HashMap<Inst, Vec<Inst>>,
    frames: &Frames,
    solver: &Solver,
) -> Option<Vec<Slot>> {
    let mut slots: Vec<Slot> = outputs.into_iter().map(Slot::of_output).collect();
    let borrowed = slots.len();
    for frame in 0..frames.count() {
        let nothing = Size { bytes: Dim::constant(0), exact: Dim::constant(0) };
        slots.push(Slot { output: None, frame, size: nothing, assigned: Vec::new() });
    }
    for part in parts {
        let mut open =
            (0..borrowed).filter(|&slot| frames.surrounds(slots[slot].frame, part.inner)).chain([borrowed + part.frame]);
        let (slot, offset) = open.find_map(|slot| Some((slot, place(&slots[slot], part, overwrites, solver)?)))?;
        let assignment = Assignment::at(part, offset);
        if slot >= borrowed {
            slots[slot].size = grown(&slots[slot].size, &assignment.end, solver)?;
        }
        slots[slot].assigned.push(assignment);
    }
    slots.retain(|slot| slot.output.is_some() || !slot.assigned.is_empty());
    Some(slots)
}

/// Finds an offset for an allocation in a slot.
pub(super) fn place(slot: &Slot, part: &Allocation, overwrites: &HashMap<Inst, Vec<Inst>>, solver: &Solver) -> Option<Dim> {
    if slot.output.as_ref().is_some_and(|output| !output.admits(part)) {
        return None;
    }
    let takes = |output: Inst, input: Inst| overwrites.get(&output).is_some_and(|inputs| inputs.contains(&input));
    let shares = |assignment: Inst| takes(part.inst, assignment) || takes(assignment, part.inst);
    let fits = |offset: &Dim, met: &[&Assignment]| {
        let end = offset + &part.size.bytes;
        let apart =
            |assignment: &&Assignment| solver.less_equal(&end, &assignment.offset) || solver.less_equal(&assignment.end, offset);
        let ends_inside = || solver.less_equal(&(offset + &part.size.exact), &slot.size.exact);
        offset.nodes() <= MOST_NODES && met.iter().all(apart) && (slot.output.is_none() || ends_inside())
    };
    // At one offset, allocations of which one overwrites the other may touch in time.
    let met_at = |offset: &Dim| -> Vec<&Assignment> {
        let meets = |assignment: &&Assignment| assignment.meets(part, |inst| assignment.offset == *offset && shares(inst));
        slot.assigned.iter().filter(meets).collect()
    };
    let is_written_over = slot.output.as_ref().is_some_and(|output| output.is_written_over(part));
    let shared = slot.assigned.iter().filter(|assignment| shares(assignment.inst)).map(|assignment| assignment.offset.clone());
    let zero = Dim::constant(0);
    let mut over = shared.chain(is_written_over.then(|| zero.clone()));
    if let Some(offset) = over.find(|offset| (!is_written_over || *offset == zero) && fits(offset, &met_at(offset))) {
        return Some(offset);
    }
    if is_written_over {
        return None;
    }
    let met: Vec<&Assignment> = slot.assigned.iter().filter(|assignment| assignment.meets(part, |_| false)).collect();
    let mut begins: Vec<Dim> = met.iter().map(|assignment| assignment.end.clone()).collect();
    begins.push(zero);
    begins.sort_by_key(typical);
    let found = begins.iter().find(|offset| fits(offset, &met)).cloned();
    let behind = || begins.into_iter().reduce(|a, b| if solver.less_equal(&a, &b) { b } else { Dim::max(&a, &b) });
    found.or_else(|| behind().filter(|offset| slot.output.is_none() && offset.nodes() <= MOST_NODES))
}

/// The size of a slot that ends no sooner than an allocation.
fn grown(size: &Size, end: &Dim, solver: &Solver) -> Option<Size> {
    let end = Size { bytes: end.clone(), exact: end.clone() };
    if solver.less_equal(&end.bytes, &size.bytes) {
        return Some(size.clone());
    }
    if solver.less_equal(&size.bytes, &end.bytes) { Some(end) } else { size.larger(&end) }
}
