//! Sorting by a plain order: keys and positions of a line are sorted in memory of the task, then the elements follow their positions.
use super::{entries::Entries, key, lines};
use crate::{
    kernel::Index,
    schedule::{
        Group, Scheduled,
        common::{kernel_frame::Draft, vector_loop::vector_loop},
        cpu::pointwise::place_unit,
    },
};
use disc_ir::{Dim, Inst, OpKind, Value, ops::body::Order};
use disc_passes::analysis::query::Query;

pub(super) fn schedule(group: &Group<'_>, inst: Inst, order: Order) -> Scheduled {
    let mut draft = Draft::new(group, &group.name, 1);
    let inputs = group.function.operands(inst).to_vec();
    let results = group.function.results_of(inst).to_vec();
    let tensor = group.tensor(inputs[0]);
    let axis = draft.elements.group.int(inst, "dimension") as usize;
    let (shape, size) = (tensor.dims.clone(), tensor.dims[axis].clone());
    let runs = lines(&shape, axis);
    let units = Dim::product(runs.iter().map(|run| run.size.clone()));
    let cost = Dim::product(shape.iter().cloned()) * 10;
    let entries = Entries::new(&mut draft, key::dtype_of(tensor.dtype), &size, group.target.vector_bytes());
    draft.elements.lanes = entries.lanes;
    draft.units(units, cost, |draft, unit| {
        let (zero, count) = (draft.kb.int(0), draft.kb.dim(&size));
        let mut at = vec![Index::uniform(zero); shape.len()];
        place_unit(&mut draft.kb, unit, &runs, &mut at);
        let line = Line { value: inputs[0], axis, at: &at, order };
        line.enter(draft, &entries, count);
        let sorted = entries.sort(&mut draft.kb, count);
        let pairs = results.iter().copied().zip(inputs.iter().copied());
        let wanted: Vec<(Value, Value)> = pairs.filter(|(result, _)| draft.target(*result).is_some()).collect();
        line.follow(draft, &entries, sorted, count, &mut |draft, place, there| {
            let mut from = at.clone();
            from[axis] = place;
            for &(result, input) in &wanted {
                let element = draft.elements.element(&mut draft.kb, input, &from);
                draft.store(group, result, there, element);
            }
        });
    })
}

/// One line along an axis of a value.
pub(super) struct Line<'a> {
    pub(super) value: Value,
    pub(super) axis: usize,
    pub(super) at: &'a [Index],
    pub(super) order: Order,
}

impl Line<'_> {
    /// Writes the first `count` elements as entries.
    pub(super) fn enter(&self, draft: &mut Draft<'_>, entries: &Entries, count: Value) {
        let zero = draft.kb.int(0);
        vector_loop(&mut draft.kb, &mut draft.elements, [zero, count], false, &mut |kb, elements, index| {
            let mut at = self.at.to_vec();
            at[self.axis] = index;
            let element = elements.element(kb, self.value, &at);
            let key = key::encode(kb, element, self.order);
            let (key, place) = (kb.widen(key, elements.lanes), index.value(kb, elements.lanes));
            let Index::Affine { base, .. } = index else { panic!("a vector loop walks along an axis") };
            entries.put(kb, base, key, place, elements.mask);
        });
    }

    /// Writes the elements of `count` entries from `first` on, and their positions, where they are asked for.
    pub(super) fn write_found(
        &self,
        draft: &mut Draft<'_>,
        group: &Group<'_>,
        entries: &Entries,
        [first, count]: [Value; 2],
        results: &[Value],
    ) {
        self.follow(draft, entries, first, count, &mut |draft, place, there| {
            let mut from = self.at.to_vec();
            from[self.axis] = place;
            if draft.target(results[0]).is_some() {
                let element = draft.elements.element(&mut draft.kb, self.value, &from);
                draft.store(group, results[0], there, element);
            }
            let place = place.value(&mut draft.kb, entries.lanes);
            draft.store(group, results[1], there, place);
        });
    }

    /// Calls `write` with the position of each of `count` sorted entries, and where in the results it belongs.
    pub(super) fn follow<'g>(
        &self,
        draft: &mut Draft<'g>,
        entries: &Entries,
        sorted: Value,
        count: Value,
        write: &mut dyn FnMut(&mut Draft<'g>, Index, &[Index]),
    ) {
        let lanes = draft.elements.lanes;
        let step = draft.kb.int(lanes.into());
        let whole = draft.kb.div(count, step);
        let full = draft.kb.mul(whole, step);
        let zero = draft.kb.int(0);
        for (range, masked) in [([zero, full, step], false), ([full, count, step], true)] {
            if masked && lanes == 1 {
                break;
            }
            let vectors = draft.kb.open_for(range);
            draft.elements.open_scope();
            let left = draft.kb.sub(count, vectors.index);
            let mask = masked.then(|| draft.kb.lane_mask(left, lanes));
            let outer = std::mem::replace(&mut draft.elements.mask, mask);
            let from = draft.kb.add(sorted, vectors.index);
            let places = entries.places(&mut draft.kb, from, lanes, mask);
            let mut there = self.at.to_vec();
            there[self.axis] = Index::Affine { base: vectors.index, stride: i64::from(lanes > 1) };
            let place = Index::from_value(&mut draft.kb, places);
            write(draft, place, &there);
            draft.elements.mask = outer;
            draft.elements.close_scope();
            draft.kb.close_for(vectors);
        }
    }
}

/// The order of a `sort` or `top_k`, if it is a plain one.
pub(super) fn order_of(group: &Group<'_>, inst: Inst) -> Option<Order> {
    if group.function.kind_of(inst) == OpKind::Sort {
        return disc_ir::ops::body::order(group.function, group.function.inst(inst).regions[0]);
    }
    let smallest = matches!(group.function.attr(inst, "largest"), Some(disc_ir::Attr::Bool(false)));
    Some(if smallest { Order::Ascending } else { Order::Descending })
}
