//! Allocations of the arena, the slots that they share, and outputs whose memory serves as a slot.
use super::liveness::LiveRange;
use disc_ir::{Attr, DType, Dim, Function, Inst, OpKind, Solver};
use std::cmp::Reverse;

/// The largest expression, in nodes, that the size of a slot may become.
pub(super) const MOST_NODES: usize = 160;
/// Sizes of allocations are multiples of a cache line.
pub(super) const LINE: i64 = 64;
/// The value of every dim when sizes are compared that no fact orders. It only decides the order of
/// trials. It is large enough for the size that the strides leave of an image or a sound.
const TYPICAL: i64 = 1024;

pub(super) struct Slot {
    /// The output whose memory this is; `None` for a slot of the arena.
    pub(super) output: Option<ReusableOutput>,
    pub(super) frame: usize,
    pub(super) size: Size,
    pub(super) assigned: Vec<Assignment>,
}

/// An allocation in a slot: its live range and its offset from the start of the slot.
#[derive(Clone)]
pub(super) struct Assignment {
    pub(super) inst: Inst,
    pub(super) range: LiveRange,
    pub(super) offset: Dim,
    pub(super) end: Dim,
}

impl Assignment {
    pub(super) fn at(part: &Allocation, offset: Dim) -> Self {
        let end = &offset + &part.size.bytes;
        Self { inst: part.inst, range: part.range, offset, end }
    }

    /// Returns true if its live range overlaps that of the allocation. Two ranges for which
    /// `may_touch` holds may share one op: the one where the first ends and the second begins.
    pub(super) fn meets(&self, part: &Allocation, may_touch: impl Fn(Inst) -> bool) -> bool {
        let (range, from, to) = (self.range, part.range.first, part.range.last);
        let touches = range.last == from || to == range.first;
        !(range.last < from || to < range.first || touches && may_touch(self.inst))
    }
}

impl Slot {
    pub(super) fn of_output(output: ReusableOutput) -> Self {
        let (frame, size) = (output.frame, output.size.clone());
        Self { output: Some(output), frame, size, assigned: Vec::new() }
    }

    /// Returns true if nothing in the slot is live together with the allocation; see
    /// [`Assignment::meets`] for `may_touch`.
    pub(super) fn is_free(&self, part: &Allocation, may_touch: impl Fn(Inst) -> bool) -> bool {
        let meets = |assignment: &Assignment| assignment.meets(part, &may_touch);
        !self.assigned.iter().any(meets) && self.output.as_ref().is_none_or(|output| output.admits(part))
    }
}

/// The order in which allocations are placed. In a chain of allocations of one size, each read to
/// make the next, every second one may share the memory of the result; only placing from the end
/// shows which. Allocations of many sizes pack better with the largest first.
#[derive(Clone, Copy)]
pub(super) enum PlacementOrder {
    FirstUse,
    LastUse,
    /// Of those that end together, the smallest first: these are packed, and allocations that begin
    /// earlier are placed beside them.
    LastUseSmallest,
    Size,
}

impl PlacementOrder {
    pub(super) const ALL: [Self; 4] = [Self::FirstUse, Self::LastUse, Self::LastUseSmallest, Self::Size];
}

/// A number of bytes, rounded up to cache lines and exact. If one exact size covers another, so
/// does the rounded one, and exact sizes are easier to compare. For an output both are exact.
#[derive(Clone)]
pub(super) struct Size {
    pub(super) bytes: Dim,
    pub(super) exact: Dim,
}

impl Size {
    pub(super) fn of(host: &Function, inst: Inst) -> Self {
        let tensor = host.ty(host.result(inst)).shaped().expect("a part is a buffer");
        let exact = tensor.element_count() * tensor.dtype.size() as i64;
        match &host.inst(inst).attrs[position("bytes")] {
            Some(Attr::Dim(bytes)) => Self { bytes: bytes.clone(), exact },
            _ => panic!("`alloc` has a size"),
        }
    }

    pub(super) fn equals(&self, other: &Size, solver: &Solver) -> bool {
        solver.equal(&self.exact, &other.exact) || solver.equal(&self.bytes, &other.bytes)
    }

    pub(super) fn fits(&self, other: &Size, solver: &Solver) -> bool {
        solver.less_equal(&self.exact, &other.exact) || solver.less_equal(&self.bytes, &other.bytes)
    }

    /// The maximum of two sizes, unless its expression is too large.
    pub(super) fn larger(&self, other: &Size) -> Option<Size> {
        let larger = Self { bytes: Dim::max(&self.bytes, &other.bytes), exact: Dim::max(&self.exact, &other.exact) };
        (larger.bytes.nodes().max(larger.exact.nodes()) <= MOST_NODES).then_some(larger)
    }

    pub(super) fn typical(&self) -> i64 {
        typical(&self.bytes)
    }
}

/// A size with every dim at its typical value; `i64::MAX` if it cannot be computed.
pub(super) fn typical(bytes: &Dim) -> i64 {
    bytes.eval(&|_| Some(TYPICAL)).unwrap_or(i64::MAX)
}

/// An `alloc` that needs a place in the arena.
#[derive(Clone)]
pub(super) struct Allocation {
    pub(super) inst: Inst,
    pub(super) dtype: DType,
    pub(super) range: LiveRange,
    pub(super) size: Size,
    /// The outermost frame where its size is known, and the frame that allocates it.
    pub(super) frame: usize,
    pub(super) inner: usize,
}

/// An output whose memory may hold earlier allocations.
#[derive(Clone)]
pub(super) struct ReusableOutput {
    pub(super) inst: Inst,
    pub(super) size: Size,
    /// The outermost frame where its sizes are known.
    pub(super) frame: usize,
    /// The position of the op that first writes it.
    pub(super) written: usize,
    /// Allocations that this op reads, each position before it writes the same position.
    pub(super) written_over: Vec<Inst>,
    pub(super) element_bytes: usize,
}

impl ReusableOutput {
    /// Returns true if an allocation may be in the output's memory: its live range ends before the
    /// output is written, or the op that writes the output overwrites it in place.
    pub(super) fn admits(&self, part: &Allocation) -> bool {
        let ends = part.range.last < self.written || part.range.last == self.written && self.written_over.contains(&part.inst);
        ends && part.dtype.size() <= self.element_bytes
    }

    /// Returns true if the output overwrites an allocation that it admits, which then starts at
    /// offset 0.
    pub(super) fn is_written_over(&self, part: &Allocation) -> bool {
        part.range.last >= self.written
    }
}

/// Sorts items by the allocation of each.
pub(super) fn sort<T>(placed: &mut [T], order: PlacementOrder, part: impl Fn(&T) -> &Allocation) {
    placed.sort_by_key(|one| (part(one).range.first, part(one).inst));
    match order {
        PlacementOrder::FirstUse => {}
        PlacementOrder::LastUse => placed.sort_by_key(|one| Reverse(part(one).range.last)),
        PlacementOrder::LastUseSmallest => placed.sort_by_key(|one| (Reverse(part(one).range.last), part(one).size.typical())),
        PlacementOrder::Size => placed.sort_by_key(|one| Reverse(part(one).size.typical())),
    }
}

pub(super) fn position(name: &str) -> usize {
    OpKind::Alloc.def().attr_position(name).expect("`alloc` has this attribute")
}
