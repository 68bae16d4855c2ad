//! Loads, packs and multiplies VNNI groups: see the plan's
//! [`dot_word`](crate::schedule::cpu::matmul::plan::dot_word).
use super::{masks::column_masks, operands::Operands};
use crate::{
    kernel::KernelBuilder,
    schedule::cpu::matmul::plan::{MatmulPlan, dot_word::DotWord},
};
use disc_ir::{DType, Literal, OpKind, Value};
use disc_kernel_macros::expr;

/// The sign bits of the elements of a word, which bias signed ones: `b + 128 = b ^ 128`.
const SIGNS: i64 = 0x8080_8080;

/// Loads the words from `at` on, one for each lane.
pub(in crate::schedule) fn load(kb: &mut KernelBuilder, word: DotWord, buffer: Value, at: Value, lanes: u32) -> Value {
    let loaded = kb.load(buffer, at, lanes * word.count() as u32, None);
    let loaded = kb.convert(loaded, word.elements);
    kb.recast(loaded, word.dtype)
}

/// Interleaves rows that follow each other into words, one for each lane.
fn woven(kb: &mut KernelBuilder, word: DotWord, rows: &[Value]) -> Value {
    let bits = 8 * word.elements.size() as i64;
    let unsigned = if word.elements.size() == 1 { DType::U8 } else { DType::U16 };
    let mut words = None;
    for (place, &row) in (0..).zip(rows) {
        let row = kb.emit_all(OpKind::BitcastConvert, &[row], &[("dtype", unsigned.into())], None)[0];
        let row = kb.convert(row, word.dtype);
        words = Some(match words {
            None => row,
            Some(words) => {
                let above = kb.constant(Literal::splat_i64(word.dtype, place * bits), kb.lanes(row));
                let shifted = kb.map(OpKind::ShiftLeft, &[row, above]);
                expr!(kb, words | shifted)
            }
        });
    }
    words.expect("a word has elements")
}

/// Biases words of columns as the instruction takes them.
pub(in crate::schedule) fn columns(kb: &mut KernelBuilder, word: DotWord, words: Value) -> Value {
    match word.biased {
        true => {
            let signs = signs(kb, 1);
            expr!(kb, words ^ signs)
        }
        false => words,
    }
}

/// Gives the initial value of the sums of a row, whose `size` elements from `start` on are
/// multiplied.
pub(in crate::schedule) fn start(
    kb: &mut KernelBuilder,
    word: DotWord,
    plan: &MatmulPlan,
    [row, start, size]: [Value; 3],
) -> Option<Value> {
    if !word.biased {
        return None;
    }
    let lanes = plan.tile.lanes;
    let whole = lanes * word.count() as u32;
    let (zero, step) = (kb.int(0), kb.int(i64::from(whole)));
    let (none, signs) = (kb.zero(DType::I32, lanes), signs(kb, lanes));
    let full = expr!(kb, size / step * step);
    let add = |kb: &mut KernelBuilder, k: Value, sum: Value, mask: Option<Value>| {
        let at = expr!(kb, start + k);
        let loaded = kb.load(row, at, whole, mask);
        let words = kb.recast(loaded, DType::I32);
        vec![kb.dot_lanes(word.operands(), signs, words, sum)]
    };
    let sums = kb.for_([zero, full, step], &[none], |kb, k, carried| add(kb, k, carried[0], None));
    // At most one turn, for what is left.
    let sums = kb.for_([full, size, step], &sums, |kb, k, carried| {
        let left = expr!(kb, size - k);
        let mask = kb.lane_mask(left, whole);
        add(kb, k, carried[0], Some(mask))
    });
    let sum = kb.reduce_lanes(sums[0], "add");
    let zero = kb.zero(DType::I32, 1);
    Some(expr!(kb, zero - sum))
}

fn signs(kb: &mut KernelBuilder, lanes: u32) -> Value {
    kb.constant(Literal::splat_i64(DType::I32, SIGNS as i32 as i64), lanes)
}

/// Pads a row in task memory that starts at `to` with zeros, up to a whole word or group. The next
/// row is written later. Rows for tile registers were zeros before.
pub(in crate::schedule) fn end_row(kb: &mut KernelBuilder, plan: &MatmulPlan, rows: Value, to: Value) {
    let size = plan.row_unit();
    if plan.keeps_tiles() || plan.shape.k.size.as_const().is_some_and(|depth| depth % size == 0) {
        return;
    }
    let zero = kb.zero(plan.rows_dtype(), 1);
    let end = expr!(kb, to + dim(&plan.shape.k.size));
    for i in 0..size - 1 {
        let at = expr!(kb, end + int(i));
        kb.store(rows, at, zero, None);
    }
}

