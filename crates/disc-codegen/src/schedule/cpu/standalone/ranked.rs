//! Elements at some places of the order along lines, without those before and behind: a median, or the k-th of them.
//!
//! All of a line are entries. One place is the greatest of the entries up to it, which are selected and stay out of order; several are sorted.
use super::{entries::Entries, sort::Line, top_k::TopK};
use crate::{
    kernel::Index,
    schedule::{Group, Scheduled, common::kernel_frame::Draft, cpu::pointwise::place_unit},
};
use disc_ir::{Dim, Inst, ops::body::Order};

/// The schedule of a `top_k` that leaves out the `skip` first elements.
pub(super) fn schedule(group: &Group<'_>, inst: Inst, order: Order, skip: &Dim) -> Scheduled {
    let mut draft = Draft::new(group, &group.name, 1);
    let TopK { value, results, key, shape, axis, size, k, runs, units } = TopK::of(group, inst);
    let cost = Dim::product(shape.iter().cloned()) * if k.is_const(1) { 3 } else { 10 };
    let entries = Entries::of_first(&mut draft, key, &size, group.target.vector_bytes());
    draft.elements.lanes = entries.lanes;
    draft.units(units, cost, |draft, unit| {
        let zero = draft.kb.int(0);
        let mut at = vec![Index::uniform(zero); shape.len()];
        place_unit(&mut draft.kb, unit, &runs, &mut at);
        let [count, wanted, before] = [&size, &k, skip].map(|dim| draft.kb.dim(dim));
        let line = Line { value, axis, at: &at, order };
        line.enter(draft, &entries, count);
        let first = match k.is_const(1) {
            true => entries.at_rank(&mut draft.kb, count, before),
            false => {
                let last = draft.kb.add(before, wanted);
                let sorted = entries.first(&mut draft.kb, count, last);
                draft.kb.add(sorted, before)
            }
        };
        line.write_found(draft, group, &entries, [first, wanted], &results);
    })
}
