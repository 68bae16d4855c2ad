//! How the work of a product is cut: units, chunks of rows, and even blocks of them.
use super::{Left, MatmulPlan, Right, Role};
use crate::{
    kernel::{KernelBuilder, compute_dtype},
    schedule::common::iteration_space::Merged,
    target::Target,
};
use disc_ir::{Dim, TensorType, Value};

/// Bytes of a chunk of the left operand. While panels pass by, most of them stay in the second-level cache; with fewer, panels of long sums come from
/// memory faster than there is something to multiply, and pass more often.
const CHUNK_BYTES: i64 = 768 << 10;
/// The same where they are packed, which takes task memory.
const PACKED_CHUNK_BYTES: i64 = 384 << 10;
/// The most row blocks of a chunk where panels are ready, and where a unit may have to pack its panel first.
const CHUNK_BLOCKS: i64 = 8;
const PACKING_CHUNK_BLOCKS: i64 = 32;
/// The most rows of a chunk whose blocks share panels that the unit packs for all columns.
const SHARED_ROWS: i64 = 192;
/// Panels of a unit that packs its rows first, or that reads several panels at once.
pub(in crate::schedule) const SPAN: i64 = 4;
/// Units that are enough for all threads, where each packs its rows first.
const UNITS: i64 = 32;
/// Sums of so few products take hardly longer than writing their result: where it has many rows, a unit packs several panels first, and then writes
/// longer pieces of each row. Units are kept small enough for this many.
const SHORT_SUM: i64 = 128;
const SHORT_UNITS: i64 = 12;

impl MatmulPlan {
    pub(in crate::schedule) fn is_packed_right(&self) -> bool {
        match self.right_form {
            Right::Columns | Right::Computed | Right::Int4 => true,
            Right::Rows => !self.few_rows_at_once,
            Right::Panels | Right::Dots => false,
        }
    }

    /// Columns of whole panels.
    pub(in crate::schedule) fn total_columns(&self) -> Dim {
        self.panels() * i64::from(self.tile.columns)
    }

    /// The most panels that a unit packs before it multiplies by any.
    pub(in crate::schedule) fn panels_at_once(&self) -> i64 {
        let packs = matches!(self.right_form, Right::Rows | Right::Computed) && self.word.is_none();
        let plain = self.left_form == Left::InPlace && self.held.is_none() && !self.few_rows_at_once && !self.split;
        let short = self.k.size.as_const().is_some_and(|depth| depth <= SHORT_SUM);
        let many = self.m.size.as_const().is_some_and(|rows| rows > CHUNK_BLOCKS * i64::from(self.tile.rows));
        if packs && plain && short && many { SPAN } else { 1 }
    }

    /// Panels that are packed at once.
    pub(in crate::schedule) fn packed_panels(&self) -> Dim {
        match &self.held {
            _ if !self.few_rows_at_once => Dim::constant(self.panels_at_once()),
            Some(held) if held.role == Role::Result => held.room.columns.ceil_div(&Dim::constant(i64::from(self.tile.columns))),
            _ => self.panels(),
        }
    }

    pub(in crate::schedule) fn panels(&self) -> Dim {
        self.n.size.ceil_div(&Dim::constant(i64::from(self.tile.columns)))
    }

    /// Rows up to which a right operand that is read in place is read several panels at once: its rows are pages apart.
    pub(in crate::schedule) fn wide_rows(&self, target: &Target) -> Option<u32> {
        let most = if target.vector_registers() > 16 { 2 } else { 1 };
        let plain = self.right_form == Right::Rows && self.word.is_none() && self.left_form == Left::InPlace;
        (plain && !self.few_rows_at_once && self.panels_at_once() == 1).then_some(most)
    }

    /// Panels of one unit.
    pub(in crate::schedule) fn span(&self, target: &Target) -> Dim {
        let (one, span) = (Dim::constant(1), Dim::constant(SPAN));
        match (self.left_form, self.wide_rows(target)) {
            // Rows are packed anew for each unit: where there are many units, each has more panels.
            (Left::Packed, _) => Dim::max(&span, &(self.row_units() * self.panels()).floor_div(&Dim::constant(UNITS))),
            // `most / rows` is 0 for more rows than that.
            (Left::InPlace, Some(most)) => {
                let few = Dim::min(&Dim::constant(i64::from(most)).floor_div(&Dim::max(&self.m.size, &one)), &one);
                few * (SPAN - 1) + 1
            }
            (Left::InPlace, None) if self.panels_at_once() > 1 => {
                let units = (self.row_units() * self.panels()).floor_div(&Dim::constant(SHORT_UNITS));
                Dim::min(&Dim::constant(self.panels_at_once()), &Dim::max(&one, &units))
            }
            (Left::InPlace, None) => one,
        }
    }

