//! Multiplies weights of 4 bits: see the plan's [`int4`](crate::schedule::cpu::matmul::plan::int4).
//!
//! For a few rows the weights are multiplied as they are stored, and the sums of a group by its
//! scale; for more, a unit unpacks its panel to task memory, where micro-kernels read it for block
//! after block.
use super::{operands::Operands, parameters::Parameters, step::starts};
use crate::{
    element::matmul::multiply_add,
    kernel::KernelBuilder,
    schedule::cpu::matmul::plan::{
        MatmulPlan,
        int4::{IN_WORD, Int4},
        rounds::CHAINS,
    },
};
use disc_ir::{DType, Literal, OpKind, Value};
use disc_kernel_macros::expr;

const BITS: i64 = 4;

/// Bits below the uppermost weight of a word, and the factor that undoes that a weight is read
/// there.
const TOP: i64 = (IN_WORD - 1) * BITS;

const UNDO: f64 = 1.0 / (1_i64 << TOP) as f64;

fn buffers(int4: &Int4, plan: &MatmulPlan, operands: &Operands) -> [Value; 2] {
    let position = |value| plan.inputs.iter().position(|&input| input == value).expect("an input of the product");
    [int4.words, int4.scales].map(|value| operands.inputs[position(value)])
}

/// A group of a panel: its number, and the memory of its words and scales.
struct Group<'p> {
    plan: &'p MatmulPlan,
    int4: &'p Int4,
    words: Value,
    scales: Value,
    number: Value,
}

impl Group<'_> {
    fn vectors(&self) -> i64 {
        i64::from(self.plan.tile.columns / self.plan.tile.lanes)
    }

    /// A row of the panel, from row `row` of `buffer` on.
    fn read(&self, kb: &mut KernelBuilder, buffer: Value, row: Value) -> Vec<Value> {
        let lanes = self.plan.tile.lanes;
        let start = expr!(kb, row * int(i64::from(self.plan.tile.columns)));
        let at = |v: i64| v * i64::from(lanes);
        let mut read = Vec::new();
        for v in 0..self.vectors() {
            let here = expr!(kb, start + int(at(v)));
            read.push(kb.load(buffer, here, lanes, None));
        }
        read
    }

    /// Gives the scales of numbers as [`step`] gives them.
    fn scales(&self, kb: &mut KernelBuilder) -> Vec<Value> {
        let scales = self.read(kb, self.scales, self.number);
        let undo = kb.constant(Literal::splat_f64(DType::F32, UNDO), self.plan.tile.lanes);
        scales.into_iter().map(|scale| expr!(kb, scale * undo)).collect()
    }

    /// The words of eight rows.
    fn words(&self, kb: &mut KernelBuilder, height: Value) -> Vec<Value> {
        let row = expr!(kb, self.number * int(self.int4.height) + height);
        self.read(kb, self.words, row)
    }
}

/// Extracts weight number `place` of each word as a number times `1 / UNDO`, from the uppermost
/// bits of the word. Shifting it down again would cost as much as the product, and the factor costs
/// nothing, since it is exact and the scale takes it back.
fn step(kb: &mut KernelBuilder, word: Value, place: i64) -> Value {
    let lanes = kb.lanes(word);
    let mut shifted = word;
    if place < IN_WORD - 1 {
        let above = kb.constant(Literal::splat_i64(DType::I32, TOP - place * BITS), lanes);
        shifted = kb.map(OpKind::ShiftLeft, &[word, above]);
    }
    let top = kb.constant(Literal::splat_i64(DType::I32, -(1 << TOP)), lanes);
    expr!(kb, convert(shifted & top, DType::F32))
}

/// Rows of the left operand: their starts, and the stride along the sums.
struct Rows {
    left: Value,
    starts: Vec<Value>,
    along: Value,
}

