//! Words: neighbours along the sums that share a lane of 32 bits, so that one instruction multiplies them and adds the products up.
//!
//! Where both operands hold elements of one narrow type, a step of a micro-kernel takes a word of each: rows in task memory keep their order
//! and end in zeros, panels are `[k / count][NR]` words. Panels of weights were laid out that way, as their type tells.
//!
//! Invariant: sums of integers are exact, wherever words are used.
use super::{im2col::Im2col, micro::column_masks, operands::Operands};
use crate::{
    kernel::KernelBuilder,
    schedule::cpu::matmul::plan::{MatmulPlan, Right},
    target::Target,
};
use disc_ir::{DType, Dim, Function, Literal, OpKind, Solver, Value};

/// The sign bits of the elements of a word, with which signed ones count from 0: `b + 128 = b ^ 128`.
const SIGNS: i64 = 0x8080_8080;
/// Products with so few rows read a right operand with contiguous columns as it lies.
const ROWS_IN_PLACE: i64 = 2;

/// What a word is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::schedule) struct DotWord {
    /// The type of the elements in it.
    pub(in crate::schedule) elements: DType,
    /// Whether columns are signed where the instruction takes unsigned ones: then they count from 0, and sums start at
    /// `-128 * sum(row)`.
    counts_from_zero: bool,
}

impl DotWord {
    pub(in crate::schedule) fn of(target: &Target, stored: DType, compute: DType) -> Option<Self> {
        let elements = target.word_elements(stored)?;
        let sums = if elements.is_float() { DType::F32 } else { DType::I32 };
        (compute == sums).then_some(Self { elements, counts_from_zero: elements == DType::I8 })
    }

    /// Elements of a word.
    pub(in crate::schedule) fn count(self) -> i64 {
        (DType::I32.size() / self.elements.size()) as i64
    }

    /// The words that lie from `at` on, one for each lane.
    pub(in crate::schedule) fn load(self, kb: &mut KernelBuilder, buffer: Value, at: Value, lanes: u32) -> Value {
        let loaded = kb.load(buffer, at, lanes * self.count() as u32, None);
        let loaded = kb.convert(loaded, self.elements);
        kb.recast(loaded, DType::I32)
    }

    /// The words of rows that follow each other, one for each lane.
    fn woven(self, kb: &mut KernelBuilder, rows: &[Value]) -> Value {
        let bits = 8 * self.elements.size() as i64;
        let unsigned = if self.elements.size() == 1 { DType::U8 } else { DType::U16 };
        let mut words = None;
        for (place, &row) in (0..).zip(rows) {
            let row = kb.emit_all(OpKind::BitcastConvert, &[row], &[("dtype", unsigned.into())], None)[0];
            let row = kb.convert(row, DType::I32);
            words = Some(match words {
                None => row,
                Some(words) => {
                    let above = kb.constant(Literal::splat_i64(DType::I32, place * bits), kb.lanes(row));
                    let shifted = kb.map(OpKind::ShiftLeft, &[row, above]);
                    kb.map(OpKind::Or, &[words, shifted])
                }
            });
        }
        words.expect("a word has elements")
    }

    /// Words of columns, as they are multiplied.
    pub(in crate::schedule) fn columns(self, kb: &mut KernelBuilder, words: Value) -> Value {
        match self.counts_from_zero {
            true => {
                let signs = signs(kb, 1);
                kb.map(OpKind::Xor, &[words, signs])
            }
            false => words,
        }
    }

    /// What the sums of a row start with: `size` elements from `start` on are multiplied.
    pub(in crate::schedule) fn start(
        self,
        kb: &mut KernelBuilder,
        plan: &MatmulPlan,
        [row, start, size]: [Value; 3],
    ) -> Option<Value> {
        if !self.counts_from_zero {
            return None;
        }
        let lanes = plan.tile.lanes;
        let whole = lanes * self.count() as u32;
        let (zero, step) = (kb.int(0), kb.int(i64::from(whole)));
        let (none, signs) = (kb.zero(DType::I32, lanes), signs(kb, lanes));
        let full = kb.div(size, step);
        let full = kb.mul(full, step);
        let add = |kb: &mut KernelBuilder, k: Value, sum: Value, mask: Option<Value>| {
            let at = kb.add(start, k);
            let loaded = kb.load(row, at, whole, mask);
            let words = kb.recast(loaded, DType::I32);
            vec![kb.dot_lanes(self.elements, signs, words, sum)]
        };
        let sums = kb.for_([zero, full, step], &[none], |kb, k, carried| add(kb, k, carried[0], None));
        // At most one turn, for what is left.
        let sums = kb.for_([full, size, step], &sums, |kb, k, carried| {
            let left = kb.sub(size, k);
            let mask = kb.lane_mask(left, whole);
            add(kb, k, carried[0], Some(mask))
        });
        let sum = kb.reduce_lanes(sums[0], "add");
        let zero = kb.zero(DType::I32, 1);
        Some(kb.sub(zero, sum))
    }
}

