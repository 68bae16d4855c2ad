//! Packs the im2col form of a convolution's input: run by run of windows that are in one row of the
//! result.
//!
//! It does the work of [`super::pack::compute_panel`] for an operand that is `im2col` of memory:
//! the windows of a run read, for each element of a window, a piece of one row of the input, and
//! zeros at its ends.
use super::operands::Operands;
use crate::{
    element::strides,
    kernel::{Index, KernelBuilder},
    schedule::cpu::matmul::plan::{MatmulPlan, im2col::Im2col},
};
use disc_ir::{Dim, Value};
use disc_kernel_macros::expr;

/// Elements of a window along a row that are written out one by one.
const MOST_WRITTEN: i64 = 8;

/// The step of windows that are read by pairs of elements.
const PAIRS: i64 = 2;

/// Packs the panel whose first column is `column`; `at` is the position along the batch dimensions
/// and those of the counts that are not walked as columns.
pub(in crate::schedule) fn pack(
    kb: &mut KernelBuilder,
    im2col: &Im2col,
    plan: &MatmulPlan,
    operands: &Operands,
    at: &[Index],
    column: Value,
) {
    let scalar = |index: Index| index.as_uniform().expect("a batch position is a scalar");
    let columns = kb.dim(&plan.shape.n.size);
    let stop = expr!(kb, column + int(i64::from(plan.tile.columns)));
    let end = kb.min(stop, columns);
    let strides = strides(kb, &im2col.shape);
    let mut base = kb.int(0);
    for (&dim, &index) in plan.right.operand.batch.iter().zip(at) {
        let step = kb.mul(scalar(index), strides[dim]);
        base = expr!(kb, base + step);
    }
    let counted: Vec<Value> = (0..im2col.counts.len()).map(|i| scalar(at[plan.right.operand.first + i])).collect();
    let run = kb.open_while(&[column], |kb, carried| expr!(kb, carried[0] < end));
    let start = run.carried[0];
    let window = window(kb, im2col, &counted, start);
    let last = kb.dim(im2col.counts.last().expect("there are windows"));
    let length = expr!(kb, min(last - window[window.len() - 1], end - start));
    let shift = expr!(kb, start - column);
    pack_run(kb, im2col, &Run { plan, operands, base, strides: &strides, window: &window, shift, length });
    let next = expr!(kb, start + length);
    let mut run = run;
    run.next = vec![next];
    kb.close_while(run);
    let is_last = expr!(kb, end < stop);
    let (used, free) = (expr!(kb, end - column), expr!(kb, stop - end));
    let clear = |kb: &mut KernelBuilder| {
        clear(kb, plan, operands, [used, free]);
        Vec::new()
    };
    kb.if_(is_last, clear, |_| Vec::new());
}

/// Gives the window at position `flat` of the dimensions that are walked as one.
fn window(kb: &mut KernelBuilder, im2col: &Im2col, counted: &[Value], flat: Value) -> Vec<Value> {
    let mut window = counted.to_vec();
    let last = window.len() - 1;
    window[last] = flat;
    for i in (1..window.len()).rev() {
        let size = kb.dim(&im2col.counts[i]);
        let (times, rest) = (expr!(kb, window[i] / size), expr!(kb, window[i] % size));
        window[i] = rest;
        window[i - 1] = expr!(kb, window[i - 1] + times);
    }
    window
}

/// Packs `length` neighbouring windows, from column `shift` of the panel on. If a row of a window
/// has few elements, the pieces that they read of a row of the input are computed once for all
/// features.
fn pack_run(kb: &mut KernelBuilder, im2col: &Im2col, run: &Run<'_>) {
    let one = kb.int(1);
    let last = im2col.taps.last().and_then(Dim::as_const).filter(|taps| (1..=MOST_WRITTEN).contains(taps));
    let Some(taps) = last else {
        let taps = kb.dim(im2col.taps.last().expect("there are windows"));
        return lines(kb, im2col, run, taps, &mut |kb, from, number, exists| {
            let zero = kb.int(0);
            kb.for_each([zero, taps, one], |kb, tap| {
                let (first, [low, mut high]) = piece(kb, im2col, run, tap);
                if let Some(exists) = exists {
                    high = kb.select(exists, high, zero);
                }
                let number = expr!(kb, number + tap);
                let vector = kb.int(i64::from(run.plan.tile.lanes));
                kb.for_each([zero, run.length, vector], |kb, pieces| {
                    let masks = masks(kb, im2col, run, [low, high], pieces);
                    copy(kb, im2col, run, [from, first, number], pieces, &masks);
                });
            });
        });
    };
    let is_short = expr!(kb, run.length <= int(i64::from(run.plan.tile.lanes)));
    let vectors = i64::from(run.plan.tile.columns / run.plan.tile.lanes);
    let short = |kb: &mut KernelBuilder| {
        written(kb, im2col, run, taps, 1);
        Vec::new()
    };
    let long = |kb: &mut KernelBuilder| {
        written(kb, im2col, run, taps, vectors);
        Vec::new()
    };
    kb.if_(is_short, short, long);
}

