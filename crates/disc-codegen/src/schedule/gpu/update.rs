//! Schedules an update of a slice, whose result is in the memory of its input, on a grid: a thread
//! writes an element of the slice.
use super::{
    candidates::Candidates,
    frame::{GridFrame, grid_of},
};
use crate::{
    kernel::Index,
    schedule::{
        Group, Scheduled, VersionKind, Versioned,
        common::iteration_space::{Merged, place_unit},
    },
};
use disc_ir::{Dim, Inst, OpKind};

/// Schedules a group that is such an update; `None` if it is something else, or has other results.
pub(super) fn versions(group: &Group<'_>) -> Option<Versioned> {
    let outputs = group.outputs();
    let &[output] = &outputs[..] else { return None };
    let inst = group.function.defining(output).filter(|&inst| group.function.kind_of(inst) == OpKind::DynamicUpdateSlice)?;
    group.inputs().contains(&group.function.operands(inst)[0]).then_some(())?;
    Some(Candidates::of(group).in_narrow_positions((VersionKind::GridElements, "s"), |group| scheduled(group, inst)))
}

fn scheduled(group: &Group<'_>, inst: Inst) -> Scheduled {
    let frame = GridFrame::new(group, 1, grid_of(group.target));
    let (output, update) = (group.function.result(inst), group.function.operands(inst)[1]);
    let extent = group.tensor(update).dims.to_vec();
    frame.each(&Dim::product(extent.iter().cloned()), |frame, number| {
        let target = frame.target(output);
        let GridFrame { kb, elements, .. } = frame;
        let starts = elements.starts_of_update(kb, inst);
        let mut at = vec![Index::uniform(number); extent.len()];
        place_unit(kb, number, &Merged::each(&extent), &mut at);
        let value = elements.element(kb, update, &at);
        let to: Vec<Index> = at.iter().zip(starts).map(|(index, start)| index.add(kb, 1, start)).collect();
        elements.store(kb, target, group.tensor(output), &to, value);
    })
}
