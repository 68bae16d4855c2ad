//! Sorts by any comparator: a stable bottom-up merge sort of positions, line by line; then the
//! elements follow their positions.
use super::{flag, lines};
use crate::{
    kernel::Index,
    schedule::{
        Group, Scheduled,
        common::{iteration_space::place_unit, kernel_frame::KernelFrame},
    },
};
use disc_ir::{Attr, Dim, Inst, OpKind, TensorType, Value};
use disc_kernel_macros::expr;
use disc_passes::analysis::query::Query;

pub(super) fn schedule(group: &Group<'_>, inst: Inst, name: &str) -> Scheduled {
    let mut frame = KernelFrame::new(group, name, 1);
    let inputs = group.function.operands(inst).to_vec();
    let shape = group.tensor(inputs[0]).dims.clone();
    let is_sort = group.function.kind_of(inst) == OpKind::Sort;
    let axis = if is_sort { frame.elements.group.int(inst, "dimension") as usize } else { shape.len() - 1 };
    let runs = lines(&shape, axis);
    let units = Dim::product(runs.iter().map(|run| run.size.clone()));
    let cost = Dim::product(shape.iter().cloned()) * 40;
    // There are two rows of positions: merges go from one to the other.
    let positions = frame.kb.scratch(TensorType::new([&shape[axis] * 2], frame.kb.index_type()));
    frame.units(units, cost, |frame, unit| {
        let zero = Index::uniform(frame.kb.int(0));
        let mut at = vec![zero; shape.len()];
        place_unit(&mut frame.kb, unit, &runs, &mut at);
        let line = Line { group, inst, inputs: &inputs, at, axis, size: frame.kb.dim(&shape[axis]), positions };
        let sorted = line.sort(frame);
        line.write(frame, sorted);
    })
}

/// One line along the sorted dimension.
struct Line<'a, 'g> {
    group: &'a Group<'g>,
    inst: Inst,
    inputs: &'a [Value],
    at: Vec<Index>,
    axis: usize,
    size: Value,
    positions: Value,
}

impl Line<'_, '_> {
    /// Sorts the positions; returns their position in the scratch memory.
    fn sort(&self, frame: &mut KernelFrame<'_>) -> Value {
        let kb = &mut frame.kb;
        let (zero, one, two) = (kb.int(0), kb.int(1), kb.int(2));
        kb.for_each([zero, self.size, one], |kb, fill| {
            kb.store(self.positions, fill, fill, None);
        });
        // The loop carries the width of sorted runs, their position, and that of the merged ones.
        let mut round = kb.open_while(&[one, zero, self.size], |kb, carried| expr!(kb, carried[0] < self.size));
        let [width, from, to] = round.carried[..] else { panic!("three values are carried") };
        let stride = expr!(kb, width * two);
        let merge = kb.open_for([zero, self.size, stride]);
        frame.elements.open_scope();
        self.merge(frame, merge.index, width, [from, to]);
        frame.elements.close_scope();
        frame.kb.close_for(merge);
        round.next = vec![stride, to, from];
        frame.kb.close_while(round)[1]
    }

    /// Merges the runs of `width` positions from `low` on.
    fn merge(&self, frame: &mut KernelFrame<'_>, low: Value, width: Value, [from, to]: [Value; 2]) {
        let kb = &mut frame.kb;
        let (one, zero) = (kb.int(1), kb.int(0));
        let middle = expr!(kb, min(low + width, self.size));
        let high = expr!(kb, min(middle + width, self.size));
        let last = expr!(kb, self.size - one);
        let mut step = kb.open_for_carrying([low, high, one], &[low, middle]);
        let [i, j] = step.carried[..] else { panic!("two positions are carried") };
        // A run that is used up is not read: its position is only kept in range.
        let position = |kb: &mut crate::kernel::KernelBuilder, index: Value| {
            let place = expr!(kb, from + min(index, last));
            kb.load(self.positions, place, 1, None)
        };
        let (left, right) = (position(kb, i), position(kb, j));
        let right_first = self.before(frame, right, left);
        let kb = &mut frame.kb;
        let left_done = expr!(kb, i >= middle);
        let right_left = expr!(kb, j < high);
        let takes = expr!(kb, (left_done | right_first) & right_left);
        let chosen = kb.select(takes, right, left);
        let place = expr!(kb, to + step.index);
        kb.store(self.positions, place, chosen, None);
        let (right_step, left_step) = (kb.select(takes, one, zero), kb.select(takes, zero, one));
        step.next = vec![expr!(kb, i + left_step), expr!(kb, j + right_step)];
        kb.close_for(step);
    }

    /// Returns true if the element at position `a` comes before that at `b`.
    fn before(&self, frame: &mut KernelFrame<'_>, a: Value, b: Value) -> Value {
        let mut arguments = Vec::new();
        for &input in self.inputs {
            arguments.push(self.element(frame, input, a));
            arguments.push(self.element(frame, input, b));
        }
        if self.group.function.kind_of(self.inst) == OpKind::Sort {
            let comparator = self.group.function.inst(self.inst).regions[0];
            return frame.elements.inline(&mut frame.kb, comparator, &arguments)[0];
        }
        let largest = flag(&frame.elements, self.inst, "largest", true);
        let (kb, [x, y]) = (&mut frame.kb, [arguments[0], arguments[1]]);
        let ordered = kb.compare(if largest { "GT" } else { "LT" }, x, y);
        if !kb.dtype(x).is_float() {
            return ordered;
        }
        let (x_nan, y_nan) = (kb.emit(OpKind::IsNan, &[x]), kb.emit(OpKind::IsNan, &[y]));
        let (first, second) = if largest { (x_nan, y_nan) } else { (y_nan, x_nan) };
        expr!(kb, ordered | (first & !second))
    }

    fn element(&self, frame: &mut KernelFrame<'_>, input: Value, position: Value) -> Value {
        let mut at = self.at.clone();
        at[self.axis] = Index::uniform(position);
        frame.elements.element(&mut frame.kb, input, &at)
    }

    fn write(&self, frame: &mut KernelFrame<'_>, sorted: Value) {
        let results = self.group.function.results_of(self.inst).to_vec();
        let count = self.group.tensor(results[0]).dims[self.axis].clone();
        let (zero, one, count) = (frame.kb.int(0), frame.kb.int(1), frame.kb.dim(&count));
        let sorted = match self.group.function.attr(self.inst, "skip") {
            Some(Attr::Dim(skip)) => {
                expr!(frame.kb, sorted + dim(skip))
            }
            _ => sorted,
        };
        let copy = frame.kb.open_for([zero, count, one]);
        frame.elements.open_scope();
        let place = expr!(frame.kb, sorted + copy.index);
        let position = frame.kb.load(self.positions, place, 1, None);
        let mut there = self.at.clone();
        there[self.axis] = Index::uniform(copy.index);
        if self.group.function.kind_of(self.inst) == OpKind::Sort {
            for (&result, &input) in results.iter().zip(self.inputs) {
                let value = self.element(frame, input, position);
                frame.store(self.group, result, &there, value);
            }
        } else {
            let value = self.element(frame, self.inputs[0], position);
            frame.store(self.group, results[0], &there, value);
            frame.store(self.group, results[1], &there, position);
        }
        frame.elements.close_scope();
        frame.kb.close_for(copy);
    }
}