/// Packs a run of at most this many vectors, whose windows have `taps` elements in a row.
fn written(kb: &mut KernelBuilder, im2col: &Im2col, run: &Run<'_>, taps: i64, vectors: i64) {
    let mut pieces = Vec::new();
    for tap in 0..taps {
        let tap = kb.int(tap);
        let (first, range) = piece(kb, im2col, run, tap);
        for vector in 0..vectors {
            let done = kb.int(vector * i64::from(run.plan.tile.lanes));
            pieces.push((tap, first, done, masks(kb, im2col, run, range, done)));
        }
    }
    let count = kb.int(taps);
    lines(kb, im2col, run, count, &mut |kb, from, number, exists| {
        let copy = |kb: &mut KernelBuilder| {
            for (tap, first, done, masks) in &pieces {
                let number = expr!(kb, number + *tap);
                copy(kb, im2col, run, [from, *first, number], *done, masks);
            }
            Vec::new()
        };
        let clear = |kb: &mut KernelBuilder| {
            let zeros = kb.zero(run.plan.panel_dtype(), run.plan.tile.lanes);
            for (tap, _, done, masks) in &pieces {
                let number = expr!(kb, number + *tap);
                let there = run.there(kb, number, *done);
                kb.store(run.operands.panel(), there, zeros, Some(masks.store));
            }
            Vec::new()
        };
        match exists {
            Some(exists) => {
                kb.if_(exists, copy, clear);
            }
            None => {
                copy(kb);
            }
        }
    });
}

/// Runs `body` for each feature and all elements of a window but those along a row: with the start
/// of the row, the number of the element in the order of the sums, times `taps`, and a test that
/// the input has such a row.
fn lines(kb: &mut KernelBuilder, im2col: &Im2col, run: &Run<'_>, taps: Value, body: &mut LineBody<'_>) {
    let (zero, one) = (kb.int(0), kb.int(1));
    let windows = im2col.taps.len();
    let others = im2col.shape.len() - windows;
    let mut loops = Vec::new();
    let features = kb.dim(&im2col.shape[others - 1]);
    let feature = kb.open_for([zero, features, one]);
    let step = expr!(kb, feature.index * run.strides[others - 1]);
    let mut from = expr!(kb, run.base + step);
    let (mut number, mut exists) = (feature.index, None);
    loops.push(feature);
    for i in 0..windows - 1 {
        let taps = kb.dim(&im2col.taps[i]);
        let tap = kb.open_for([zero, taps, one]);
        let (position, inside) = position(kb, im2col, i, run.window[i], tap.index, others);
        from = expr!(kb, from + position * run.strides[others + i]);
        number = expr!(kb, number * taps);
        number = expr!(kb, number + tap.index);
        exists = Some(match exists {
            Some(before) => expr!(kb, before & inside),
            None => inside,
        });
        loops.push(tap);
    }
    number = expr!(kb, number * taps);
    body(kb, from, number, exists);
    while let Some(open) = loops.pop() {
        kb.close_for(open);
    }
}

/// Gives the start of element `tap` of the windows of a run in a row of the input, and the range of
/// windows that have it.
fn piece(kb: &mut KernelBuilder, im2col: &Im2col, run: &Run<'_>, tap: Value) -> (Value, [Value; 2]) {
    let (i, others) = (im2col.taps.len() - 1, im2col.shape.len() - im2col.taps.len());
    let (first, _) = position(kb, im2col, i, run.window[i], tap, others);
    let range = inside(kb, im2col, first, run.length, others);
    (first, range)
}

/// Gives the position of element `tap` of window `window` along dimension `i`, and a test that the
/// input has it.
fn position(kb: &mut KernelBuilder, im2col: &Im2col, i: usize, window: Value, tap: Value, others: usize) -> (Value, Value) {
    let (step, dilation) = (kb.int(im2col.steps[i]), kb.int(im2col.dilations[i]));
    let (window, tap) = (expr!(kb, window * step), expr!(kb, tap * dilation));
    let (low, size, zero) = (kb.dim(&im2col.low[i]), kb.dim(&im2col.shape[others + i]), kb.int(0));
    let position = expr!(kb, window + tap - low);
    let (after, before) = (expr!(kb, position >= zero), expr!(kb, position < size));
    (position, expr!(kb, after & before))
}

/// Gives the range of `length` neighbouring windows, the first of which reads position `first` of a
/// row, that read an element of the row.
fn inside(kb: &mut KernelBuilder, im2col: &Im2col, first: Value, length: Value, others: usize) -> [Value; 2] {
    let i = im2col.taps.len() - 1;
    let (zero, size, step, up) =
        (kb.int(0), kb.dim(&im2col.shape[others + i]), kb.int(im2col.steps[i]), kb.int(im2col.steps[i] - 1));
    // The number of windows that pass until their position is at least `limit`.
    let mut until = |limit: Value| {
        let passed = expr!(kb, max(limit - first + up, zero) / step);
        kb.min(passed, length)
    };
    [until(zero), until(size)]
}

