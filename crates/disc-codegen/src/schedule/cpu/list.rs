//! Schedules pointwise groups over lists of tensors: one kernel with the loops of each family of
//! outputs, whose work units follow one another.
use super::pointwise::LoopNest;
use crate::{
    element::Elements,
    schedule::{Group, Scheduled, Work, common::kernel_frame::KernelFrame, space_of},
};
use disc_ir::{Dim, Value};
use disc_kernel_macros::expr;
use disc_passes::fusion::families;

/// Schedules a group over a list of tensors; `None` if it is one family, if only some of its
/// outputs are wanted, or if those of a family have no space in common.
pub(super) fn schedule(group: &Group<'_>) -> Option<Scheduled> {
    let families = families(group.function, group.function.body);
    if families.len() == 1 || families.iter().map(Vec::len).sum::<usize>() != group.wanted.len() {
        return None;
    }
    let of_family = |wanted: &Vec<usize>| Group { wanted: wanted.clone(), ..group.clone() };
    if families.iter().map(of_family).any(|own| space_of(&own, &own.outputs()).is_none()) {
        return None;
    }
    let mut frame = KernelFrame::new(group, &group.name, 1);
    let (mut units, mut cost) = (Dim::constant(0), Dim::constant(0));
    for wanted in &families {
        let own = Group { first_site: group.first_site + frame.elements.sites.len() as i64, ..of_family(wanted) };
        let nest = LoopNest::of(&own);
        // The loops are asked how many units they have before they are written among others.
        let Work::Units { units: own_units, cost: own_cost, .. } = nest.scheduled().launches.remove(0).work else {
            unreachable!("a CPU's launch has units")
        };
        let range = range_of(&mut frame, &units, &own_units);
        let mut elements = Elements::new(own.function, own.solver.clone(), nest.lanes, own.target);
        elements.first_site = own.first_site;
        frame.memory.sources.iter().for_each(|&(input, buffer)| elements.bind(input, buffer));
        let targets: Vec<_> = own.outputs().into_iter().map(|output| frame.memory.at(output)).collect();
        let kb = &mut frame.kb;
        let exists = expr!(kb, range[0] < range[1]);
        kb.when(exists, |kb| {
            nest.emit(kb, &mut elements, &targets, range);
        });
        frame.elements.sites.append(&mut elements.sites);
        units = &units + &own_units;
        cost = &cost + &own_cost;
    }
    Some(frame.finish(units, cost))
}

/// Returns the part of the kernel's range that covers the `count` units after the first `before`,
/// numbered from the first of them.
fn range_of(frame: &mut KernelFrame<'_>, before: &Dim, count: &Dim) -> [Value; 2] {
    let [begin, end] = frame.range;
    let kb = &mut frame.kb;
    let (before, count, zero) = (kb.dim(before), kb.dim(count), kb.int(0));
    let [first, last] = [begin, end].map(|bound| expr!(kb, bound - before));
    [kb.max(first, zero), kb.min(last, count)]
}
