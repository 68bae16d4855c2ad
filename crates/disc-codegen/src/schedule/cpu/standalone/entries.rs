//! Sorts keys with their positions in memory of the task: few by counting for each the entries
//! before it, many by a radix sort, least significant digit first.
//!
//! Invariants: positions are below 2^31; entries of equal keys are ordered by their positions, so
//! that the sort is stable.
use crate::{kernel::KernelBuilder, schedule::common::kernel_frame::KernelFrame};
use disc_ir::{DType, Dim, Literal, OpKind, TensorType, Value};
use disc_kernel_macros::expr;

/// The most entries per lane of a vector that are sorted by counting.
const FEW_PER_LANE: i64 = 24;
/// The vectors whose counts are in registers at once.
const COUNTED: i64 = 4;
/// The most wanted entries that are found one by one, if there are at least [`LEAST_SHARE`] times
/// as many.
const FEW_WANTED: i64 = 16;
const LEAST_SHARE: i64 = 8;
/// The most entries that are sorted regardless of how many are wanted.
pub(super) const FEW_SORTED: i64 = 64;
const DIGIT_BITS: i64 = 8;
const BINS: i64 = 1 << DIGIT_BITS;

/// Two halves of memory for entries: sorting goes from one to the other.
pub(super) struct Entries {
    /// The keys: of 32 bits above their positions, or of 64 bits.
    pub(super) keys: Value,
    /// The keys of 32 bits by themselves, if only the first entries are wanted.
    pub(super) narrow: Option<Value>,
    /// The positions of keys of 64 bits.
    places: Option<Value>,
    /// The number of entries with each digit, one digit after another.
    counts: Value,
    /// The number of entries of a half.
    room: Value,
    /// The number of entries of a vector.
    pub(super) lanes: u32,
}

/// A vector of entries whose ranks are counted.
struct Counted {
    key: Value,
    place: Option<Value>,
    /// The numbers of the entries.
    number: Value,
}

/// The entries with an equal key that come before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ties {
    /// None: there are none, or they have higher numbers.
    None,
    /// All: they have lower numbers.
    Before,
    ByNumber,
}

impl Entries {
    /// Allocates memory for this many entries, of which only the first may be wanted.
    pub(super) fn of_first(frame: &mut KernelFrame<'_>, key: DType, room: &Dim, lanes: u32) -> Self {
        let entries = Self::new(frame, key, room, lanes);
        let slack = 2 * i64::from(entries.lanes);
        let keys = || frame.kb.scratch(TensorType::new([room + slack], DType::I32));
        Self { narrow: entries.places.is_none().then(keys), ..entries }
    }

    /// Allocates memory for this many entries.
    pub(super) fn new(frame: &mut KernelFrame<'_>, key: DType, room: &Dim, lanes: u32) -> Self {
        let kb = &mut frame.kb;
        let wide = key == DType::I64;
        let keys = kb.scratch(TensorType::new([room * 2], DType::I64));
        let places = wide.then(|| kb.scratch(TensorType::new([room * 2], DType::I32)));
        let digits = i64::from(key.bits()) / DIGIT_BITS;
        let counts = kb.scratch(TensorType::new([Dim::constant(digits * BINS)], DType::I32));
        let room = kb.dim(room);
        Self { keys, narrow: None, places, counts, room, lanes }
    }

    fn digits(&self) -> i64 {
        if self.places.is_some() { 8 } else { 4 }
    }

    /// The position of a key's first bit in the elements of `keys`.
    fn key_shift(&self) -> i64 {
        if self.places.is_some() { 0 } else { 32 }
    }

    /// Stores entries: a scalar each, or vectors.
    pub(super) fn put(&self, kb: &mut KernelBuilder, at: Value, key: Value, place: Value, mask: Option<Value>) {
        let values = kb.unify(&[key, place]);
        let (key, place) = (values[0], values[1]);
        match self.places {
            Some(places) => {
                kb.store(self.keys, at, key, mask);
                let short = kb.convert(place, DType::I32);
                kb.store(places, at, short, mask);
            }
            None => {
                let (wide, shift) = (kb.convert(key, DType::I64), kb.int(32));
                let high = kb.map(OpKind::ShiftLeft, &[wide, shift]);
                let both = expr!(kb, high | place);
                kb.store(self.keys, at, both, mask);
            }
        }
    }