/// Masks the vector of windows from number `done` on, of which those from `low` to below `high`
/// have an element.
fn masks(kb: &mut KernelBuilder, im2col: &Im2col, run: &Run<'_>, [low, high]: [Value; 2], done: Value) -> Masks {
    let lanes = run.plan.tile.lanes;
    let [low, high, left] = [low, high, run.length].map(|bound| expr!(kb, bound - done));
    let store = kb.lane_mask(left, lanes);
    let between = |kb: &mut KernelBuilder, low: Value, high: Value| {
        let (before, until) = (kb.lane_mask(low, lanes), kb.lane_mask(high, lanes));
        expr!(kb, until & !before)
    };
    if im2col.steps.last() != Some(&PAIRS) {
        return Masks { load: vec![between(kb, low, high)], store };
    }
    // The elements between those of two windows are read, and left out.
    let (two, one, width) = (kb.int(PAIRS), kb.int(1), kb.int(i64::from(lanes)));
    let low = expr!(kb, low * two);
    let high = expr!(kb, high * two - one);
    let (low_behind, high_behind) = (expr!(kb, low - width), expr!(kb, high - width));
    Masks { load: vec![between(kb, low, high), between(kb, low_behind, high_behind)], store }
}

/// Copies an element of as many windows as a vector has lanes, from number `done` of the run on.
fn copy(kb: &mut KernelBuilder, im2col: &Im2col, run: &Run<'_>, [from, first, number]: [Value; 3], done: Value, masks: &Masks) {
    let lanes = run.plan.tile.lanes;
    let step = im2col.steps[im2col.taps.len() - 1];
    let stride = kb.int(step);
    let distance = expr!(kb, done * stride);
    let here = expr!(kb, from + first + distance);
    let input = run.operands.inputs[im2col.input];
    let loaded = match masks.load[..] {
        [mask] => {
            let position = Index::Affine { base: here, stride: step };
            let position = if step == 1 { here } else { position.value(kb, lanes) };
            kb.load(input, position, lanes, Some(mask))
        }
        _ => {
            let behind = expr!(kb, here + int(i64::from(lanes)));
            let both = [here, behind].into_iter().zip(&masks.load);
            let both: Vec<Value> = both.map(|(at, &mask)| kb.load(input, at, lanes, Some(mask))).collect();
            kb.unzip_lanes(both[0], both[1])[0]
        }
    };
    let loaded = kb.convert(loaded, run.plan.panel_dtype());
    let there = run.there(kb, number, done);
    kb.store(run.operands.panel(), there, loaded, Some(masks.store));
}

/// Neighbouring windows of one row that are packed together.
struct Run<'r> {
    plan: &'r MatmulPlan,
    operands: &'r Operands,
    /// The start of the batch in the input, and the input's strides.
    base: Value,
    strides: &'r [Value],
    window: &'r [Value],
    /// The first column of the panel, and how many there are.
    shift: Value,
    length: Value,
}

impl Run<'_> {
    /// Gives the place of window `done` of the run in row `number` of the panel.
    fn there(&self, kb: &mut KernelBuilder, number: Value, done: Value) -> Value {
        expr!(kb, number * int(i64::from(self.plan.tile.columns)) + self.shift + done)
    }
}

/// The treatment of a row of the input that a row of a window covers: given its start, the number
/// of the window's first element there, and a test that there is such a row.
type LineBody<'b> = dyn FnMut(&mut KernelBuilder, Value, Value, Option<Value>) + 'b;

/// Lanes that take part: in each vector that is read, and in the one that is written.
struct Masks {
    load: Vec<Value>,
    store: Value,
}

/// Writes zeros to `count` columns of a panel from `first` on: micro-kernels compute whole panels.
fn clear(kb: &mut KernelBuilder, plan: &MatmulPlan, operands: &Operands, [first, count]: [Value; 2]) {
    let lanes = plan.tile.lanes;
    let (zero, one, vector) = (kb.int(0), kb.int(1), kb.int(i64::from(lanes)));
    let (depth, width) = (kb.dim(&plan.shape.k.size), kb.int(i64::from(plan.tile.columns)));
    let zeros = kb.zero(plan.panel_dtype(), lanes);
    kb.for_each([zero, depth, one], |kb, row| {
        let to = expr!(kb, row * width + first);
        kb.for_each([zero, count, vector], |kb, pieces| {
            let (left, there) = (expr!(kb, count - pieces), expr!(kb, to + pieces));
            let mask = kb.lane_mask(left, lanes);
            kb.store(operands.panel(), there, zeros, Some(mask));
        });
    });
}