    /// Units that share the columns.
    pub(in crate::schedule) fn column_units(&self, target: &Target) -> Dim {
        self.panels().ceil_div(&self.span(target))
    }

    /// The most rows of a unit.
    pub(in crate::schedule) fn most_rows(&self) -> i64 {
        let rows = i64::from(self.tile.rows);
        if self.few_rows_at_once {
            return SHARED_ROWS / rows * rows;
        }
        if self.is_packed_right() && self.left_form == Left::InPlace {
            return PACKING_CHUNK_BLOCKS * rows;
        }
        let depth = self.k.size.as_const().unwrap_or(768).max(1);
        let bytes = if self.left_form == Left::Packed { PACKED_CHUNK_BYTES } else { CHUNK_BYTES };
        (bytes / (depth * rows * self.compute.size() as i64)).clamp(2, CHUNK_BLOCKS) * rows
    }

    /// Rows that are packed at once.
    pub(in crate::schedule) fn packed_rows(&self) -> i64 {
        if self.few_rows_at_once { i64::from(self.tile.rows) } else { self.most_rows() }
    }

    pub(in crate::schedule) fn chunks(&self) -> Dim {
        self.m.size.ceil_div(&Dim::constant(self.most_rows()))
    }

    /// Units for one panel, or span of panels.
    pub(in crate::schedule) fn row_units(&self) -> Dim {
        Dim::product(self.outer.iter().map(|o| o.run.size.clone())) * self.chunks()
    }

    /// Estimated nanoseconds: the products, and reading the right operand.
    pub(in crate::schedule) fn cost(&self) -> Dim {
        let outer = Dim::product(self.outer.iter().map(|o| o.run.size.clone()));
        let matrix = &self.n.size * &self.k.size;
        let at_once = i64::from(self.tile.lanes) * self.word_size();
        let products = (&matrix * &self.m.size * 2).ceil_div(&Dim::constant(at_once * 5));
        let reading = (matrix * self.compute.size() as i64).ceil_div(&Dim::constant(32));
        outer * (products + reading)
    }

    /// The batch dimensions that units are spread over.
    pub(in crate::schedule) fn outer_runs(&self) -> Vec<Merged> {
        self.outer.iter().map(|o| o.run.clone()).collect()
    }

    /// Task memory for the rows of a tensor that a micro-kernel works on at once.
    pub(in crate::schedule) fn row_block(&self, tensor: &TensorType) -> TensorType {
        let held = self.held.as_ref().expect("the plan is for blocks");
        TensorType::new([Dim::constant(i64::from(self.tile.rows)), held.room.stride.clone()], compute_dtype(tensor.dtype))
    }

    /// The first row of a chunk and the end of it: chunks are as even as can be.
    pub(in crate::schedule) fn chunk_rows(&self, kb: &mut KernelBuilder, chunk: Value) -> [Value; 2] {
        if self.m.size.is_const(1) {
            return [kb.int(0), kb.int(1)];
        }
        let (one, rows, chunks) = (kb.int(1), kb.dim(&self.m.size), kb.dim(&self.chunks()));
        let next = kb.add(chunk, one);
        let (low, high) = (kb.mul(chunk, rows), kb.mul(next, rows));
        [kb.div(low, chunks), kb.div(high, chunks)]
    }

    /// How many blocks the rows from `first` to below `last` are cut into.
    pub(in crate::schedule) fn row_blocks(&self, kb: &mut KernelBuilder, [first, last]: [Value; 2]) -> Value {
        let (tallest, up) = (kb.int(i64::from(self.tile.rows)), kb.int(i64::from(self.tile.rows) - 1));
        let count = kb.sub(last, first);
        let padded = kb.add(count, up);
        kb.div(padded, tallest)
    }

    /// Runs `body` for even blocks of rows: with the number of the block, and its first row and how many it has.
    pub(in crate::schedule) fn for_row_blocks(
        &self,
        kb: &mut KernelBuilder,
        [first, last]: [Value; 2],
        body: impl FnOnce(&mut KernelBuilder, Value, [Value; 2]),
    ) {
        let (zero, one) = (kb.int(0), kb.int(1));
        let count = kb.sub(last, first);
        let blocks = self.row_blocks(kb, [first, last]);
        kb.for_([zero, blocks, one], &[first], |kb, block, carried| {
            let next = kb.add(block, one);
            let scaled = kb.mul(next, count);
            let done = kb.div(scaled, blocks);
            let stop = kb.add(first, done);
            let height = kb.sub(stop, carried[0]);
            body(kb, block, [carried[0], height]);
            vec![stop]
        });
    }
}
