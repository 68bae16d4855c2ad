//! Outputs as memory for what is computed before them.
//!
//! The memory of an output lies idle until the output is written, so that parts which end by then may be there. Such an output is asked for
//! where the first of them is made.
//!
//! Invariants:
//! - An output has exactly the bytes of its elements, aligned to an element, and it never grows: what is in it is proved to end in it, and
//!   has no wider elements.
//! - It is asked for where its sizes are bound, and they are proved not to be negative: no check that it passes on the way could have failed
//!   for them.
use super::{
    allocation::{ReusableOutput, Size, Slot, position},
    frames::Frames,
    liveness::LiveRange,
    sample_sizes::{Sizes, value},
};
use disc_ir::{Attr, Dim, Function, Inst, OpKind, Solver};
use std::collections::HashMap;

/// So many outputs are tried, the largest first: each takes as long as the layout of the arena.
const MOST_TRIED: usize = 6;
/// The outputs that are written by ops, and whose sizes are proved not to be negative.
pub(super) fn all(
    host: &Function,
    frames: &Frames,
    solver: &Solver,
    ranges: &HashMap<Inst, LiveRange>,
    takers: &HashMap<Inst, Vec<Inst>>,
) -> Vec<ReusableOutput> {
    let is_output = |&inst: &Inst| host.kind_of(inst) == OpKind::AllocOutput && ranges.contains_key(&inst);
    let made = host.insts(host.body).iter().copied().filter(is_output);
    made.filter_map(|inst| {
        let tensor = host.ty(host.result(inst)).shaped().expect("an output is a buffer");
        let element_bytes = tensor.dtype.size();
        let exact = tensor.element_count() * element_bytes as i64;
        let asked_in = frames.asked_in(host.result(inst));
        is_sized(solver, &tensor.dims).then(|| ReusableOutput {
            inst,
            size: Size { bytes: exact.clone(), exact },
            frame: tensor.dims.iter().map(|dim| frames.of(dim, asked_in)).max().unwrap_or(0),
            written: ranges[&inst].first,
            written_over: takers.get(&inst).cloned().unwrap_or_default(),
            element_bytes,
        })
    })
    .collect()
}

/// The slots with those outputs that make the arena smaller, one after the other.
pub(super) fn arrange_best(
    outputs: &[ReusableOutput],
    samples: &[Sizes],
    arrange: impl Fn(&[ReusableOutput]) -> Vec<Slot>,
) -> Vec<Slot> {
    let (mut used, mut best) = (Vec::new(), arrange(&[]));
    for output in largest(outputs) {
        used.push(output);
        let other = arrange(&used);
        if is_smaller(&other, &best, samples) {
            best = other;
        } else {
            used.pop();
        }
    }
    best
}

/// The outputs that are tried, the largest first.
pub(super) fn largest(outputs: &[ReusableOutput]) -> Vec<ReusableOutput> {
    let mut outputs = outputs.to_vec();
    outputs.sort_by_key(|output| std::cmp::Reverse(output.size.typical()));
    outputs.truncate(MOST_TRIED);
    outputs
}

/// Whether the arena takes less with the first slots than with the others, as far as samples tell: those at which no size is negative, as what is left of
/// a short sound by strides of some hundred elements is.
pub(super) fn is_smaller(first: &[Slot], other: &[Slot], samples: &[Sizes]) -> bool {
    let at = |sizes: &Sizes| Some([own_bytes(first, sizes)?, own_bytes(other, sizes)?]);
    let sums: Vec<[i64; 2]> = samples.iter().filter_map(at).collect();
    sums.iter().all(|[a, b]| a <= b) && sums.iter().any(|[a, b]| a < b)
}

/// What slots take of the arena at some sizes; `None` where one of them would be negative, or too large.
pub(super) fn own_bytes(slots: &[Slot], sizes: &Sizes) -> Option<i64> {
    let bytes = |slot: &Slot| value(&slot.size.bytes, sizes);
    slots.iter().filter(|slot| slot.output.is_none()).map(bytes).try_fold(0, |sum: i64, bytes| sum.checked_add(bytes?))
}

/// Whether no size of a shape is negative, which it may be in a branch that is not taken.
pub(super) fn is_sized(solver: &Solver, dims: &[Dim]) -> bool {
    dims.iter().all(|dim| solver.less_equal(&Dim::constant(0), dim))
}

/// Gives assigned the memory of their outputs, which are asked for before the first of them.
pub(super) fn lend(host: &mut Function, slots: &[Slot]) {
    for slot in slots {
        let Some(output) = slot.output.as_ref().filter(|_| !slot.assigned.is_empty()) else { continue };
        let memory = host.result(output.inst);
        for assignment in &slot.assigned {
            let tensor = host.ty(host.result(assignment.inst)).shaped().expect("a part is a buffer");
            let bytes = tensor.element_count() * tensor.dtype.size() as i64;
            let data = host.inst_mut(assignment.inst);
            data.operands[0] = memory;
            data.attrs[position("offset")] = Some(Attr::Dim(assignment.offset.clone()));
            data.attrs[position("bytes")] = Some(Attr::Dim(bytes));
        }
        let mut insts = host.insts(host.body).to_vec();
        let holds_part = |inst: Inst| slot.assigned.iter().any(|assignment| assignment.inst == inst);
        let holds = |inst: Inst| {
            let regions = &host.inst(inst).regions;
            let inner = regions.iter().any(|&region| host.walk(region).iter().any(|inner| holds_part(*inner)));
            holds_part(inst) || inner
        };
        let first = insts.iter().position(|&inst| holds(inst)).expect("a assignment is in the body");
        let place = insts.iter().position(|&inst| inst == output.inst).expect("an output is made in the body");
        if first < place {
            insts[first..=place].rotate_right(1);
            host.set_insts(host.body, insts);
        }
    }
}