impl Rows {
    /// Adds the products of element `k` of each row and the vectors of a row of the panel to the
    /// sums, row by row.
    fn multiply(&self, kb: &mut KernelBuilder, compute: DType, k: Value, columns: &[Value], sums: &mut [Value]) {
        let offset = expr!(kb, k * self.along);
        for (&start, sums) in self.starts.iter().zip(sums.chunks_mut(columns.len())) {
            let at = expr!(kb, start + offset);
            let element = kb.load(self.left, at, 1, None);
            let element = kb.convert(element, compute);
            for (sum, &column) in sums.iter_mut().zip(columns) {
                *sum = multiply_add(kb, compute, element, column, *sum);
            }
        }
    }
}

/// Gives the sums of `rows` rows; `right` is the number of the panel.
pub(in crate::schedule) fn accumulate(
    kb: &mut KernelBuilder,
    plan: &MatmulPlan,
    int4: &Int4,
    parameters: &Parameters,
    rows: u32,
) -> Vec<Value> {
    let operands = &parameters.operands;
    let left = operands.left_rows(plan);
    let count = rows as usize * (plan.tile.columns / plan.tile.lanes) as usize;
    let chains = CHAINS.div_ceil(count).min(IN_WORD as usize);
    let rows = Rows { left, starts: starts(kb, parameters.left, &plan.shape.m.left, rows), along: kb.dim(&plan.shape.k.left) };
    let none = kb.zero(plan.compute, plan.tile.lanes);
    let [words, scales] = buffers(int4, plan, operands);
    let (zero, one, groups) = (kb.int(0), kb.int(1), kb.dim(&int4.groups));
    let (height, depth, in_word) = (kb.int(int4.height), kb.int(int4.group_rows()), kb.int(IN_WORD));
    let first = expr!(kb, parameters.right * groups);
    kb.for_([zero, groups, one], &vec![none; count], |kb, number, sums| {
        let group = Group { plan, int4, words, scales, number: expr!(kb, first + number) };
        let start = expr!(kb, number * depth);
        let partial = kb.for_([zero, height, one], &vec![none; count * chains], |kb, h, carried| {
            let words = group.words(kb, h);
            let k = expr!(kb, start + h * in_word);
            let mut next = carried.to_vec();
            for place in 0..IN_WORD {
                let columns: Vec<Value> = words.iter().map(|&word| step(kb, word, place)).collect();
                let k = expr!(kb, k + int(place));
                let chain = place as usize % chains * count;
                rows.multiply(kb, plan.compute, k, &columns, &mut next[chain..chain + count]);
            }
            next
        });
        let scales = group.scales(kb);
        let scaled = sums.iter().enumerate().map(|(i, &sum)| {
            let parts = (1..chains).map(|chain| partial[chain * count + i]);
            let part = parts.fold(partial[i], |a, b| expr!(kb, a + b));
            kb.fma(part, scales[i % scales.len()], sum)
        });
        scaled.collect()
    })
}

/// Unpacks panel number `panel` to task memory.
pub(in crate::schedule) fn unpack_panel(
    kb: &mut KernelBuilder,
    plan: &MatmulPlan,
    int4: &Int4,
    operands: &Operands,
    panel: Value,
) {
    let [words, scales] = buffers(int4, plan, operands);
    let (zero, one, groups) = (kb.int(0), kb.int(1), kb.dim(&int4.groups));
    let (height, depth, in_word) = (kb.int(int4.height), kb.int(int4.group_rows()), kb.int(IN_WORD));
    let width = kb.int(i64::from(plan.tile.columns));
    let first = expr!(kb, panel * groups);
    kb.for_each([zero, groups, one], |kb, number| {
        let group = Group { plan, int4, words, scales, number: expr!(kb, first + number) };
        let scales = group.scales(kb);
        let start = expr!(kb, number * depth);
        kb.for_each([zero, height, one], |kb, h| {
            let words = group.words(kb, h);
            let k = expr!(kb, start + h * in_word);
            for place in 0..IN_WORD {
                let to = expr!(kb, (k + int(place)) * width);
                for (v, (&word, &scale)) in words.iter().zip(&scales).enumerate() {
                    let number = step(kb, word, place);
                    let weight = expr!(kb, number * scale);
                    let at = expr!(kb, to + int(v as i64 * i64::from(plan.tile.lanes)));
                    kb.store(operands.panel(), at, weight, None);
                }
            }
        });
    });
}
