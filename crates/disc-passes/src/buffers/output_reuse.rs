//! Reuses the memory of outputs for values that die before the output is written.
//!
//! The memory of an output is idle until then, so allocations whose live range ends by then may be
//! placed in it. The output is then requested where the first of them is made.
//!
//! Invariants:
//! - An output has exactly the bytes of its elements, is aligned to one element, and never grows:
//!   an allocation in it is proved to fit, and has no wider elements.
//! - It is requested only after its sizes are bound and proved not to be negative, so that no check
//!   that the request is moved across could have failed for them.
use super::{
    allocation::{ReusableOutput, Size, Slot, position},
    frames::Frames,
    liveness::LiveRange,
    sample_sizes::{Sizes, value},
};
use disc_ir::{Attr, Dim, Function, Inst, OpKind, Solver};
use std::collections::HashMap;

/// The number of outputs that are tried, the largest first: each trial lays the arena out again.
const MOST_TRIED: usize = 6;
/// The outputs that ops write and whose sizes are proved not to be negative.
pub(super) fn all(
    host: &Function,
    frames: &Frames,
    solver: &Solver,
    ranges: &HashMap<Inst, LiveRange>,
    overwrites: &HashMap<Inst, Vec<Inst>>,
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
            written_over: overwrites.get(&inst).cloned().unwrap_or_default(),
            element_bytes,
        })
    })
    .collect()
}

/// Adds outputs one by one as slots, and keeps those that make the arena smaller.
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

/// The outputs to try, the largest first.
pub(super) fn largest(outputs: &[ReusableOutput]) -> Vec<ReusableOutput> {
    let mut outputs = outputs.to_vec();
    outputs.sort_by_key(|output| std::cmp::Reverse(output.size.typical()));
    outputs.truncate(MOST_TRIED);
    outputs
}

/// Returns true if the arena is smaller with the first slots than with the others at the sample
/// sizes. Samples where a size is negative are left out, such as the rest of a short sound after
/// strides of some hundred elements.
pub(super) fn is_smaller(first: &[Slot], other: &[Slot], samples: &[Sizes]) -> bool {
    let at = |sizes: &Sizes| Some([own_bytes(first, sizes)?, own_bytes(other, sizes)?]);
    let sums: Vec<[i64; 2]> = samples.iter().filter_map(at).collect();
    sums.iter().all(|[a, b]| a <= b) && sums.iter().any(|[a, b]| a < b)
}

/// The bytes of the arena that slots take at a sample; `None` if a size is negative or too large.
pub(super) fn own_bytes(slots: &[Slot], sizes: &Sizes) -> Option<i64> {
    let bytes = |slot: &Slot| value(&slot.size.bytes, sizes);
    slots.iter().filter(|slot| slot.output.is_none()).map(bytes).try_fold(0, |sum: i64, bytes| sum.checked_add(bytes?))
}

/// Returns true if no size of a shape is negative, as it may be in a branch that is not taken.
pub(super) fn is_sized(solver: &Solver, dims: &[Dim]) -> bool {
    dims.iter().all(|dim| solver.less_equal(&Dim::constant(0), dim))
}

/// Places assignments in the memory of their outputs, which are requested before the first of them.
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