/// Interleaves the rows of a panel in task memory into words, which replace these rows.
pub(in crate::schedule) fn weave_rows(kb: &mut KernelBuilder, plan: &MatmulPlan, word: DotWord, panel: Value) {
    let (lanes, columns) = (plan.tile.lanes, i64::from(plan.tile.columns));
    let (zero, one, size, width) = (kb.int(0), kb.int(1), kb.int(word.count()), kb.int(columns));
    let steps = kb.dim(&plan.word_steps());
    let (depth, end) = (kb.dim(&plan.shape.k.size), expr!(kb, steps * size));
    let shifts: Vec<i64> = (0..columns).step_by(lanes as usize).collect();
    // Rows after the last one, up to a whole word.
    kb.for_each([depth, end, one], |kb, row| {
        let (to, nothing) = (expr!(kb, row * width), kb.zero(word.elements, lanes));
        for &shift in &shifts {
            let at = expr!(kb, to + int(shift));
            kb.store(panel, at, nothing, None);
        }
    });
    kb.for_each([zero, steps, one], |kb, step| {
        let first = expr!(kb, step * size);
        let mut words = Vec::new();
        for &shift in &shifts {
            let rows = (0..word.count()).map(|number| {
                let (number, shift) = (kb.int(number), kb.int(shift));
                let at = expr!(kb, (first + number) * width + shift);
                kb.load(panel, at, lanes, None)
            });
            let rows: Vec<Value> = rows.collect();
            words.push(woven(kb, word, &rows));
        }
        for (words, &shift) in words.into_iter().zip(&shifts) {
            let at = expr!(kb, first * width + int(shift * word.count()));
            let elements = kb.recast(words, word.elements);
            kb.store(panel, at, elements, None);
        }
    });
}

/// Packs a panel of `depth` rows whose columns are contiguous into words of neighbouring rows. Rows
/// up to a whole word or tile are zeros.
pub(in crate::schedule) fn weave_panel(
    kb: &mut KernelBuilder,
    plan: &MatmulPlan,
    word: DotWord,
    operands: &Operands,
    [base, column]: [Value; 2],
    depth: Value,
) {
    let masks = column_masks(kb, plan, column);
    let (zero, step) = (kb.int(0), kb.int(word.count()));
    let from = expr!(kb, base + column);
    let whole = expr!(kb, depth / step * step);
    kb.for_each([zero, whole, step], |kb, k| {
        weave(kb, plan, word, operands, [from, k], &masks, None);
    });
    let size = plan.row_unit();
    if plan.shape.k.size.as_const().is_some_and(|depth| depth % size == 0) {
        return;
    }
    // For words, at most one turn.
    let unit = kb.int(size);
    let end = expr!(kb, (depth + int(size - 1)) / unit * unit);
    kb.for_each([whole, end, step], |kb, k| {
        let left = expr!(kb, depth - k);
        weave(kb, plan, word, operands, [from, k], &masks, Some(left));
    });
}

/// Packs the words of the rows from `k` on, of which `left` are left.
fn weave(
    kb: &mut KernelBuilder,
    plan: &MatmulPlan,
    word: DotWord,
    operands: &Operands,
    [from, k]: [Value; 2],
    masks: &[Option<Value>],
    left: Option<Value>,
) {
    let lanes = plan.tile.lanes;
    let (stride, size, width) = (kb.dim(&plan.shape.k.right), kb.int(word.count()), kb.int(i64::from(plan.tile.columns)));
    for (v, &mask) in masks.iter().enumerate() {
        let shift = kb.int(v as i64 * i64::from(lanes));
        let rows = (0..word.count()).map(|i| {
            let number = kb.int(i);
            let mask = match left {
                None => mask,
                Some(left) => {
                    let (exists, none) = (expr!(kb, number < left), kb.zero(DType::I1, lanes));
                    let all = kb.int(i64::from(lanes));
                    let mask = mask.unwrap_or_else(|| kb.lane_mask(all, lanes));
                    Some(kb.select(exists, mask, none))
                }
            };
            let at = expr!(kb, from + (k + number) * stride + shift);
            let loaded = kb.load(operands.right(), at, lanes, mask);
            kb.convert(loaded, word.elements)
        });
        let rows: Vec<Value> = rows.collect();
        let words = woven(kb, word, &rows);
        let to = expr!(kb, k / size * width + shift);
        kb.store(operands.panel(), to, words, None);
    }
}
