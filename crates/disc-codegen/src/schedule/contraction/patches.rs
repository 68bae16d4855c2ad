//! Packing patches of an input, for convolutions: run by run of windows that lie in one row of the result.
//!
//! It is what [`super::pack::compute_panel`] does for any operand, for one that is `patches` of memory whose elements lie as they are: the windows
//! of a run read, for each element of a window, a piece of one row of the input, and zeros at its ends.
use super::{Operands, plan::ContractionPlan};
use crate::{build::KernelBuilder, element::strides, index::Index};
use disc_ir::{Dim, Function, OpKind, Value};
use disc_passes::query::Query;

/// Windows over memory.
pub(super) struct Patches {
    /// The memory, as the position among the plan's inputs.
    input: usize,
    shape: Vec<Dim>,
    /// One entry for each dimension that windows slide over.
    taps: Vec<Dim>,
    counts: Vec<Dim>,
    steps: Vec<i64>,
    dilations: Vec<i64>,
    low: Vec<Dim>,
}

impl Patches {
    /// The windows of a right operand, if it is `patches` of an input of the group and its columns are the windows' counts.
    pub(super) fn of(group: &Function, plan: &ContractionPlan) -> Option<Self> {
        let value = plan.right.value;
        let inst = group.made_by(value, OpKind::Patches)?;
        let operand = group.operands(inst)[0];
        let input = plan.inputs.iter().position(|&input| input == operand)?;
        let shape = group.ty(operand).shaped()?.dims.to_vec();
        let dims = &group.ty(value).shaped()?.dims;
        let windows = dims.len() - shape.len();
        let others = shape.len() - windows;
        let spread = group.ints(inst, "base_dilations");
        let summed: Vec<usize> = (others.checked_sub(1)?..others + windows).collect();
        let counted: Vec<usize> = (others + windows..dims.len()).collect();
        let fits = windows > 0
            && spread.iter().all(|&factor| factor == 1)
            && plan.right.sum == summed
            && plan.right.free == counted
            && plan.right.batch.iter().all(|&dim| dim < others - 1);
        let or_ones = |name: &str| match group.ints(inst, name) {
            [] => vec![1; windows],
            given => given.to_vec(),
        };
        let low = match group.dims(inst, "padding_low") {
            [] => vec![Dim::constant(0); windows],
            given => given.to_vec(),
        };
        fits.then(|| Self {
            input,
            taps: dims[others..others + windows].to_vec(),
            counts: dims[others + windows..].to_vec(),
            steps: or_ones("window_strides"),
            dilations: or_ones("window_dilations"),
            low,
            shape,
        })
    }

    /// Packs the panel whose first column is `column`; `at` is the position along the batch dimensions and those of the counts that are not
    /// walked as columns.
    pub(super) fn pack(&self, kb: &mut KernelBuilder, plan: &ContractionPlan, operands: &Operands, at: &[Index], column: Value) {
        let scalar = |index: Index| index.as_uniform().expect("a batch position is a scalar");
        let (columns, width) = (kb.dim(&plan.n.size), kb.int(i64::from(plan.tile.columns)));
        let stop = kb.add(column, width);
        let end = kb.map(OpKind::Minimum, &[stop, columns]);
        let strides = strides(kb, &self.shape);
        let mut base = kb.int(0);
        for (&dim, &index) in plan.right.batch.iter().zip(at) {
            let step = kb.mul(scalar(index), strides[dim]);
            base = kb.add(base, step);
        }
        let counted: Vec<Value> = (0..self.counts.len()).map(|i| scalar(at[plan.right.first + i])).collect();
        let run = kb.open_while(&[column], |kb, carried| kb.compare("LT", carried[0], end));
        let start = run.carried[0];
        let window = self.window(kb, &counted, start);
        let last = kb.dim(self.counts.last().expect("there are windows"));
        let room = kb.sub(last, window[window.len() - 1]);
        let left = kb.sub(end, start);
        let length = kb.map(OpKind::Minimum, &[room, left]);
        let shift = kb.sub(start, column);
        self.run(kb, plan, operands, base, &strides, &window, [shift, length]);
        let next = kb.add(start, length);
        let mut run = run;
        run.next = vec![next];
        kb.close_while(run);
        let is_last = kb.compare("LT", end, stop);
        let (used, free) = (kb.sub(end, column), kb.sub(stop, end));
        let clear = |kb: &mut KernelBuilder| {
            clear(kb, plan, operands, [used, free]);
            Vec::new()
        };
        kb.if_(is_last, clear, |_| Vec::new());
    }

    /// The window at position `flat` of the dimensions that are walked as one.
    fn window(&self, kb: &mut KernelBuilder, counted: &[Value], flat: Value) -> Vec<Value> {
        let mut window = counted.to_vec();
        let last = window.len() - 1;
        window[last] = flat;
        for i in (1..window.len()).rev() {
            let size = kb.dim(&self.counts[i]);
            let (times, rest) = (kb.div(window[i], size), kb.rem(window[i], size));
            window[i] = rest;
            window[i - 1] = kb.add(window[i - 1], times);
        }
        window
    }

