//! Schedules an update of a slice whose result is in the memory of its input: only the slice is
//! written.
use super::Chunks;
use crate::{
    kernel::{Index, cost},
    schedule::{
        Group, Scheduled,
        common::{iteration_space::Merged, kernel_frame::KernelFrame, vector_loop::vector_loop},
    },
};
use disc_ir::{Dim, OpKind};

/// The elements of a unit.
const CHUNK: i64 = 4096;

/// The schedule of a group that is such an update; `None` if it is something else, or has other
/// results.
pub(in crate::schedule) fn schedule(group: &Group<'_>) -> Option<Scheduled> {
    let outputs = group.outputs();
    let &[output] = &outputs[..] else { return None };
    let inst = group.function.defining(output).filter(|&inst| group.function.kind_of(inst) == OpKind::DynamicUpdateSlice)?;
    let &[input, update, ..] = group.function.operands(inst) else { return None };
    let extent = group.tensor(update).dims.clone();
    let (last, outer) = extent.split_last()?;
    group.inputs().contains(&input).then_some(())?;
    let lanes = cost::lanes(group.function, group.target, &group.solver, last);
    let frame = KernelFrame::new(group, &group.name, lanes);
    let line = Chunks { outer: Merged::each(outer), size: last.clone(), chunk: CHUNK };
    let work: i64 = group.function.insts(group.function.body).iter().map(|&inst| cost::weight(group.function, inst)).sum();
    let count = Dim::product(extent.iter().cloned());
    let cost = (count * (work + 4)).ceil_div(&Dim::constant(4 * i64::from(lanes)));
    Some(frame.units(line.units(), cost, |frame, unit| {
        let starts = frame.elements.starts_of_update(&mut frame.kb, inst);
        let zero = frame.kb.int(0);
        let mut at = vec![Index::uniform(zero); extent.len()];
        let range = line.place(&mut frame.kb, unit, &mut at);
        let target = frame.target(output).expect("the only output is wanted");
        vector_loop(&mut frame.kb, &mut frame.elements, range, false, &mut |kb, elements, index| {
            *at.last_mut().expect("there is a last dimension") = index;
            let value = elements.element(kb, update, &at);
            let to: Vec<Index> = at.iter().zip(&starts).map(|(index, &start)| index.add(kb, lanes, start)).collect();
            elements.store(kb, target, group.tensor(output), &to, value);
        });
    }))
}
