//! The layout of the arena.
//!
//! Parts are placed in the order of their first use. A part takes over a slot that is free by then, if the facts prove that one of the two
//! sizes covers the other; otherwise it gets a new slot. Slots follow one another.
use super::liveness::{Range, ranges};
use disc_ir::{Attr, DType, Dim, Function, Inst, OpKind, Solver, Space, TensorType, Type, Value};

struct Slot {
    bytes: Dim,
    /// The last op that uses what the slot holds.
    busy_until: usize,
    tenants: Vec<Inst>,
}

/// Sets the offset of every `alloc` of a host program, and the size of the arena; a part that nothing uses gets no room.
pub(super) fn lay_out(host: &mut Function, arena: Value, solver: &Solver) {
    let ranges = ranges(host);
    let mut parts: Vec<(Inst, Range, Dim)> = ranges.iter().map(|(&inst, &range)| (inst, range, bytes(host, inst))).collect();
    parts.sort_by_key(|(inst, range, _)| (range.first, *inst));
    let mut slots: Vec<Slot> = Vec::new();
    for (inst, range, size) in parts {
        match choose(&slots, &range, &size, solver) {
            Some((position, grown)) => {
                let slot = &mut slots[position];
                slot.busy_until = range.last;
                slot.bytes = grown;
                slot.tenants.push(inst);
            }
            None => slots.push(Slot { bytes: size, busy_until: range.last, tenants: vec![inst] }),
        }
    }
    let mut offset = Dim::constant(0);
    for slot in slots {
        for inst in slot.tenants {
            set_offset(host, inst, offset.clone());
        }
        offset += &slot.bytes;
    }
    let tensor = TensorType::new([offset.clone()], DType::U8);
    host.set_type(arena, Type::Buffer { tensor, space: Space::Global });
    let inst = host.defining(arena).expect("the arena is the result of an op");
    host.inst_mut(inst).attrs[0] = Some(Attr::Dim(offset));
}

/// The free slot to use, and its size then: an equal one, else one that is large enough, else one that can grow.
fn choose(slots: &[Slot], range: &Range, size: &Dim, solver: &Solver) -> Option<(usize, Dim)> {
    let free = || slots.iter().enumerate().filter(|(_, slot)| slot.busy_until < range.first);
    let equal = free().find(|(_, slot)| solver.equal(&slot.bytes, size));
    let larger = || free().find(|(_, slot)| solver.less_equal(size, &slot.bytes));
    let smaller = || free().find(|(_, slot)| solver.less_equal(&slot.bytes, size));
    equal
        .or_else(larger)
        .map(|(position, slot)| (position, slot.bytes.clone()))
        .or_else(|| smaller().map(|(position, _)| (position, size.clone())))
}

fn bytes(host: &Function, inst: Inst) -> Dim {
    match &host.inst(inst).attrs[position("bytes")] {
        Some(Attr::Dim(bytes)) => bytes.clone(),
        _ => panic!("`alloc` has a size"),
    }
}

fn set_offset(host: &mut Function, inst: Inst, offset: Dim) {
    host.inst_mut(inst).attrs[position("offset")] = Some(Attr::Dim(offset));
}

fn position(name: &str) -> usize {
    OpKind::Alloc.def().attr_position(name).expect("`alloc` has this attribute")
}
