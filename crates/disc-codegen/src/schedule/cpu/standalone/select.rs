//! Selects the first entries of many, without sorting the others: the key of the last wanted one is
//! found by its bits, then entries with lower keys, and as many of those with that key as are
//! wanted, move together.
//!
//! Counting the keys below three bounds gives two bits of that key, in a pass over keys of 32 bits
//! that neither branches nor writes. It is not used for keys of 64 bits, which take four times as
//! long.
//!
//! Invariant: entries keep the order of their positions while they move, so that of equal keys the
//! first ones stay.
use super::entries::{Entries, FEW_SORTED};
use crate::kernel::KernelBuilder;
use disc_ir::{DType, Literal, OpKind, Value};
use disc_kernel_macros::expr;

/// The bits of the key that a pass finds, and the bounds that distinguish them.
const BITS: i64 = 2;
const BOUNDS: i64 = (1 << BITS) - 1;
const KEY_BITS: i64 = 32;

impl Entries {
    /// Moves the first `wanted` of `count` entries to the start, in the order of their positions.
    /// At least one is wanted, and at most all are.
    pub(super) fn select(&self, kb: &mut KernelBuilder, narrow: Value, [count, wanted]: [Value; 2]) {
        let padded = self.keys_alone(kb, narrow, count);
        let one = kb.int(1);
        let rank = expr!(kb, wanted - one);
        let bound = self.key_of_rank(kb, narrow, padded, rank);
        let below = self.counts(kb, narrow, padded, &[bound])[0];
        let below = kb.convert(below, kb.index_type());
        let alike = expr!(kb, wanted - below);
        let zero = kb.int(0);
        kb.for_([zero, count, one], &[zero, alike], |kb, i, carried| {
            let (at, left) = (carried[0], carried[1]);
            let (entry, key) = (kb.load(self.keys, i, 1, None), kb.load(narrow, i, 1, None));
            let before = expr!(kb, key < bound);
            let equal = expr!(kb, (key == bound) & (left > zero));
            // The entry is written where the next one belongs, which was read already, and kept if
            // it is wanted.
            kb.store(self.keys, at, entry, None);
            let kept = expr!(kb, before | equal);
            let (kept, equal) = (kb.convert(kept, kb.index_type()), kb.convert(equal, kb.index_type()));
            vec![expr!(kb, at + kept), expr!(kb, left - equal)]
        });
    }

    /// Returns the position of the entry that has `rank` others before it, of `count`.
    pub(super) fn at_rank(&self, kb: &mut KernelBuilder, count: Value, rank: Value) -> Value {
        let sorted = |kb: &mut KernelBuilder| {
            let sorted = self.sort(kb, count);
            vec![expr!(kb, sorted + rank)]
        };
        let Some(narrow) = self.narrow else { return sorted(kb)[0] };
        let are_few = expr!(kb, count <= int(FEW_SORTED));
        let selected = |kb: &mut KernelBuilder| {
            let wanted = expr!(kb, rank + 1);
            self.select(kb, narrow, [count, wanted]);
            vec![self.greatest_to_start(kb, wanted)]
        };
        kb.if_(are_few, sorted, selected)[0]
    }

    /// Writes the greatest of the first `count` entries to the start, and returns that position.
    fn greatest_to_start(&self, kb: &mut KernelBuilder, count: Value) -> Value {
        let (zero, step) = (kb.int(0), kb.int(self.lanes.into()));
        let least = kb.constant(Literal::splat_i64(DType::I64, i64::MIN), 1);
        let least = kb.widen(least, self.lanes);
        let greatest = kb.for_([zero, count, step], &[least], |kb, at, carried| {
            let left = expr!(kb, count - at);
            let mask = kb.lane_mask(left, self.lanes);
            let entries = kb.load(self.keys, at, self.lanes, Some(mask));
            let entries = kb.select(mask, entries, least);
            vec![kb.max(entries, carried[0])]
        });
        let entry = kb.reduce_lanes(greatest[0], "maximum");
        kb.store(self.keys, zero, entry, None);
        zero
    }

    /// Writes the keys of entries by themselves, up to whole vectors of the greatest key; returns
    /// their number.
    fn keys_alone(&self, kb: &mut KernelBuilder, narrow: Value, count: Value) -> Value {
        let (zero, step, width) = (kb.int(0), kb.int(self.lanes.into()), kb.int(i64::from(self.key_lanes())));
        let padded = expr!(kb, (count + width - 1) / width * width);
        let most = kb.constant(Literal::splat_i64(DType::I32, i32::MAX.into()), 1);
        kb.for_each([zero, padded, step], |kb, at| {
            let left = expr!(kb, count - at);
            let mask = kb.lane_mask(left, self.lanes);
            let entries = kb.load(self.keys, at, self.lanes, Some(mask));
            let shift = kb.int(KEY_BITS);
            let keys = kb.map(OpKind::ShiftRightArithmetic, &[entries, shift]);
            let keys = expr!(kb, select(mask, convert(keys, DType::I32), most));
            kb.store(narrow, at, keys, None);
        });
        padded
    }

    /// The key of the entry with `rank` others before it: the greatest number that at most `rank`
    /// keys are below.
    fn key_of_rank(&self, kb: &mut KernelBuilder, narrow: Value, padded: Value, rank: Value) -> Value {
        let constant = |kb: &mut KernelBuilder, value: i64| kb.constant(Literal::splat_i64(DType::I32, value), 1);
        let (least, step) = (constant(kb, i32::MIN.into()), constant(kb, 1 << (KEY_BITS - BITS)));
        let (zero, passes, one) = (kb.int(0), kb.int(KEY_BITS / BITS), kb.int(1));
        let rank = kb.convert(rank, DType::I32);
        kb.for_([zero, passes, one], &[least, step], |kb, _, carried| {
            let (key, step) = (carried[0], carried[1]);
            let mut bounds = vec![key];
            for _ in 0..BOUNDS {
                let next = kb.map(OpKind::Add, &[bounds[bounds.len() - 1], step]);
                bounds.push(next);
            }
            let counts = self.counts(kb, narrow, padded, &bounds[1..]);
            // Of rising bounds, this is the last one with few enough keys below it.
            let mut found = key;
            for (count, &bound) in counts.into_iter().zip(&bounds[1..]) {
                found = expr!(kb, select(count <= rank, bound, found));
            }
            let bits = constant(kb, BITS);
            vec![found, kb.map(OpKind::ShiftRightLogical, &[step, bits])]
        })[0]
    }

    /// The number of keys below each of these.
    fn counts(&self, kb: &mut KernelBuilder, narrow: Value, padded: Value, bounds: &[Value]) -> Vec<Value> {
        let lanes = self.key_lanes();
        let (zero, step, none) = (kb.int(0), kb.int(lanes.into()), kb.zero(DType::I32, lanes));
        let counts = kb.for_([zero, padded, step], &vec![none; bounds.len()], |kb, at, counts| {
            let keys = kb.load(narrow, at, lanes, None);
            let below = |kb: &mut KernelBuilder, (&bound, &count): (&Value, &Value)| {
                let below = expr!(kb, convert(keys < bound, DType::I32));
                kb.map(OpKind::Add, &[count, below])
            };
            bounds.iter().zip(counts).map(|pair| below(kb, pair)).collect()
        });
        counts.into_iter().map(|count| kb.reduce_lanes(count, "add")).collect()
    }

    /// The keys of a vector, if they are by themselves.
    fn key_lanes(&self) -> u32 {
        2 * self.lanes
    }
}