fn signs(kb: &mut KernelBuilder, lanes: u32) -> Value {
    kb.constant(Literal::splat_i64(DType::I32, SIGNS as i32 as i64), lanes)
}

impl MatmulPlan {
    /// Takes words of both operands, where the target multiplies them and both can be laid out so.
    pub(in crate::schedule) fn choose_words(&mut self, group: &Function, target: &Target) {
        let dtype = group.ty(self.left.value).dtype();
        let alike = group.ty(self.right.value).dtype() == dtype;
        let few = self.right_form == Right::Rows && self.m.size.as_const().is_some_and(|rows| rows <= ROWS_IN_PLACE);
        let can = match self.right_form {
            Right::Rows | Right::Columns => self.sums.len() <= 1 && !few,
            Right::Computed => dtype.is_float() && Im2col::of(group, self).is_some(),
            _ => false,
        };
        self.word = if alike && can { DotWord::of(target, dtype, self.compute) } else { None };
    }

    /// Whether the left operand can be read in words as it lies.
    pub(in crate::schedule) fn has_words_in_place(&self, group: &Function, solver: &Solver, word: DotWord) -> bool {
        let stored = self.left.memory.as_ref().map(|memory| group.ty(memory.input).dtype());
        let along = self.sums.len() == 1 && self.left.sum.last().is_some_and(|&d| self.left.is_contiguous(d));
        stored == Some(word.elements) && along && solver.divisible(&self.k.size, word.count())
    }

    /// Elements of a word; 1 where there are none.
    pub(in crate::schedule) fn word_size(&self) -> i64 {
        self.word.map_or(1, DotWord::count)
    }

    /// Rows in task memory end in zeros up to a multiple of this.
    pub(in crate::schedule) fn row_unit(&self) -> i64 {
        self.steps.as_ref().map_or(self.word_size(), super::int4::Int4::group_rows)
    }

    /// Steps along the sums.
    pub(in crate::schedule) fn word_steps(&self) -> Dim {
        match self.word {
            Some(word) => self.k.size.ceil_div(&Dim::constant(word.count())),
            None => self.k.size.clone(),
        }
    }

    /// Elements of a panel of weights.
    pub(in crate::schedule) fn panel_size(&self) -> Dim {
        self.word_steps() * (self.word_size() * i64::from(self.tile.columns))
    }

    /// The types of rows and of panels in task memory.
    pub(in crate::schedule) fn rows_dtype(&self) -> DType {
        self.word.map_or(self.compute, |word| word.elements)
    }

    pub(in crate::schedule) fn panel_dtype(&self) -> DType {
        match self.word {
            Some(word) if self.weaves_rows() => word.elements,
            Some(_) => DType::I32,
            None => self.compute,
        }
    }

    /// Whether rows of a panel are packed as elements first, and then woven into words where they lie.
    pub(in crate::schedule) fn weaves_rows(&self) -> bool {
        self.word.is_some() && self.right_form == Right::Computed
    }
}

/// Zeros behind a row in task memory that starts at `to`, up to a whole word or group. The next row is written later.
pub(in crate::schedule) fn end_row(kb: &mut KernelBuilder, plan: &MatmulPlan, rows: Value, to: Value) {
    let size = plan.row_unit();
    if plan.k.size.as_const().is_some_and(|depth| depth % size == 0) {
        return;
    }
    let (zero, depth) = (kb.zero(plan.rows_dtype(), 1), kb.dim(&plan.k.size));
    let end = kb.add(to, depth);
    for i in 0..size - 1 {
        let number = kb.int(i);
        let at = kb.add(end, number);
        kb.store(rows, at, zero, None);
    }
}