    /// The positions of entries from `at` on.
    pub(super) fn places(&self, kb: &mut KernelBuilder, at: Value, lanes: u32, mask: Option<Value>) -> Value {
        match self.places {
            Some(places) => {
                let found = kb.load(places, at, lanes, mask);
                kb.convert(found, kb.index_type())
            }
            None => {
                let both = kb.load(self.keys, at, lanes, mask);
                expr!(kb, both & int((1 << 32) - 1))
            }
        }
    }

    /// The key of an entry.
    pub(super) fn key(&self, kb: &mut KernelBuilder, at: Value) -> Value {
        let found = kb.load(self.keys, at, 1, None);
        if self.places.is_some() {
            return found;
        }
        let shift = kb.int(32);
        let key = kb.map(OpKind::ShiftRightArithmetic, &[found, shift]);
        kb.convert(key, DType::I32)
    }

    /// Copies `count` entries from `from` to the start.
    pub(super) fn move_to_start(&self, kb: &mut KernelBuilder, from: Value, count: Value) {
        let (zero, step) = (kb.int(0), kb.int(self.lanes.into()));
        kb.for_each([zero, count, step], |kb, at| {
            let left = expr!(kb, count - at);
            let (mask, source) = (kb.lane_mask(left, self.lanes), expr!(kb, from + at));
            for buffer in [Some(self.keys), self.places].into_iter().flatten() {
                let moved = kb.load(buffer, source, self.lanes, Some(mask));
                kb.store(buffer, at, moved, Some(mask));
            }
        });
    }

    /// Sorts the first `count` entries; returns their position afterwards.
    pub(super) fn sort(&self, kb: &mut KernelBuilder, count: Value) -> Value {
        let is_short = expr!(kb, count <= int(FEW_PER_LANE * i64::from(self.lanes) + 64));
        let by_counting = |kb: &mut KernelBuilder| {
            self.count_before(kb, count);
            vec![self.room]
        };
        kb.if_(is_short, by_counting, |kb| vec![self.radix(kb, count)])[0]
    }

    /// Sorts the first `count` entries as far as the first `wanted` of them; returns their position
    /// afterwards.
    pub(super) fn first(&self, kb: &mut KernelBuilder, count: Value, wanted: Value) -> Value {
        let Some(narrow) = self.narrow else { return self.sort(kb, count) };
        let one_by_one = |kb: &mut KernelBuilder| {
            self.least(kb, count, wanted);
            vec![self.room]
        };
        let select = |kb: &mut KernelBuilder| {
            let (few, one) = (kb.int(FEW_SORTED), kb.int(1));
            let (many, some, less) = (expr!(kb, count > few), expr!(kb, wanted >= one), expr!(kb, wanted < count));
            let pays = expr!(kb, many & some & less);
            let left = kb.if_(
                pays,
                |kb| {
                    self.select(kb, narrow, [count, wanted]);
                    vec![wanted]
                },
                |_| vec![count],
            );
            vec![self.sort(kb, left[0])]
        };
        let (share, most) = (kb.int(LEAST_SHARE), kb.int(FEW_WANTED));
        let is_little = expr!(kb, (wanted * share <= count) & (wanted <= most));
        kb.if_(is_little, one_by_one, select)[0]
    }

    /// Writes the least `wanted` entries to the other half, each found among those that are greater
    /// than the one before.
    fn least(&self, kb: &mut KernelBuilder, count: Value, wanted: Value) {
        let constant = |kb: &mut KernelBuilder, value| kb.constant(Literal::splat_i64(DType::I64, value), 1);
        let (zero, one, step) = (kb.int(0), kb.int(1), kb.int(self.lanes.into()));
        let (start, none) = (constant(kb, i64::MIN), constant(kb, i64::MAX));
        kb.for_([zero, wanted, one], &[start], |kb, number, bound| {
            let nothing = kb.widen(none, self.lanes);
            let least = kb.for_([zero, count, step], &[nothing], |kb, at, least| {
                let left = expr!(kb, count - at);
                let mask = kb.lane_mask(left, self.lanes);
                let found = kb.load(self.keys, at, self.lanes, Some(mask));
                let better = expr!(kb, (found >= bound[0]) & (found < least[0]) & mask);
                vec![kb.select(better, found, least[0])]
            });
            let least = kb.reduce_lanes(least[0], "minimum");
            let at = expr!(kb, self.room + number);
            kb.store(self.keys, at, least, None);
            // No two entries are equal, and none is the greatest number: positions have 31 bits.
            vec![expr!(kb, least + one)]
        });
    }

