//! Parts of the arena, the slots that they share, and the outputs whose memory serves as a slot.
use super::liveness::LiveRange;
use disc_ir::{Attr, DType, Dim, Function, Inst, OpKind, Solver};
use std::cmp::Reverse;

/// The largest expression that the size of a slot may become.
pub(super) const MOST_NODES: usize = 160;
/// Sizes of parts are multiples of so many bytes, a cache line.
pub(super) const LINE: i64 = 64;
/// What all dims are taken for where sizes that nothing orders are compared: it decides what is tried first, nothing else. Large enough for what strides
/// leave of an image or a sound.
const TYPICAL: i64 = 1024;

pub(super) struct Slot {
    /// The output whose memory it is; else it is in the arena.
    pub(super) output: Option<ReusableOutput>,
    pub(super) frame: usize,
    pub(super) size: Size,
    pub(super) assigned: Vec<Assignment>,
}

/// What a slot holds, when, and how far behind its beginning.
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

    /// Whether it is needed while the part is. What `may_touch` the part may end where that begins, or begin where that ends.
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

    /// Whether the slot holds nothing while the part is needed, but for what `may_touch` the part: ends where it begins, or begins where it ends.
    pub(super) fn is_free(&self, part: &Allocation, may_touch: impl Fn(Inst) -> bool) -> bool {
        let meets = |assignment: &Assignment| assignment.meets(part, &may_touch);
        !self.assigned.iter().any(meets) && self.output.as_ref().is_none_or(|output| output.admits(part))
    }
}

/// In which order parts are placed. In a chain of parts of one size, each needed by the next, every second one may be where the result will be: which
/// ones is seen from the end. Parts of many sizes suit better if the largest come first.
#[derive(Clone, Copy)]
pub(super) enum PlacementOrder {
    FirstUse,
    LastUse,
    /// Of those that end together, the smallest first: those are packed, and what begins earlier lies beside them.
    LastUseSmallest,
    Size,
}

impl PlacementOrder {
    pub(super) const ALL: [Self; 4] = [Self::FirstUse, Self::LastUse, Self::LastUseSmallest, Self::Size];
}

/// How much memory: rounded up to cache lines, and exactly. Of two sizes, what holds exactly holds rounded up, and is easier to prove. An
/// output has exactly what it needs.
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

    /// The larger of two sizes, whichever that is, unless it takes too much to say.
    pub(super) fn larger(&self, other: &Size) -> Option<Size> {
        let larger = Self { bytes: Dim::max(&self.bytes, &other.bytes), exact: Dim::max(&self.exact, &other.exact) };
        (larger.bytes.nodes().max(larger.exact.nodes()) <= MOST_NODES).then_some(larger)
    }

    pub(super) fn typical(&self) -> i64 {
        typical(&self.bytes)
    }
}

/// A size where all dims are alike; what is too large to say is the largest.
pub(super) fn typical(bytes: &Dim) -> i64 {
    bytes.eval(&|_| Some(TYPICAL)).unwrap_or(i64::MAX)
}

/// A part of the arena that wants a place.
#[derive(Clone)]
pub(super) struct Allocation {
    pub(super) inst: Inst,
    pub(super) dtype: DType,
    pub(super) range: LiveRange,
    pub(super) size: Size,
    /// The frame where its size is known, and the one where it is made.
    pub(super) frame: usize,
    pub(super) inner: usize,
}

/// An output, and who may use its memory.
#[derive(Clone)]
pub(super) struct ReusableOutput {
    pub(super) inst: Inst,
    pub(super) size: Size,
    /// Where its sizes are known.
    pub(super) frame: usize,
    /// The op that writes it first.
    pub(super) written: usize,
    /// Parts that are read there, each position before it is written.
    pub(super) written_over: Vec<Inst>,
    pub(super) element_bytes: usize,
}

impl ReusableOutput {
    /// Whether a part ends before the output is written, or the output is written over it.
    pub(super) fn admits(&self, part: &Allocation) -> bool {
        let ends = part.range.last < self.written || part.range.last == self.written && self.written_over.contains(&part.inst);
        ends && part.dtype.size() <= self.element_bytes
    }

    /// Whether the output is written over a part that it admits, which then begins where the output does.
    pub(super) fn is_written_over(&self, part: &Allocation) -> bool {
        part.range.last >= self.written
    }
}

/// Sorts what is placed as one part each.
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