/// Weaves the rows of a panel in task memory into words, which take the place of these rows.
pub(in crate::schedule) fn weave_rows(kb: &mut KernelBuilder, plan: &MatmulPlan, word: DotWord, panel: Value) {
    let (lanes, columns) = (plan.tile.lanes, i64::from(plan.tile.columns));
    let (zero, one, size, width) = (kb.int(0), kb.int(1), kb.int(word.count()), kb.int(columns));
    let steps = kb.dim(&plan.word_steps());
    let (depth, end) = (kb.dim(&plan.k.size), kb.mul(steps, size));
    let shifts: Vec<i64> = (0..columns).step_by(lanes as usize).collect();
    // Rows behind the last one, up to a whole word.
    kb.for_([depth, end, one], &[], |kb, row, _| {
        let (to, nothing) = (kb.mul(row, width), kb.zero(word.elements, lanes));
        for &shift in &shifts {
            let shift = kb.int(shift);
            let at = kb.add(to, shift);
            kb.store(panel, at, nothing, None);
        }
        Vec::new()
    });
    kb.for_([zero, steps, one], &[], |kb, step, _| {
        let first = kb.mul(step, size);
        let mut words = Vec::new();
        for &shift in &shifts {
            let rows = (0..word.count()).map(|number| {
                let (number, shift) = (kb.int(number), kb.int(shift));
                let row = kb.add(first, number);
                let at = kb.mul(row, width);
                let at = kb.add(at, shift);
                kb.load(panel, at, lanes, None)
            });
            let rows: Vec<Value> = rows.collect();
            words.push(word.woven(kb, &rows));
        }
        for (words, &shift) in words.into_iter().zip(&shifts) {
            let (to, shift) = (kb.mul(first, width), kb.int(shift * word.count()));
            let at = kb.add(to, shift);
            let elements = kb.recast(words, word.elements);
            kb.store(panel, at, elements, None);
        }
        Vec::new()
    });
}

/// Packs a panel whose columns are contiguous: words of neighbouring rows.
pub(in crate::schedule) fn weave_panel(
    kb: &mut KernelBuilder,
    plan: &MatmulPlan,
    word: DotWord,
    operands: &Operands,
    base: Value,
    column: Value,
) {
    let masks = column_masks(kb, plan, column);
    let (zero, step, depth) = (kb.int(0), kb.int(word.count()), kb.dim(&plan.k.size));
    let from = kb.add(base, column);
    let whole = kb.div(depth, step);
    let whole = kb.mul(whole, step);
    kb.for_([zero, whole, step], &[], |kb, k, _| {
        weave(kb, plan, word, operands, [from, k], &masks, None);
        Vec::new()
    });
    if plan.k.size.as_const().is_some_and(|depth| depth % word.count() == 0) {
        return;
    }
    // At most one turn, for what is left.
    kb.for_([whole, depth, step], &[], |kb, k, _| {
        let left = kb.sub(depth, k);
        weave(kb, plan, word, operands, [from, k], &masks, Some(left));
        Vec::new()
    });
}

/// The words of the rows from `k` on, of which `left` are left.
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
    let (stride, size, width) = (kb.dim(&plan.k.right), kb.int(word.count()), kb.int(i64::from(plan.tile.columns)));
    for (v, &mask) in masks.iter().enumerate() {
        let shift = kb.int(v as i64 * i64::from(lanes));
        let rows = (0..word.count()).map(|i| {
            let number = kb.int(i);
            let mask = match left {
                None => mask,
                Some(left) => {
                    let (exists, none) = (kb.compare("LT", number, left), kb.zero(DType::I1, lanes));
                    let all = kb.int(i64::from(lanes));
                    let mask = mask.unwrap_or_else(|| kb.lane_mask(all, lanes));
                    Some(kb.select(exists, mask, none))
                }
            };
            let row = kb.add(k, number);
            let row = kb.mul(row, stride);
            let at = kb.add(from, row);
            let at = kb.add(at, shift);
            let loaded = kb.load(operands.right(), at, lanes, mask);
            kb.convert(loaded, word.elements)
        });
        let rows: Vec<Value> = rows.collect();
        let words = word.woven(kb, &rows);
        let to = kb.div(k, size);
        let to = kb.mul(to, width);
        let to = kb.add(to, shift);
        kb.store(operands.panel(), to, words, None);
    }
}
