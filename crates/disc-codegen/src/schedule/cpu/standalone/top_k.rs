//! Finds the first elements of long lines: a scan keeps the candidates, and sorts these when there
//! is no more room.
//!
//! An element that comes no earlier than the `k`-th of those that were seen before it is skipped,
//! several vectors at a time: of equal elements the one with the lower index comes first, so a
//! later one cannot replace it.
use super::{entries::Entries, key, lines, sort::Line};
use crate::{
    kernel::{Index, OpenWhile},
    schedule::{
        Group, Scheduled,
        common::{
            iteration_space::{Merged, place_unit},
            kernel_frame::KernelFrame,
        },
    },
};
use disc_ir::{DType, Dim, Inst, TensorType, Value, ops::body::Order};
use disc_kernel_macros::expr;

/// The vectors that are skipped at once.
const GROUP: u32 = 4;
/// The room for entries: this many times `k`, and this many more. A group of elements fits after
/// `k` entries.
const ROOM: (i64, i64) = (4, 128);

/// The operands and results of a `top_k`: a line of each is a unit.
pub(super) struct TopK {
    pub(super) value: Value,
    pub(super) results: Vec<Value>,
    pub(super) key: DType,
    pub(super) shape: Vec<Dim>,
    pub(super) axis: usize,
    /// The elements of a line, and those that are wanted.
    pub(super) size: Dim,
    pub(super) k: Dim,
    pub(super) runs: Vec<Merged>,
    pub(super) units: Dim,
}

impl TopK {
    pub(super) fn of(group: &Group<'_>, inst: Inst) -> Self {
        let (value, results) = (group.function.operands(inst)[0], group.function.results_of(inst).to_vec());
        let tensor = group.tensor(value);
        let (shape, axis) = (tensor.dims.to_vec(), tensor.rank() - 1);
        let (size, k) = (shape[axis].clone(), group.tensor(results[0]).dims[axis].clone());
        let runs = lines(&shape, axis);
        let units = Dim::product(runs.iter().map(|run| run.size.clone()));
        Self { value, results, key: key::dtype_of(tensor.dtype), shape, axis, size, k, runs, units }
    }
}

pub(super) fn schedule(group: &Group<'_>, inst: Inst, order: Order) -> Scheduled {
    let mut frame = KernelFrame::new(group, &group.name, 1);
    let TopK { value, results, key, shape, axis, size, k, runs, units } = TopK::of(group, inst);
    let room = Dim::min(&size, &(&k * ROOM.0 + ROOM.1));
    let cost = (size.ceil_div(&Dim::constant(8)) + &room * 16) * &units;
    let entries = Entries::of_first(&mut frame, key, &room, group.target.lanes(64));
    let lanes = group.target.lanes(key.bits());
    let skipped = (lanes * GROUP).min(group.access_lanes());
    let keys = frame.kb.scratch(TensorType::new([Dim::constant(lanes.into())], key));
    frame.units(units, cost, |frame, unit| {
        let zero = frame.kb.int(0);
        let mut at = vec![Index::uniform(zero); shape.len()];
        place_unit(&mut frame.kb, unit, &runs, &mut at);
        let sizes = [&size, &k, &room].map(|dim| frame.kb.dim(dim));
        let line = Line { value, axis, at: &at, order };
        let scan = Scan { line: &line, entries: &entries, sizes, keys, lanes, skipped };
        frame.elements.lanes = entries.lanes;
        line.enter(frame, &entries, sizes[2]);
        let sorted = scan.rest(frame);
        frame.elements.lanes = entries.lanes;
        line.write_found(frame, group, &entries, [sorted, sizes[1]], &results);
    })
}

struct Scan<'a> {
    line: &'a Line<'a>,
    entries: &'a Entries,
    /// The sizes of the line, of the wanted part, and of the room for entries.
    sizes: [Value; 3],
    /// The keys of a vector.
    keys: Value,
    /// The keys of a vector.
    lanes: u32,
    /// The elements that are skipped at once.
    skipped: u32,
}

/// The bound that an element must come before: the key of the `k`-th entry, and its element.
#[derive(Clone, Copy)]
struct Bound {
    key: Value,
    element: Value,
}