    /// Writes each entry to its rank in the other half.
    fn count_before(&self, kb: &mut KernelBuilder, count: Value) {
        let lanes = i64::from(self.lanes);
        let (zero, block, one) = (kb.int(0), kb.int(lanes * COUNTED), kb.int(lanes));
        let full = expr!(kb, count / block * block);
        kb.for_each([zero, full, block], |kb, base| {
            self.rank(kb, count, base, COUNTED, None);
        });
        kb.for_each([full, count, one], |kb, base| {
            let left = expr!(kb, count - base);
            let mask = kb.lane_mask(left, self.lanes);
            self.rank(kb, count, base, 1, Some(mask));
        });
    }

    /// Counts for some vectors of entries from `base` on the entries before each, and writes them
    /// there.
    fn rank(&self, kb: &mut KernelBuilder, count: Value, base: Value, vectors: i64, mask: Option<Value>) {
        let mut mine = Vec::new();
        for vector in 0..vectors {
            let at = expr!(kb, base + int(vector * i64::from(self.lanes)));
            let key = kb.load(self.keys, at, self.lanes, mask);
            let place = self.places.map(|places| kb.load(places, at, self.lanes, mask));
            let numbers = kb.lane_numbers(self.lanes);
            mine.push(Counted { key, place, number: expr!(kb, at + numbers) });
        }
        let (zero, none) = (kb.int(0), kb.zero(kb.index_type(), self.lanes));
        let mut ranks = vec![none; mine.len()];
        if self.places.is_none() {
            // Keys of 32 bits carry their position: no two are equal.
            ranks = self.count(kb, [zero, count], &mine, ranks, Ties::None);
        } else {
            let end = expr!(kb, min(base + int(vectors * i64::from(self.lanes)), count));
            ranks = self.count(kb, [zero, base], &mine, ranks, Ties::Before);
            ranks = self.count(kb, [base, end], &mine, ranks, Ties::ByNumber);
            ranks = self.count(kb, [end, count], &mine, ranks, Ties::None);
        }
        for (Counted { key, place, .. }, rank) in mine.into_iter().zip(ranks) {
            let at = expr!(kb, rank + self.room);
            kb.store(self.keys, at, key, mask);
            if let (Some(places), Some(place)) = (self.places, place) {
                kb.store(places, at, place, mask);
            }
        }
    }

    /// Adds to `ranks` the number of entries in a range that come before each of `mine`.
    fn count(
        &self,
        kb: &mut KernelBuilder,
        [low, high]: [Value; 2],
        mine: &[Counted],
        ranks: Vec<Value>,
        ties: Ties,
    ) -> Vec<Value> {
        let one = kb.int(1);
        kb.for_([low, high, one], &ranks, |kb, j, ranks| {
            let other = kb.load(self.keys, j, 1, None);
            let mut next = Vec::new();
            for (entry, &rank) in mine.iter().zip(ranks) {
                let mut before = kb.compare(if ties == Ties::Before { "LE" } else { "LT" }, other, entry.key);
                if ties == Ties::ByNumber {
                    before = expr!(kb, before | ((other == entry.key) & (j < entry.number)));
                }
                let step = kb.convert(before, kb.index_type());
                next.push(expr!(kb, rank + step));
            }
            next
        })
    }

    /// A digit of an entry: its position among the counts of all digits' bins. `last` is the digit
    /// with the sign, which counts in reverse.
    fn digit(&self, kb: &mut KernelBuilder, entry: Value, shift: Value, last: Value) -> Value {
        let shifted = kb.map(OpKind::ShiftRightLogical, &[entry, shift]);
        expr!(kb, (shifted & int(BINS - 1)) ^ last)
    }

