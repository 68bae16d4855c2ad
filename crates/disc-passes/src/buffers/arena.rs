//! Chooses the layout of the arena.
//!
//! Allocations are placed one by one, in each [`PlacementOrder`]; the order that gives the smallest
//! arena is kept. An allocation takes the first of these places: the slot of an input that dies
//! where it is made, if the group reads each position before it writes it; a free slot whose size
//! covers it, or that it covers, by the facts; a free slot that grows to the maximum of both sizes;
//! a new slot. A small allocation leaves large slots to large ones. Slots of a frame follow one
//! another. An output's memory is a slot too, until the output is written, if that makes the arena
//! smaller.
//!
//! Two other layouts are tried, and taken if they are smaller:
//! [`static_layout`](super::static_layout) places allocations beside one another within a slot, and
//! [`runtime_layout`](super::runtime_layout) computes the offsets in each call.
use super::{
    allocation::{Allocation, Assignment, PlacementOrder, ReusableOutput, Size, Slot, position, sort},
    frames::Frames,
    in_place::overwrites,
    liveness::ranges,
    output_reuse, runtime_layout,
    sample_sizes::samples,
    static_layout,
};
use crate::analysis::cost_model::CostModel;
use disc_ir::{Attr, DType, Dim, Function, Inst, OpKind, Solver, Space, TensorType, Type};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// An allocation takes no slot that is more than this many times its size: the next large
/// allocation would need a new one.
const ROOMY: i64 = 8;
/// Gives every `alloc` of a host program its frame and offset, and every frame its size. Unused
/// allocations and empty frames are removed. Returns the size of the arena at the sample sizes.
pub(super) fn layout_arena(host: &mut Function, frames: &Frames, solver: &Arc<Solver>, model: &dyn CostModel) -> Vec<i64> {
    let ranges = ranges(host);
    let mut parts: Vec<Allocation> = ranges
        .iter()
        .filter(|&(&inst, _)| host.kind_of(inst) == OpKind::Alloc)
        .map(|(&inst, &range)| {
            let (size, inner) = (Size::of(host, inst), frames.asked_in(host.result(inst)));
            Allocation {
                inst,
                dtype: host.ty(host.result(inst)).dtype(),
                range,
                frame: frames.of(&size.bytes, inner),
                size,
                inner,
            }
        })
        .collect();
    let overwrites = overwrites(host, solver, &ranges, model);
    let outputs = output_reuse::all(host, frames, solver, &ranges, &overwrites);
    let samples = samples(&parts.iter().flat_map(|part| part.size.bytes.symbols()).collect(), &host.facts);
    let mut slots = Vec::new();
    for (i, order) in [PlacementOrder::FirstUse, PlacementOrder::LastUse, PlacementOrder::Size].into_iter().enumerate() {
        sort(&mut parts, order, |part| part);
        let arrange = |outputs: &[ReusableOutput]| {
            let mut slots: Vec<Slot> = outputs.iter().cloned().map(Slot::of_output).collect();
            parts.iter().for_each(|part| put(&mut slots, part, &overwrites, frames, solver));
            slots
        };
        let other = output_reuse::arrange_best(&outputs, &samples, arrange);
        if i == 0 || output_reuse::is_smaller(&other, &slots, &samples) {
            slots = other;
        }
    }
    let largest = output_reuse::largest(&outputs);
    for order in PlacementOrder::ALL {
        sort(&mut parts, order, |part| part);
        let packed = static_layout::pack(&parts, largest.clone(), &overwrites, frames, solver);
        if let Some(other) = packed.filter(|other| output_reuse::is_smaller(other, &slots, &samples)) {
            slots = other;
        }
    }
    if let Some(layout) = runtime_layout::smaller_than(&slots, &samples, &parts, &largest, &overwrites, frames, solver) {
        output_reuse::lend(host, &layout.lent);
        layout.place(host, frames, solver);
        remove_empty(host, frames, &layout.frames());
        return samples.iter().filter_map(|sizes| layout.bytes(sizes)).collect();
    }
    let bytes = samples.iter().filter_map(|sizes| output_reuse::own_bytes(&slots, sizes)).collect();
    output_reuse::lend(host, &slots);
    slots.retain(|slot| slot.output.is_none());
    for frame in 0..frames.count() {
        place_slots(host, frames, frame, &slots);
    }
    remove_empty(host, frames, &slots.iter().map(|slot| slot.frame).collect());
    bytes
}

/// Assigns an allocation to a slot.
fn put(slots: &mut Vec<Slot>, part: &Allocation, overwrites: &HashMap<Inst, Vec<Inst>>, frames: &Frames, solver: &Solver) {
    let over = share(slots, part, overwrites, frames);
    match over.or_else(|| choose(slots, part, frames, solver)) {
        Some((position, grown)) => {
            let slot = &mut slots[position];
            slot.size = grown;
            slot.assigned.push(Assignment::at(part, Dim::constant(0)));
        }
        None => {
            let assigned = vec![Assignment::at(part, Dim::constant(0))];
            slots.push(Slot { output: None, frame: part.frame, size: part.size.clone(), assigned })
        }
    }
}

