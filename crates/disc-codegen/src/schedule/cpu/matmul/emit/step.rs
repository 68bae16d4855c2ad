//! One step of a micro-kernel along the sums.
use super::{dot_words, pairs, parameters::Parameters, prefetch::FETCHED_ROWS};
use crate::{
    element::matmul::multiply_add,
    kernel::KernelBuilder,
    schedule::cpu::matmul::plan::{
        MatmulPlan,
        dot_word::DotWord,
        source::{Piece, Source},
    },
    target::CpuModel,
};
use disc_ir::{Attr, Dim, OpKind, Value};
use disc_kernel_macros::expr;

/// Steps that a panel of weights is prefetched ahead, beside the only block of rows.
const PANEL_STEPS_AHEAD: i64 = 64;

/// Rows that a right operand that is read in place is prefetched ahead: they may be in pages of
/// their own, where nothing else fetches them.
const ROWS_AHEAD: i64 = 16;

/// One step along the sums, which adds the products of a column of the left block and a row of the
/// panel.
pub(in crate::schedule) struct Step<'p> {
    pub(in crate::schedule) plan: &'p MatmulPlan,
    pub(in crate::schedule) a: Value,
    pub(in crate::schedule) b: Value,
    pub(in crate::schedule) a_step: Value,
    /// The step that rows in `a` start with; none if it is the first.
    pub(in crate::schedule) a_first: Option<Value>,
    pub(in crate::schedule) b_step: Value,
    pub(in crate::schedule) b_base: Value,
    /// The starts of rows in `a`.
    pub(in crate::schedule) starts: Vec<Value>,
    pub(in crate::schedule) pieces: Vec<Piece>,
    /// The lanes of each vector of the panel; none if it is padded or whole.
    pub(in crate::schedule) masks: &'p [Option<Value>],
    /// Elements of the panel's buffer that make one of its columns.
    pub(in crate::schedule) spread: i64,
    /// The memory that the panel is copied to.
    pub(in crate::schedule) copy: Option<Value>,
    /// Set if rows of the panel are prefetched.
    pub(in crate::schedule) fetches: bool,
    /// Set if a panel of weights is prefetched, since no other block reads it.
    pub(in crate::schedule) fetches_panel: bool,
}

impl<'p> Step<'p> {
    /// Prepares the steps of a block of `rows` rows and the panel that `masks` has the lanes of.
    pub(in crate::schedule) fn of(
        kb: &mut KernelBuilder,
        plan: &'p MatmulPlan,
        parameters: &Parameters,
        (source, rows): (Source, u32),
        masks: &'p [Option<Value>],
    ) -> Self {
        let operands = &parameters.operands;
        let spread = if source == Source::Panels || plan.weaves_rows() { plan.word_size() } else { 1 };
        let width = Dim::constant(i64::from(plan.tile.columns) * spread);
        let (b, b_step) = match source {
            Source::Panels | Source::Widening => (operands.right(), width),
            Source::Widened => (operands.panel(), width),
            Source::InPlace | Source::Edge | Source::EdgeTail(_) | Source::Wide | Source::Copied => {
                (operands.right(), plan.shape.k.right.clone())
            }
            Source::Int4 | Source::Task | Source::Tail(_) | Source::Along(_) => (operands.panel(), width),
        };
        let starts = starts(kb, parameters.left, &plan.shape.m.left, rows);
        let a = operands.left_rows(plan);
        let (a_step, b_step) = (kb.dim(&(&plan.shape.k.left * plan.word_size())), kb.dim(&b_step));
        let pieces = plan.pieces(source);
        let copy = matches!(source, Source::Copied | Source::Widening).then(|| operands.panel());
        let fetches = matches!(source, Source::InPlace | Source::Copied) && rows > FETCHED_ROWS;
        Step {
            plan,
            a,
            b,
            a_step,
            a_first: None,
            b_step,
            // The parameter is the place of the panel that was converted.
            b_base: if source == Source::Widened { kb.int(0) } else { parameters.right },
            starts,
            pieces,
            masks,
            spread,
            copy,
            fetches,
            fetches_panel: false,
        }
    }

    pub(in crate::schedule) fn emit(&self, kb: &mut KernelBuilder, k: Value, sums: &[Value]) -> Vec<Value> {
        if self.plan.multiplies_pairs() {
            return pairs::add_products(self, kb, k, sums);
        }
        self.add_products(kb, k, sums, |step, kb, row| step.elements(kb, step.starts[row], k, 1))
    }

    /// Emits [`MatmulPlan::steps_by_lane`] steps: a vector holds what they read of a row.
    pub(in crate::schedule) fn emit_by_lane(&self, kb: &mut KernelBuilder, k: Value, sums: &[Value]) -> Vec<Value> {
        if self.plan.multiplies_pairs() {
            return pairs::add_products_of_two(self, kb, k, sums);
        }
        let lanes = self.plan.tile.lanes;
        let rows: Vec<Value> = self.starts.iter().map(|&start| self.elements(kb, start, k, lanes)).collect();
        (0..lanes).fold(sums.to_vec(), |sums, lane| {
            let here = expr!(kb, k + int(i64::from(lane)));
            self.add_products(kb, here, &sums, |_, kb, row| kb.extract_lane(rows[row], lane))
        })
    }

