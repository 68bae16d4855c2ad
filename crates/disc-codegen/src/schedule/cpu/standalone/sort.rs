//! Sorts by a plain order: keys and positions of a line are sorted in memory of the task, then the
//! elements follow their positions.
use super::{entries::Entries, key, lines};
use crate::{
    kernel::Index,
    schedule::{
        Group, Scheduled,
        common::{iteration_space::place_unit, kernel_frame::KernelFrame, vector_loop::vector_loop},
    },
};
use disc_ir::{Dim, Inst, OpKind, Value, ops::body::Order};
use disc_kernel_macros::expr;
use disc_passes::analysis::query::Query;

versions! {
    /// A sort by keys, of lines whose positions have 31 bits.
    Keys {
        kernels: "`kN_standalone` of a sort",
        sizes: "lines of fewer than 2^31 - 1 elements; else `kN_standalone_by_comparator`, by comparisons",
        unit: "",
    }
}

pub(super) fn schedule(group: &Group<'_>, inst: Inst, order: Order) -> Scheduled {
    let mut frame = KernelFrame::new(group, &group.name, 1);
    let inputs = group.function.operands(inst).to_vec();
    let results = group.function.results_of(inst).to_vec();
    let tensor = group.tensor(inputs[0]);
    let axis = frame.elements.group.int(inst, "dimension") as usize;
    let (shape, size) = (tensor.dims.clone(), tensor.dims[axis].clone());
    let runs = lines(&shape, axis);
    let units = Dim::product(runs.iter().map(|run| run.size.clone()));
    let cost = Dim::product(shape.iter().cloned()) * 10;
    let entries = Entries::new(&mut frame, key::dtype_of(tensor.dtype), &size, group.target.lanes(64));
    frame.elements.lanes = entries.lanes;
    frame.units(units, cost, |frame, unit| {
        let (zero, count) = (frame.kb.int(0), frame.kb.dim(&size));
        let mut at = vec![Index::uniform(zero); shape.len()];
        place_unit(&mut frame.kb, unit, &runs, &mut at);
        let line = Line { value: inputs[0], axis, at: &at, order };
        line.enter(frame, &entries, count);
        let sorted = entries.sort(&mut frame.kb, count);
        let pairs = results.iter().copied().zip(inputs.iter().copied());
        let wanted: Vec<(Value, Value)> = pairs.filter(|(result, _)| frame.target(*result).is_some()).collect();
        line.follow(frame, &entries, sorted, count, &mut |frame, place, there| {
            let mut from = at.clone();
            from[axis] = place;
            for &(result, input) in &wanted {
                let element = frame.elements.element(&mut frame.kb, input, &from);
                frame.store(group, result, there, element);
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
    pub(super) fn enter(&self, frame: &mut KernelFrame<'_>, entries: &Entries, count: Value) {
        let zero = frame.kb.int(0);
        vector_loop(&mut frame.kb, &mut frame.elements, [zero, count], false, &mut |kb, elements, index| {
            let mut at = self.at.to_vec();
            at[self.axis] = index;
            let element = elements.element(kb, self.value, &at);
            let key = key::encode(kb, element, self.order);
            let (key, place) = (kb.widen(key, elements.lanes), index.value(kb, elements.lanes));
            let Index::Affine { base, .. } = index else { panic!("a vector loop walks along an axis") };
            entries.put(kb, base, key, place, elements.mask);
        });
    }

    /// Stores the elements of `count` entries from `first` on, and their positions, if they are
    /// outputs.
    pub(super) fn write_found(
        &self,
        frame: &mut KernelFrame<'_>,
        group: &Group<'_>,
        entries: &Entries,
        [first, count]: [Value; 2],
        results: &[Value],
    ) {
        self.follow(frame, entries, first, count, &mut |frame, place, there| {
            let mut from = self.at.to_vec();
            from[self.axis] = place;
            if frame.target(results[0]).is_some() {
                let element = frame.elements.element(&mut frame.kb, self.value, &from);
                frame.store(group, results[0], there, element);
            }
            let place = place.value(&mut frame.kb, entries.lanes);
            frame.store(group, results[1], there, place);
        });
    }

    /// Calls `write` with the position of each of `count` sorted entries, and its position in the
    /// results.
    pub(super) fn follow<'g>(
        &self,
        frame: &mut KernelFrame<'g>,
        entries: &Entries,
        sorted: Value,
        count: Value,
        write: &mut dyn FnMut(&mut KernelFrame<'g>, Index, &[Index]),
    ) {
        let lanes = frame.elements.lanes;
        let step = frame.kb.int(lanes.into());
        let full = expr!(frame.kb, count / step * step);
        let zero = frame.kb.int(0);
        for (range, masked) in [([zero, full, step], false), ([full, count, step], true)] {
            if masked && lanes == 1 {
                break;
            }
            let vectors = frame.kb.open_for(range);
            frame.elements.open_scope();
            let left = expr!(frame.kb, count - vectors.index);
            let mask = masked.then(|| frame.kb.lane_mask(left, lanes));
            let outer = std::mem::replace(&mut frame.elements.mask, mask);
            let from = expr!(frame.kb, sorted + vectors.index);
            let places = entries.places(&mut frame.kb, from, lanes, mask);
            let mut there = self.at.to_vec();
            there[self.axis] = Index::Affine { base: vectors.index, stride: i64::from(lanes > 1) };
            let place = Index::from_value(&mut frame.kb, places);
            write(frame, place, &there);
            frame.elements.mask = outer;
            frame.elements.close_scope();
            frame.kb.close_for(vectors);
        }
    }
}

/// The order of a `sort` or `top_k`, if it is a plain one.
pub(in crate::schedule) fn order_of(group: &Group<'_>, inst: Inst) -> Option<Order> {
    if group.function.kind_of(inst) == OpKind::Sort {
        return disc_ir::ops::body::order(group.function, group.function.inst(inst).regions[0]);
    }
    let smallest = matches!(group.function.attr(inst, "largest"), Some(disc_ir::Attr::Bool(false)));
    Some(if smallest { Order::Ascending } else { Order::Descending })
}