/// Places the slots of a frame one after the other.
fn place_slots(host: &mut Function, frames: &Frames, frame: usize, slots: &[Slot]) {
    let arena = frames.arena(frame);
    let mut offset = Dim::constant(0);
    for slot in slots.iter().filter(|slot| slot.frame == frame) {
        for assignment in &slot.assigned {
            let data = host.inst_mut(assignment.inst);
            data.attrs[position("offset")] = Some(Attr::Dim(&offset + &assignment.offset));
            data.operands[0] = arena;
        }
        offset += &slot.size.bytes;
    }
    let tensor = TensorType::new([offset.clone()], DType::U8);
    host.set_type(arena, Type::Buffer { tensor, space: Space::Global });
    let inst = host.defining(arena).expect("the arena is the result of an op");
    host.inst_mut(inst).attrs[0] = Some(Attr::Dim(offset));
}

/// Removes nested frames that hold nothing, and their unused allocations.
fn remove_empty(host: &mut Function, frames: &Frames, full: &HashSet<usize>) {
    let empty: Vec<_> = (1..frames.count())
        .filter(|frame| !full.contains(frame))
        .filter_map(|frame| host.defining(frames.arena(frame)))
        .collect();
    let unused = |host: &Function, inst: Inst| {
        let arena = host.operands(inst).first().and_then(|&arena| host.defining(arena));
        host.kind_of(inst) == OpKind::Alloc && arena.is_some_and(|arena| empty.contains(&arena))
    };
    let mut blocks = vec![host.body];
    while let Some(block) = blocks.pop() {
        let insts = host.insts(block).to_vec();
        blocks.extend(insts.iter().flat_map(|&inst| host.inst(inst).regions.to_vec()));
        let kept = insts.into_iter().filter(|&inst| !empty.contains(&inst) && !unused(host, inst)).collect();
        host.set_insts(block, kept);
    }
}

/// Finds the slot of an input that dies where the allocation is made and that its group may
/// overwrite, or of an allocation that overwrites this one in the same way.
fn share(slots: &[Slot], part: &Allocation, overwrites: &HashMap<Inst, Vec<Inst>>, frames: &Frames) -> Option<(usize, Size)> {
    let takes = |output: Inst, input: Inst| overwrites.get(&output).is_some_and(|inputs| inputs.contains(&input));
    let shares = |assignment: Inst| takes(part.inst, assignment) || takes(assignment, part.inst);
    let position = slots.iter().position(|slot| {
        let holds = slot.assigned.iter().any(|assignment| shares(assignment.inst));
        holds && slot.is_free(part, shares) && frames.surrounds(slot.frame, part.inner)
    })?;
    Some((position, slots[position].size.clone()))
}

/// Chooses a free slot and its new size: one of equal size, else the smallest that is large enough
/// and not far too large, else one that provably grows to the wanted size, else the largest that
/// may have to grow.
fn choose(slots: &[Slot], part: &Allocation, frames: &Frames, solver: &Solver) -> Option<(usize, Size)> {
    let size = &part.size;
    let is_free = |slot: &Slot| slot.is_free(part, |_| false) && frames.surrounds(slot.frame, part.inner);
    let free = || slots.iter().enumerate().filter(|(_, slot)| is_free(slot));
    let equal = free().find(|(_, slot)| slot.size.equals(size, solver));
    let wanted = size.typical();
    let suits = |slot: &Slot| slot.size.typical() <= wanted.saturating_mul(ROOMY);
    let larger = || {
        let fitting = free().filter(|(_, slot)| suits(slot) && size.fits(&slot.size, solver));
        fitting.min_by_key(|(_, slot)| slot.size.typical())
    };
    // A slot of the arena can grow to a size that is known where its frame begins.
    let grows = |slot: &Slot| slot.output.is_none() && frames.surrounds(part.frame, slot.frame);
    let smaller = || free().find(|(_, slot)| grows(slot) && slot.size.fits(size, solver));
    equal
        .or_else(larger)
        .map(|(position, slot)| (position, slot.size.clone()))
        .or_else(|| smaller().map(|(position, _)| (position, size.clone())))
        .or_else(|| {
            let grown = |(position, slot): (usize, &Slot)| Some((position, slot.size.typical(), slot.size.larger(size)?));
            let slots = free().filter(|(_, slot)| grows(slot) && suits(slot)).filter_map(grown);
            slots.max_by_key(|&(_, typical, _)| typical).map(|(position, _, size)| (position, size))
        })
}