impl Scan<'_> {
    /// Visits the elements that had no room; returns the position of the sorted entries afterwards.
    fn rest(&self, frame: &mut KernelFrame<'_>) -> Value {
        let [size, k, room] = self.sizes;
        let kb = &mut frame.kb;
        let (zero, one, not_yet) = (kb.int(0), kb.int(1), kb.int(-1));
        let (key, element) = (kb.dtype(self.keys), crate::kernel::compute_dtype(frame.elements.tensor(self.line.value).dtype));
        let bounds = [kb.zero(key, 1), kb.zero(element, 1)];
        // The loop carries the position of sorted entries, if all is done; the next element; the
        // number of entries; the bound.
        let inits = [not_yet, room, room, bounds[0], bounds[1]];
        let mut rounds = kb.open_while(&inits, |kb, carried| expr!(kb, carried[0] < zero));
        let [_, next, count, key, element] = rounds.carried[..] else { panic!("five values are carried") };
        frame.elements.open_scope();
        let [next, count] = self.fill(frame, [next, count], Bound { key, element });
        let kb = &mut frame.kb;
        let sorted = self.entries.first(kb, count, k);
        let left = expr!(kb, next < size);
        let shrink = kb.open_if(left);
        frame.elements.open_scope();
        let kb = &mut frame.kb;
        let last = expr!(kb, sorted + max(k - one, zero));
        let bound = self.entries.key(kb, last);
        let place = self.entries.places(kb, last, 1, None);
        let mut from = self.line.at.to_vec();
        from[self.line.axis] = Index::uniform(place);
        let worst = frame.elements.element(&mut frame.kb, self.line.value, &from);
        self.entries.move_to_start(&mut frame.kb, sorted, k);
        frame.elements.close_scope();
        let next_round = frame.kb.close_if_giving(shrink, &[not_yet, k, bound, worst], &[sorted, count, key, element]);
        let [done, count, key, element] = next_round[..] else { panic!("four values were given") };
        frame.elements.close_scope();
        rounds.next = vec![done, next, count, key, element];
        frame.kb.close_while(rounds)[0]
    }

    /// Adds elements that come before the bound while there is room; returns the next element and
    /// the number of entries.
    fn fill(&self, frame: &mut KernelFrame<'_>, inits: [Value; 2], bound: Bound) -> [Value; 2] {
        let [size, _, room] = self.sizes;
        let kb = &mut frame.kb;
        let length = kb.int(self.skipped.into());
        let mut groups: OpenWhile =
            kb.open_while(&inits, |kb, carried| expr!(kb, (carried[0] < size) & (carried[1] + length <= room)));
        let [next, count] = groups.carried[..] else { panic!("two values are carried") };
        let end = expr!(kb, next + length);
        let whole = expr!(kb, end <= size);
        let look = kb.open_if(whole);
        frame.elements.lanes = self.skipped;
        frame.elements.open_scope();
        let element = self.elements(frame, next);
        let some = self.may_come_before(frame, element, bound);
        frame.elements.close_scope();
        // A part of a group is tested vector by vector.
        let truth = frame.kb.constant(disc_ir::Literal::splat_i64(DType::I1, 1), 1);
        let some = frame.kb.close_if_giving(look, &[some], &[truth])[0];
        let add = frame.kb.open_if(some);
        frame.elements.lanes = self.lanes;
        frame.elements.open_scope();
        let more = self.add_group(frame, next, count, bound);
        frame.elements.close_scope();
        let count = frame.kb.close_if_giving(add, &[more], &[count])[0];
        groups.next = vec![end, count];
        let [next, count] = frame.kb.close_while(groups)[..] else { panic!("two values are carried") };
        [next, count]
    }

    fn elements(&self, frame: &mut KernelFrame<'_>, next: Value) -> Value {
        let mut at = self.line.at.to_vec();
        at[self.line.axis] = Index::Affine { base: next, stride: i64::from(frame.elements.lanes > 1) };
        let element = frame.elements.element(&mut frame.kb, self.line.value, &at);
        frame.kb.widen(element, frame.elements.lanes)
    }

    /// Returns true if any of these elements may come before the bound. NaN may.
    fn may_come_before(&self, frame: &mut KernelFrame<'_>, element: Value, bound: Bound) -> Value {
        let kb = &mut frame.kb;
        let before = if kb.dtype(element).is_float() {
            let behind = kb.compare(if self.line.order == Order::Descending { "LE" } else { "GE" }, element, bound.element);
            expr!(kb, !behind)
        } else {
            let key = key::encode(kb, element, self.line.order);
            expr!(kb, key < bound.key)
        };
        kb.reduce_lanes(before, "or")
    }

    /// Adds the elements of a group that come before the bound, vector by vector.
    fn add_group(&self, frame: &mut KernelFrame<'_>, next: Value, count: Value, bound: Bound) -> Value {
        let [size, ..] = self.sizes;
        let kb = &mut frame.kb;
        let (zero, length, step) = (kb.int(0), kb.int(self.skipped.into()), kb.int(self.lanes.into()));
        let mut vectors = kb.open_for_carrying([zero, length, step], &[count]);
        let first = expr!(kb, next + vectors.index);
        let left = expr!(kb, size - first);
        let mask = kb.lane_mask(left, self.lanes);
        let outer = frame.elements.mask.replace(mask);
        frame.elements.open_scope();
        let element = self.elements(frame, first);
        frame.elements.close_scope();
        frame.elements.mask = outer;
        let kb = &mut frame.kb;
        let (key, most) = (key::encode(kb, element, self.line.order), key::greatest(kb, kb.dtype(self.keys)));
        let key = kb.select(mask, key, most);
        let before = expr!(kb, key < bound.key);
        let some = kb.reduce_lanes(before, "or");
        let more = kb.if_(
            some,
            |kb| {
                let one = kb.int(1);
                kb.store(self.keys, zero, key, None);
                kb.for_([zero, step, one], &vectors.carried, |kb, lane, carried| {
                    // The entry is written where the next one belongs, and kept if it comes before
                    // the bound.
                    let (key, place) = (kb.load(self.keys, lane, 1, None), expr!(kb, first + lane));
                    self.entries.put(kb, carried[0], key, place, None);
                    let kept = expr!(kb, key < bound.key);
                    let kept = kb.convert(kept, kb.index_type());
                    vec![expr!(kb, carried[0] + kept)]
                })
            },
            |_| vectors.carried.clone(),
        );
        vectors.next = more;
        kb.close_for(vectors)[0]
    }
}
