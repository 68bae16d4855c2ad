//! Rows that lie pages apart: beside panels of weights fewer of them are read at once, as they lie; elsewhere a micro-kernel of many rows copies a
//! vector of each to task memory at a time, and reads them there.
//!
//! Rows at such a distance take turns in the few lines of one set of the first-level cache, so that each element of many rows would come from the
//! second level. Copied, each line is read once. Twelve loads and stores go with hundreds of products, where packing whole rows in each unit would
//! pass memory once more, and keep the caches from what they are for.
use super::micro::{Step, round_steps};
use crate::{
    kernel::KernelBuilder,
    schedule::cpu::matmul::plan::{MatmulPlan, Right},
};
use disc_ir::Value;

/// Rows at a multiple of this distance in bytes share their lines of the first-level cache.
const PAGE: i64 = 4096;
/// As many of them as fit there, next to a line of the panel, and as many as do on wide cores.
const HELD_ROWS: u32 = 7;
const HELD_ROWS_WIDE: u32 = 11;
/// Bytes of a panel that stays in the second-level cache. A longer one is read from further away for each block of rows, and fewer rows in
/// a block would read it more often.
const PANEL_BYTES: i64 = 512 << 10;

impl MatmulPlan {
    /// Rows pages apart that the first-level cache holds at once.
    pub(in crate::schedule) fn held_rows(&self) -> u32 {
        if self.wide_cores { HELD_ROWS_WIDE } else { HELD_ROWS }
    }

    /// Whether rows that are read as they lie would take turns in the first-level cache.
    pub(in crate::schedule) fn rows_collide(&self) -> bool {
        let held = i64::from(self.held_rows());
        let many = i64::from(self.tile.rows) > held && self.m.size.as_const().is_none_or(|rows| rows > held);
        let size = self.rows_dtype().size() as i64;
        many && self.m.left.as_const().is_some_and(|stride| stride > 0 && stride * size % PAGE == 0)
    }

    /// Whether rows that collide are best read in blocks of as many as the cache holds: panels are ready, and stay in the second-level cache.
    pub(in crate::schedule) fn fewer_rows_pay(&self) -> bool {
        let fits = |depth| depth * i64::from(self.tile.columns) * self.compute.size() as i64 <= PANEL_BYTES;
        self.right_form == Right::Panels && self.k.left.is_const(1) && self.k.size.as_const().is_some_and(fits)
    }

    /// Whether a micro-kernel for `rows` rows copies vectors of them to task memory.
    pub(in crate::schedule) fn stages(&self, rows: u32) -> bool {
        self.staged && rows > self.held_rows()
    }

    /// Steps whose elements are copied at a time.
    pub(in crate::schedule) fn staged_steps(&self) -> i64 {
        round_steps(self).max(i64::from(self.tile.lanes))
    }

    /// Elements of a row in task memory.
    pub(in crate::schedule) fn staged_elements(&self) -> i64 {
        self.staged_steps() * self.word_size()
    }
}

/// Copies what the rounds from step `k` on need, where that is the first of them: the step that reads rows there. Before panels are fetched,
/// which would keep the rows waiting.
pub(in crate::schedule) fn follow<'p>(kb: &mut KernelBuilder, from: &Step<'p>, rows: Value, k: Value) -> Step<'p> {
    let steps = from.plan.staged_steps();
    if steps == round_steps(from.plan) {
        fill(kb, from, rows, k, None);
        return reading(kb, from, rows, k);
    }
    let (width, zero) = (kb.int(steps), kb.int(0));
    let number = kb.rem(k, width);
    let is_first = kb.compare("EQ", number, zero);
    let open = kb.open_if(is_first);
    fill(kb, from, rows, k, None);
    kb.close_if(open);
    let first = kb.sub(k, number);
    reading(kb, from, rows, first)
}

/// Copies what is left for the steps from `low` to below `high`, if any may be: the step that reads rows there.
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

/// The step that reads copied rows, which start with step `first`.
fn reading<'p>(kb: &mut KernelBuilder, from: &Step<'p>, rows: Value, first: Value) -> Step<'p> {
    let width = from.plan.staged_elements();
    let starts = (0..from.starts.len() as i64).map(|number| kb.int(number * width)).collect();
    Step { a: rows, a_first: Some(first), starts, pieces: from.pieces.clone(), ..*from }
}

/// Copies the elements of each row for the steps from `low` on, as many as are copied at a time or those below `high`.
fn fill(kb: &mut KernelBuilder, from: &Step<'_>, rows: Value, low: Value, high: Option<Value>) {
    let plan = from.plan;
    let (width, vector) = (plan.staged_elements(), i64::from(plan.tile.lanes) * plan.word_size());
    let along = kb.mul(low, from.a_step);
    let left = high.map(|high| {
        let steps = kb.sub(high, low);
        kb.mul(steps, from.a_step)
    });
    for (number, &start) in from.starts.iter().enumerate() {
        let first = kb.add(start, along);
        for shift in (0..width).step_by(vector as usize) {
            let (ahead, there) = (kb.int(shift), kb.int(number as i64 * width + shift));
            let mask = left.map(|left| {
                let count = kb.sub(left, ahead);
                kb.lane_mask(count, vector as u32)
            });
            let here = kb.add(first, ahead);
            let copied = kb.load(from.a, here, vector as u32, mask);
            kb.store(rows, there, copied, None);
        }
    }
}