    /// Loads what some steps from `k` on read of a row: their elements, or words.
    pub(super) fn elements(&self, kb: &mut KernelBuilder, start: Value, k: Value, steps: u32) -> Value {
        let number = self.a_first.map_or(k, |first| expr!(kb, k - first));
        let here = expr!(kb, start + number * self.a_step);
        match self.plan.word {
            Some(word) => dot_words::load(kb, word, self.a, here, steps),
            None => {
                let loaded = kb.load(self.a, here, steps, None);
                kb.convert(loaded, self.plan.compute)
            }
        }
    }

    /// Adds the products of a step; `element` gives the element, or the word, of a row.
    fn add_products(
        &self,
        kb: &mut KernelBuilder,
        k: Value,
        sums: &[Value],
        element: impl Fn(&Self, &mut KernelBuilder, usize) -> Value,
    ) -> Vec<Value> {
        let plan = self.plan;
        let from = expr!(kb, k * self.b_step + self.b_base);
        let mut panel = Vec::with_capacity(self.masks.len());
        for (piece, &mask) in self.pieces.iter().zip(self.masks) {
            let here = expr!(kb, from + int(piece.shift * self.spread));
            panel.push(self.column(kb, here, piece, mask));
        }
        if self.fetches {
            let ahead = expr!(kb, from + int(ROWS_AHEAD) * self.b_step);
            for piece in &self.pieces {
                let line = expr!(kb, ahead + int(piece.shift));
                kb.emit_all(OpKind::Prefetch, &[self.b, line], &[("locality", Attr::Int(2))], None);
            }
        }
        if self.fetches_panel {
            self.fetch_panel(kb, from);
        }
        if let Some(copy) = self.copy {
            let to = expr!(kb, k * int(i64::from(plan.tile.columns)));
            for (piece, &column) in self.pieces.iter().zip(&panel) {
                let there = expr!(kb, to + int(piece.shift));
                kb.store(copy, there, column, None);
            }
        }
        let mut next = Vec::with_capacity(sums.len());
        for row in 0..self.starts.len() {
            let element = element(self, kb, row);
            for (v, &column) in panel.iter().enumerate() {
                let element = kb.widen(element, self.pieces[v].lanes);
                let sum = sums[row * panel.len() + v];
                next.push(match plan.word {
                    Some(word) => kb.dot_lanes(word.operands(), column, element, sum),
                    None => multiply_add(kb, plan.compute, element, column, sum),
                });
            }
        }
        next
    }

    /// Prefetches the elements that a later step reads of the panel, or of the next one, which
    /// follows it in memory.
    fn fetch_panel(&self, kb: &mut KernelBuilder, from: Value) {
        let there = expr!(kb, from + int(PANEL_STEPS_AHEAD) * self.b_step);
        let (width, size) = (i64::from(self.plan.tile.columns) * self.spread, kb.dtype(self.b).size() as i64);
        for shift in (0..width).step_by((CpuModel::LINE_BYTES / size) as usize) {
            let line = expr!(kb, there + int(shift));
            kb.emit_all(OpKind::Prefetch, &[self.b, line], &[("locality", Attr::Int(3))], None);
        }
    }

    /// Loads a vector of the panel.
    fn column(&self, kb: &mut KernelBuilder, here: Value, piece: &Piece, mask: Option<Value>) -> Value {
        let word = match self.plan.word {
            // Panels of weights, and rows that were interleaved, hold elements; other panels in
            // task memory hold words already.
            Some(word) if self.spread > 1 => (word, dot_words::load(kb, word, self.b, here, piece.lanes)),
            Some(word) => (word, kb.load(self.b, here, piece.lanes, None)),
            None => {
                let loaded = kb.load(self.b, here, piece.lanes, mask);
                return kb.convert(loaded, self.plan.compute);
            }
        };
        dot_words::columns(kb, word.0, word.1)
    }

    /// The vectors that sums are added up in.
    pub(super) fn sums(&self) -> usize {
        let (rows, vectors) = (self.starts.len(), self.pieces.len());
        if self.plan.multiplies_pairs() { pairs::blocks(rows, vectors) } else { rows * vectors }
    }

    /// Gives the initial values of the sums.
    pub(in crate::schedule) fn start(&self, kb: &mut KernelBuilder, word: Option<DotWord>) -> Vec<Value> {
        if self.plan.multiplies_pairs() {
            return pairs::start(self, kb);
        }
        let size = kb.dim(&(self.plan.word_steps() * self.plan.word_size()));
        let mut sums = Vec::new();
        for &start in &self.starts {
            let first = word.and_then(|word| dot_words::start(kb, word, self.plan, [self.a, start, size]));
            for piece in &self.pieces {
                sums.push(match first {
                    Some(first) => kb.widen(first, piece.lanes),
                    None => kb.zero(self.plan.compute, piece.lanes),
                });
            }
        }
        sums
    }
}

/// Gives the starts of rows.
pub(in crate::schedule) fn starts(kb: &mut KernelBuilder, first: Value, stride: &Dim, rows: u32) -> Vec<Value> {
    let stride = kb.dim(stride);
    let mut starts = vec![first];
    for _ in 1..rows {
        let next = expr!(kb, *starts.last().expect("there is a row") + stride);
        starts.push(next);
    }
    starts
}