    /// Packs `length` neighbouring windows, from column `shift` of the panel on.
    #[expect(clippy::too_many_arguments, reason = "the loop nest's state; a struct for it would be used once")]
    fn run(
        &self,
        kb: &mut KernelBuilder,
        plan: &ContractionPlan,
        operands: &Operands,
        base: Value,
        strides: &[Value],
        window: &[Value],
        [shift, length]: [Value; 2],
    ) {
        let (zero, one) = (kb.int(0), kb.int(1));
        let windows = self.taps.len();
        let others = self.shape.len() - windows;
        let mut loops = Vec::new();
        // Features, and all elements of a window but those along a row.
        let features = kb.dim(&self.shape[others - 1]);
        let feature = kb.open_for([zero, features, one]);
        let step = kb.mul(feature.index, strides[others - 1]);
        let mut from = kb.add(base, step);
        let (mut number, mut exists) = (feature.index, None);
        loops.push(feature);
        for i in 0..windows - 1 {
            let taps = kb.dim(&self.taps[i]);
            let tap = kb.open_for([zero, taps, one]);
            let (position, inside) = self.position(kb, i, window[i], tap.index, others);
            let step = kb.mul(position, strides[others + i]);
            from = kb.add(from, step);
            number = kb.mul(number, taps);
            number = kb.add(number, tap.index);
            exists = Some(match exists {
                Some(before) => kb.and(before, inside),
                None => inside,
            });
            loops.push(tap);
        }
        let i = windows - 1;
        let taps = kb.dim(&self.taps[i]);
        let tap = kb.open_for([zero, taps, one]);
        number = kb.mul(number, taps);
        number = kb.add(number, tap.index);
        loops.push(tap);
        let (first, _) = self.position(kb, i, window[i], loops.last().expect("pushed above").index, others);
        let [low, mut high] = self.inside(kb, first, length, others);
        if let Some(exists) = exists {
            high = kb.select(exists, high, zero);
        }
        let width = kb.int(i64::from(plan.tile.columns));
        let to = kb.mul(number, width);
        let to = kb.add(to, shift);
        self.row(kb, plan, operands, [from, first, to], [low, high, length]);
        while let Some(open) = loops.pop() {
            kb.close_for(open);
        }
    }

    /// Where element `tap` of window `window` lies along dimension `i`, and whether the input has it.
    fn position(&self, kb: &mut KernelBuilder, i: usize, window: Value, tap: Value, others: usize) -> (Value, Value) {
        let (step, dilation) = (kb.int(self.steps[i]), kb.int(self.dilations[i]));
        let (window, tap) = (kb.mul(window, step), kb.mul(tap, dilation));
        let (low, size, zero) = (kb.dim(&self.low[i]), kb.dim(&self.shape[others + i]), kb.int(0));
        let position = kb.add(window, tap);
        let position = kb.sub(position, low);
        let (after, before) = (kb.compare("GE", position, zero), kb.compare("LT", position, size));
        (position, kb.and(after, before))
    }

    /// Which of `length` neighbouring windows, the first of which reads position `first` of a row, read an element of the row.
    fn inside(&self, kb: &mut KernelBuilder, first: Value, length: Value, others: usize) -> [Value; 2] {
        let i = self.taps.len() - 1;
        let (zero, size, step, up) =
            (kb.int(0), kb.dim(&self.shape[others + i]), kb.int(self.steps[i]), kb.int(self.steps[i] - 1));
        // How many windows pass until their position is at least `limit`.
        let mut until = |limit: Value| {
            let distance = kb.sub(limit, first);
            let distance = kb.add(distance, up);
            let distance = kb.map(OpKind::Maximum, &[distance, zero]);
            let passed = kb.div(distance, step);
            kb.map(OpKind::Minimum, &[passed, length])
        };
        [until(zero), until(size)]
    }

    /// Copies one element of `length` windows: those from `low` to below `high` have one, the others a zero.
    fn row(
        &self,
        kb: &mut KernelBuilder,
        plan: &ContractionPlan,
        operands: &Operands,
        [from, first, to]: [Value; 3],
        [low, high, length]: [Value; 3],
    ) {
        let lanes = plan.tile.lanes;
        let (zero, vector) = (kb.int(0), kb.int(i64::from(lanes)));
        let step = self.steps[self.taps.len() - 1];
        let pieces = kb.open_for([zero, length, vector]);
        let done = pieces.index;
        let [low, high, left] = [low, high, length].map(|bound| kb.sub(bound, done));
        let (before, until) = (kb.lane_mask(low, lanes), kb.lane_mask(high, lanes));
        let behind = kb.emit(OpKind::Not, &[before]);
        let inside = kb.and(until, behind);
        let distance = kb.int(step);
        let distance = kb.mul(done, distance);
        let here = kb.add(from, first);
        let here = kb.add(here, distance);
        let position = Index::Affine { base: here, stride: step };
        let position = if step == 1 { here } else { position.value(kb, lanes) };
        let loaded = kb.load(operands.inputs[self.input], position, lanes, Some(inside));
        let loaded = kb.convert(loaded, plan.compute);
        let there = kb.add(to, done);
        let mask = kb.lane_mask(left, lanes);
        kb.store(operands.panel(), there, loaded, Some(mask));
        kb.close_for(pieces);
    }
}

/// Writes zeros to `count` columns of a panel from `first` on: micro-kernels compute whole panels.
fn clear(kb: &mut KernelBuilder, plan: &ContractionPlan, operands: &Operands, [first, count]: [Value; 2]) {
    let lanes = plan.tile.lanes;
    let (zero, one, vector) = (kb.int(0), kb.int(1), kb.int(i64::from(lanes)));
    let (depth, width) = (kb.dim(&plan.k.size), kb.int(i64::from(plan.tile.columns)));
    let zeros = kb.zero(plan.compute, lanes);
    let row = kb.open_for([zero, depth, one]);
    let to = kb.mul(row.index, width);
    let to = kb.add(to, first);
    let pieces = kb.open_for([zero, count, vector]);
    let (left, there) = (kb.sub(count, pieces.index), kb.add(to, pieces.index));
    let mask = kb.lane_mask(left, lanes);
    kb.store(operands.panel(), there, zeros, Some(mask));
    kb.close_for(pieces);
    kb.close_for(row);
}
