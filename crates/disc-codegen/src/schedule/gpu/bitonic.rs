//! Sorts entries by a bitonic network: neighbours in the registers of a warp by shuffles, others in
//! memory of the block.
//!
//! An entry is a key and the position that it is from: no two are equal, so any sort is stable.
//! Entries of a warp's width are sorted in registers; wider steps go through memory, where threads
//! of a warp have neighbouring entries.
//!
//! Invariants: there are as many entries as a power of two that is at least a warp; positions are
//! below 2^31.
use crate::{
    kernel::{KernelBuilder, OpenFor},
    schedule::cpu::key,
};
use disc_ir::{DType, Dim, Grid, Literal, OpKind, TensorType, Value};
use disc_kernel_macros::expr;

/// The lower bits of an entry of one number, which have the position.
const POSITION_BITS: i64 = 32;

/// Returns the types of the values of an entry: a key of 32 bits and its position are one number.
pub(super) fn types_of(key: DType) -> Vec<DType> {
    if key == DType::I64 { vec![DType::I64, DType::I32] } else { vec![DType::I64] }
}

/// Returns the least power of two that is at least a size and a warp.
pub(super) fn padded(kb: &mut KernelBuilder, warp: u32, size: &Dim) -> Value {
    let (start, size, two) = (kb.int(warp.into()), kb.dim(size), kb.int(2));
    let mut more = kb.open_while(&[start], |kb, carried| expr!(kb, carried[0] < size));
    more.next = vec![expr!(kb, more.carried[0] * two)];
    kb.close_while(more)[0]
}

/// Returns a bound of [`padded`] that is a dim.
pub(super) fn room(warp: u32, size: &Dim) -> Dim {
    Dim::max(&(size * 2), &Dim::constant(warp.into()))
}

/// Returns the entry of a key from a position.
pub(super) fn entry(kb: &mut KernelBuilder, key: Value, place: Value) -> Vec<Value> {
    if kb.dtype(key) == DType::I64 {
        return vec![key, kb.convert(place, DType::I32)];
    }
    let (wide, place) = (kb.convert(key, DType::I64), kb.convert(place, DType::I64));
    let shift = kb.constant(Literal::splat_i64(DType::I64, POSITION_BITS), 1);
    let high = kb.map(OpKind::ShiftLeft, &[wide, shift]);
    vec![expr!(kb, high | place)]
}

/// Returns an entry that is ordered after all others.
pub(super) fn last(kb: &mut KernelBuilder, key: DType) -> Vec<Value> {
    types_of(key).into_iter().map(|dtype| key::greatest(kb, dtype)).collect()
}

/// Returns the position that an entry is from.
pub(super) fn place(kb: &mut KernelBuilder, entry: &[Value]) -> Value {
    if let [_, place] = entry {
        return kb.convert(*place, kb.index_type());
    }
    let low = kb.constant(Literal::splat_i64(DType::I64, (1 << POSITION_BITS) - 1), 1);
    let place = expr!(kb, entry[0] & low);
    kb.convert(place, kb.index_type())
}

/// Returns true if entry `a` is ordered before `b`.
fn is_before(kb: &mut KernelBuilder, a: &[Value], b: &[Value]) -> Value {
    let less = expr!(kb, a[0] < b[0]);
    let (&[_, a_place], &[_, b_place]) = (a, b) else { return less };
    expr!(kb, less | ((a[0] == b[0]) & (a_place < b_place)))
}

/// Sorts the entries of a warp's lanes, one each.
pub(super) fn sort_warp(kb: &mut KernelBuilder, warp: u32, entry: Vec<Value>) -> Vec<Value> {
    let lane = kb.place("lane");
    rising(warp).into_iter().fold(entry, |entry, width| {
        let ascends = if width == warp { None } else { Some(is_clear(kb, lane, width)) };
        merge_warp(kb, (width, warp), lane, ascends, entry)
    })
}

/// Returns the powers of two from 2 to a warp.
fn rising(warp: u32) -> Vec<u32> {
    (1..=warp.ilog2()).map(|bits| 1 << bits).collect()
}

/// Tests if a number does not have a bit.
fn is_clear(kb: &mut KernelBuilder, number: Value, bit: u32) -> Value {
    let (bit, zero) = (kb.int(bit.into()), kb.int(0));
    expr!(kb, (number & bit) == zero)
}

/// Sorts each `width` lanes, of which one half ascends and the other descends.
fn merge_warp(
    kb: &mut KernelBuilder,
    (width, warp): (u32, u32),
    lane: Value,
    ascends: Option<Value>,
    mut entry: Vec<Value>,
) -> Vec<Value> {
    let mut distance = width / 2;
    while distance > 0 {
        let by = kb.int(distance.into());
        let other: Vec<Value> = entry.iter().map(|&value| kb.shuffle("xor", value, by, warp)).collect();
        let is_lower = is_clear(kb, lane, distance);
        let is_less = is_before(kb, &other, &entry);
        // The lower lane takes the lesser entry, or the greater one where entries descend.
        let stays = expr!(kb, is_less ^ is_lower);
        let takes = match ascends {
            Some(ascends) => expr!(kb, stays ^ ascends),
            None => expr!(kb, !stays),
        };
        entry = other.iter().zip(&entry).map(|(&theirs, &own)| kb.select(takes, theirs, own)).collect();
        distance /= 2;
    }
    entry
}

