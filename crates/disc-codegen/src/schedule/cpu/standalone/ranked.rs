//! Finds the elements at some ranks of the order along lines, without sorting those before and
//! after: a median, or the k-th of them.
//!
//! All elements of a line are entries. One rank is the greatest of the entries up to it, which are
//! selected and stay out of order; several ranks are sorted.
use super::{entries::Entries, sort::Line, top_k::TopK};
use crate::{
    kernel::Index,
    schedule::{
        Group, Scheduled,
        common::{iteration_space::place_unit, kernel_frame::KernelFrame},
    },
};
use disc_ir::{Dim, Inst, ops::body::Order};
use disc_kernel_macros::expr;

/// The schedule of a `top_k` that leaves out the `skip` first elements.
pub(super) fn schedule(group: &Group<'_>, inst: Inst, order: Order, skip: &Dim) -> Scheduled {
    let mut frame = KernelFrame::new(group, &group.name, 1);
    let TopK { value, results, key, shape, axis, size, k, runs, units } = TopK::of(group, inst);
    let cost = Dim::product(shape.iter().cloned()) * if k.is_const(1) { 3 } else { 10 };
    let entries = Entries::of_first(&mut frame, key, &size, group.target.lanes(64));
    frame.elements.lanes = entries.lanes;
    frame.units(units, cost, |frame, unit| {
        let zero = frame.kb.int(0);
        let mut at = vec![Index::uniform(zero); shape.len()];
        place_unit(&mut frame.kb, unit, &runs, &mut at);
        let [count, wanted, before] = [&size, &k, skip].map(|dim| frame.kb.dim(dim));
        let line = Line { value, axis, at: &at, order };
        line.enter(frame, &entries, count);
        let first = match k.is_const(1) {
            true => entries.at_rank(&mut frame.kb, count, before),
            false => {
                let last = expr!(frame.kb, before + wanted);
                let sorted = entries.first(&mut frame.kb, count, last);
                expr!(frame.kb, sorted + before)
            }
        };
        line.write_found(frame, group, &entries, [first, wanted], &results);
    })
}
