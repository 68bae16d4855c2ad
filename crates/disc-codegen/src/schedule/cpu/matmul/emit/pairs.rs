//! Multiplies pairs of rows by pairs of columns, whose words fill the halves of a register.
//!
//! The sums of two rows and a vector of columns are two blocks, each of both rows by two columns.
//! Without a second row, the last one is its own pair.
use super::{dot_words, step::Step};
use crate::kernel::KernelBuilder;
use disc_ir::{DType, Value};
use disc_kernel_macros::expr;

/// Words of a pair, or of a block's row.
const PAIR: u32 = 2;

/// Returns the number of blocks of sums.
pub(super) fn blocks(rows: usize, vectors: usize) -> usize {
    rows.div_ceil(2) * 2 * vectors
}

/// Gives the initial values of the blocks.
pub(super) fn start(step: &Step<'_>, kb: &mut KernelBuilder) -> Vec<Value> {
    let count = blocks(step.starts.len(), step.pieces.len());
    (0..count).map(|_| kb.zero(step.plan.compute, PAIR * PAIR)).collect()
}

/// Adds the products of step `k` to the blocks: those of the first pair of rows, then of the next.
pub(super) fn add_products(step: &Step<'_>, kb: &mut KernelBuilder, k: Value, blocks: &[Value]) -> Vec<Value> {
    let words = |kb: &mut KernelBuilder, start| {
        let word = step.elements(kb, start, k, 1);
        kb.widen(word, PAIR)
    };
    let rows: Vec<Value> = joined(step, kb, &words).into_iter().map(|[low, _]| low).collect();
    add(step, kb, k, &rows, blocks)
}

/// Adds the products of steps `k` and `k + 1`: a register holds what they read of a row.
pub(super) fn add_products_of_two(step: &Step<'_>, kb: &mut KernelBuilder, k: Value, blocks: &[Value]) -> Vec<Value> {
    let rows = joined(step, kb, &|kb: &mut KernelBuilder, start| step.elements(kb, start, k, PAIR));
    let [first, second] = [0, 1].map(|i| rows.iter().map(|pair| pair[i]).collect::<Vec<_>>());
    let blocks = add(step, kb, k, &first, blocks);
    let next = expr!(kb, k + 1);
    add(step, kb, next, &second, &blocks)
}

/// Joins the words of each two rows; `words` gives two of a row.
fn joined(step: &Step<'_>, kb: &mut KernelBuilder, words: &dyn Fn(&mut KernelBuilder, Value) -> Value) -> Vec<[Value; 2]> {
    let mut pairs = Vec::new();
    for starts in step.starts.chunks(2) {
        let rows: Vec<Value> = starts.iter().map(|&start| words(kb, start)).collect();
        pairs.push(kb.zip_lanes(rows[0], rows[rows.len() - 1]));
    }
    pairs
}

/// Adds the products of pairs of rows and the columns of step `k`.
fn add(step: &Step<'_>, kb: &mut KernelBuilder, k: Value, rows: &[Value], blocks: &[Value]) -> Vec<Value> {
    let word = step.plan.word.expect("pairs are of words");
    let from = expr!(kb, k * step.b_step + step.b_base);
    let mut columns = Vec::new();
    for piece in &step.pieces {
        assert_eq!(piece.lanes, 2 * PAIR, "panels of pairs have vectors of four columns");
        for half in 0..2 {
            let shift = kb.int((piece.shift + half * i64::from(PAIR)) * step.spread);
            let here = expr!(kb, from + shift);
            columns.push(match step.spread {
                // Panels in task memory hold words already.
                1 => kb.load(step.b, here, PAIR, None),
                _ => dot_words::load(kb, word, step.b, here, PAIR),
            });
        }
    }
    let pairs = rows.iter().flat_map(|&row| columns.iter().map(move |&column| (row, column)));
    pairs.zip(blocks).map(|((row, column), &sum)| kb.dot_pairs(word.elements, row, column, sum)).collect()
}

/// Takes the sums of each row from the blocks: a vector has a row of two of them.
pub(super) fn rows_of(step: &Step<'_>, kb: &mut KernelBuilder, blocks: &[Value]) -> Vec<Value> {
    let mut sums = Vec::new();
    for blocks in blocks.chunks(2 * step.pieces.len()) {
        let [mut first, mut second] = [Vec::new(), Vec::new()];
        for pair in blocks.chunks(2) {
            let halves = [pair[0], pair[1]].map(|block| kb.recast(block, DType::I64));
            let [low, high] = kb.zip_lanes(halves[0], halves[1]).map(|row| kb.recast(row, step.plan.compute));
            first.push(low);
            second.push(high);
        }
        sums.extend(first);
        sums.extend(second);
    }
    sums.truncate(step.starts.len() * step.pieces.len());
    sums
}