/// Memory for the entries of a block.
pub(super) struct Entries {
    grid: Grid,
    memory: Vec<Value>,
    /// The first entry in this memory.
    start: Value,
    /// The number of entries.
    pub(super) count: Value,
    thread: Value,
    warp: Value,
    lane: Value,
}

impl Entries {
    pub(super) fn shared(kb: &mut KernelBuilder, grid: Grid, key: DType, room: &Dim, count: Value) -> Self {
        let allocate = |dtype| kb.shared(TensorType::new([room.clone()], dtype));
        let memory = types_of(key).into_iter().map(allocate).collect();
        let start = kb.int(0);
        Self::of(kb, grid, memory, start, count)
    }

    /// Begins with entries from `start` on in this memory.
    pub(super) fn of(kb: &mut KernelBuilder, grid: Grid, memory: Vec<Value>, start: Value, count: Value) -> Self {
        let [thread, warp, lane] = ["thread", "warp", "lane"].map(|of| kb.place(of));
        Self { grid, memory, start, count, thread, warp, lane }
    }

    pub(super) fn load(&self, kb: &mut KernelBuilder, at: Value) -> Vec<Value> {
        let at = expr!(kb, self.start + at);
        self.memory.iter().map(|&memory| kb.load(memory, at, 1, None)).collect()
    }

    pub(super) fn store(&self, kb: &mut KernelBuilder, at: Value, entry: &[Value]) {
        let at = expr!(kb, self.start + at);
        self.memory.iter().zip(entry).for_each(|(&memory, &value)| kb.store(memory, at, value, None));
    }

    /// Opens a loop over the entries of a thread: of each warp's width, a lane has one. Returns the
    /// number of the entry.
    pub(super) fn open(&self, kb: &mut KernelBuilder) -> (OpenFor, Value) {
        let (width, step) = (kb.int(self.grid.warp.into()), kb.int((self.grid.threads / self.grid.warp).into()));
        let parts = expr!(kb, self.count / width);
        let open = kb.open_for([self.warp, parts, step]);
        let at = expr!(kb, open.index * width + self.lane);
        (open, at)
    }

    /// Sorts the entries that each thread has stored in a loop of [`Entries::open`].
    pub(super) fn sort(&self, kb: &mut KernelBuilder) {
        let warp = self.grid.warp;
        self.in_registers(kb, |kb, at, entry| {
            rising(warp).into_iter().fold(entry, |entry, width| {
                let ascends = is_clear(kb, at, width);
                merge_warp(kb, (width, warp), self.lane, Some(ascends), entry)
            })
        });
        let (width, two) = (kb.int(warp.into()), kb.int(2));
        let start = expr!(kb, width * two);
        let mut widths = kb.open_while(&[start], |kb, carried| expr!(kb, carried[0] <= self.count));
        let both = widths.carried[0];
        let half = expr!(kb, both / two);
        let mut steps = kb.open_while(&[half], |kb, carried| expr!(kb, carried[0] >= width));
        let distance = steps.carried[0];
        self.exchange(kb, both, distance);
        kb.barrier();
        steps.next = vec![expr!(kb, distance / two)];
        kb.close_while(steps);
        self.in_registers(kb, |kb, at, entry| {
            let zero = kb.int(0);
            let ascends = expr!(kb, (at & both) == zero);
            merge_warp(kb, (warp, warp), self.lane, Some(ascends), entry)
        });
        widths.next = vec![expr!(kb, both * two)];
        kb.close_while(widths);
    }

    /// Replaces the entries by what `compute` returns for each: lanes have those of a warp's width.
    fn in_registers(&self, kb: &mut KernelBuilder, compute: impl FnOnce(&mut KernelBuilder, Value, Vec<Value>) -> Vec<Value>) {
        let (open, at) = self.open(kb);
        let entry = self.load(kb, at);
        let sorted = compute(kb, at, entry);
        self.store(kb, at, &sorted);
        kb.close_for(open);
        kb.barrier();
    }

    /// Puts each two entries at this distance in order.
    fn exchange(&self, kb: &mut KernelBuilder, both: Value, distance: Value) {
        let (one, two, step) = (kb.int(1), kb.int(2), kb.int(self.grid.threads.into()));
        let pairs = expr!(kb, self.count / two);
        let below = expr!(kb, distance - one);
        kb.for_each([self.thread, pairs, step], |kb, pair| {
            let at = expr!(kb, pair + pair - (pair & below));
            let other = expr!(kb, at + distance);
            let (lower, upper) = (self.load(kb, at), self.load(kb, other));
            let is_less = is_before(kb, &upper, &lower);
            let swaps = expr!(kb, is_less ^ ((at & both) != 0));
            let sorted = |kb: &mut KernelBuilder, a: &[Value], b: &[Value]| -> Vec<Value> {
                a.iter().zip(b).map(|(&a, &b)| kb.select(swaps, b, a)).collect()
            };
            let (first, second) = (sorted(kb, &lower, &upper), sorted(kb, &upper, &lower));
            self.store(kb, at, &first);
            self.store(kb, other, &second);
        });
    }
}
