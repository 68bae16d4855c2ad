//! Copies vectors of rows to task memory while a micro-kernel multiplies them: see the plan's
//! [`staging`](crate::schedule::cpu::matmul::plan::staging).
use super::step::Step;
use crate::{kernel::KernelBuilder, schedule::cpu::matmul::plan::rounds::round_steps};
use disc_ir::Value;
use disc_kernel_macros::expr;

/// Copies the elements that the rounds from step `k` on need, if that is the first of them; gives
/// the step that reads rows there. It comes before panels are prefetched, which would keep the rows
/// waiting.
pub(in crate::schedule) fn follow<'p>(kb: &mut KernelBuilder, from: &Step<'p>, rows: Value, k: Value) -> Step<'p> {
    let steps = from.plan.staged_steps();
    if steps == round_steps(from.plan.tile) {
        fill(kb, from, rows, k, None);
        return reading(kb, from, rows, k);
    }
    let (width, zero) = (kb.int(steps), kb.int(0));
    let number = expr!(kb, k % width);
    let is_first = expr!(kb, number == zero);
    kb.when(is_first, |kb| {
        fill(kb, from, rows, k, None);
    });
    let first = expr!(kb, k - number);
    reading(kb, from, rows, first)
}

/// Copies the elements left for the steps from `low` to below `high`, if there may be any; gives
/// the step that reads rows there.
pub(in crate::schedule) fn rest<'p>(
    kb: &mut KernelBuilder,
    from: &Step<'p>,
    rows: Value,
    [low, high]: [Value; 2],
) -> Option<Step<'p>> {
    if kb.known_int(high).is_some_and(|size| size % from.plan.staged_steps() == 0) {
        return None;
    }
    fill(kb, from, rows, low, Some(high));
    Some(reading(kb, from, rows, low))
}

/// Gives the step that reads copied rows, which start with step `first`.
fn reading<'p>(kb: &mut KernelBuilder, from: &Step<'p>, rows: Value, first: Value) -> Step<'p> {
    let width = from.plan.staged_elements();
    let starts = (0..from.starts.len() as i64).map(|number| kb.int(number * width)).collect();
    Step { a: rows, a_first: Some(first), starts, pieces: from.pieces.clone(), ..*from }
}

/// Copies the elements of each row for the steps from `low` on, as many as are copied at a time or
/// those below `high`.
fn fill(kb: &mut KernelBuilder, from: &Step<'_>, rows: Value, low: Value, high: Option<Value>) {
    let plan = from.plan;
    let (width, vector) = (plan.staged_elements(), i64::from(plan.tile.lanes) * plan.word_size());
    let along = expr!(kb, low * from.a_step);
    let left = high.map(|high| expr!(kb, (high - low) * from.a_step));
    for (number, &start) in from.starts.iter().enumerate() {
        let first = expr!(kb, start + along);
        for shift in (0..width).step_by(vector as usize) {
            let (ahead, there) = (kb.int(shift), kb.int(number as i64 * width + shift));
            let mask = left.map(|left| {
                let count = expr!(kb, left - ahead);
                kb.lane_mask(count, vector as u32)
            });
            let here = expr!(kb, first + ahead);
            let copied = kb.load(from.a, here, vector as u32, mask);
            kb.store(rows, there, copied, None);
        }
    }
}