    /// Sorts the first `count` entries, one digit after another, in as many passes as there are
    /// digits that differ.
    fn radix(&self, kb: &mut KernelBuilder, count: Value) -> Value {
        self.count_digits(kb, count);
        let (zero, one, digits) = (kb.int(0), kb.int(1), kb.int(self.digits()));
        let sorted = kb.for_([zero, digits, one], &[zero, self.room], |kb, pass, halves| {
            let (from, to) = (halves[0], halves[1]);
            let (bins, bits, first_bit) = (kb.int(BINS), kb.int(DIGIT_BITS), kb.int(self.key_shift()));
            let table = expr!(kb, pass * bins);
            let shift = expr!(kb, pass * bits + first_bit);
            let (top, half) = (kb.int(self.digits() - 1), kb.int(BINS / 2));
            let sign = expr!(kb, select(pass == top, half, zero));
            let first = kb.load(self.keys, from, 1, None);
            let digit = self.digit(kb, first, shift, sign);
            let place = expr!(kb, table + digit);
            let alike = kb.load(self.counts, place, 1, None);
            let alike = kb.convert(alike, kb.index_type());
            let differ = expr!(kb, alike < count);
            kb.if_(
                differ,
                |kb| {
                    self.sum_counts(kb, table, to);
                    self.distribute(kb, [from, count], table, shift, sign);
                    vec![to, from]
                },
                |_| vec![from, to],
            )
        });
        sorted[0]
    }

    /// Counts all digits of all entries.
    fn count_digits(&self, kb: &mut KernelBuilder, count: Value) {
        let (zero, one) = (kb.int(0), kb.int(1));
        let lanes = self.lanes * 2;
        let (bins, step) = (kb.int(self.digits() * BINS), kb.int(lanes.into()));
        kb.for_each([zero, bins, step], |kb, at| {
            let none = kb.zero(DType::I32, lanes);
            kb.store(self.counts, at, none, None);
        });
        kb.for_each([zero, count, one], |kb, i| {
            let entry = kb.load(self.keys, i, 1, None);
            for pass in 0..self.digits() {
                let (shift, table) = (kb.int(self.key_shift() + pass * DIGIT_BITS), kb.int(pass * BINS));
                let sign = kb.int(if pass == self.digits() - 1 { BINS / 2 } else { 0 });
                let digit = self.digit(kb, entry, shift, sign);
                let at = expr!(kb, digit + table);
                self.increment(kb, at);
            }
        });
    }

    /// Increments the count at a position and returns the old one.
    fn increment(&self, kb: &mut KernelBuilder, at: Value) -> Value {
        let (found, one) = (kb.load(self.counts, at, 1, None), kb.constant(Literal::splat_i64(DType::I32, 1), 1));
        let more = kb.map(OpKind::Add, &[found, one]);
        kb.store(self.counts, at, more, None);
        found
    }

    /// Replaces the counts of a digit by the positions at which its bins start, from `to` on. They
    /// wrap as counts do: both are below 2^32.
    fn sum_counts(&self, kb: &mut KernelBuilder, table: Value, to: Value) {
        let one = kb.int(1);
        let end = expr!(kb, table + int(BINS));
        let start = kb.convert(to, DType::I32);
        kb.for_([table, end, one], &[start], |kb, at, sum| {
            let here = kb.load(self.counts, at, 1, None);
            kb.store(self.counts, at, sum[0], None);
            vec![kb.map(OpKind::Add, &[sum[0], here])]
        });
    }

    fn distribute(&self, kb: &mut KernelBuilder, [from, count]: [Value; 2], table: Value, shift: Value, sign: Value) {
        let (end, one) = (expr!(kb, from + count), kb.int(1));
        kb.for_each([from, end, one], |kb, i| {
            let entry = kb.load(self.keys, i, 1, None);
            let digit = self.digit(kb, entry, shift, sign);
            let bin = expr!(kb, table + digit);
            let found = self.increment(kb, bin);
            // The sum is unsigned: two halves may be more than 2^31 entries.
            let found = kb.emit_all(OpKind::BitcastConvert, &[found], &[("dtype", DType::U32.into())], None)[0];
            let place = kb.convert(found, kb.index_type());
            kb.store(self.keys, place, entry, None);
            if let Some(places) = self.places {
                let position = kb.load(places, i, 1, None);
                kb.store(places, place, position, None);
            }
        });
    }
}
