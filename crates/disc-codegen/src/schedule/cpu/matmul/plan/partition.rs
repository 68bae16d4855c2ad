//! Decides how the work of a product is cut: units, chunks of rows, and even blocks of them.
use super::{
    MatmulPlan,
    forms::{ResultForm, RightForm, RowBuffer},
    tile::Tile,
};
use crate::target::Target;
use disc_ir::{Dim, Solver};

/// Bytes of a chunk of the left operand. While panels pass by, most of them stay in the
/// second-level cache; with fewer, panels of long sums come from memory faster than there is
/// something to multiply, and pass more often.
const CHUNK_BYTES: i64 = 768 << 10;
/// The same where they are packed, which takes task memory, and panels need no conversion.
const PACKED_CHUNK_BYTES: i64 = 384 << 10;
/// The most row blocks of a chunk where panels are ready, and where a unit may have to pack its
/// panel first.
const CHUNK_BLOCKS: i64 = 8;
const PACKING_CHUNK_BLOCKS: i64 = 32;
/// The most rows of a chunk whose blocks share panels that the unit packs for all columns.
const SHARED_ROWS: i64 = 192;
/// Panels of a unit that may have to pack its rows first, or that reads several panels at once.
pub(in crate::schedule) const SPAN: i64 = 4;
/// Sums of so few products take hardly longer than writing their result: where it has many rows, a
/// unit packs several panels first, and then writes longer pieces of each row. Units are kept small
/// enough for this many.
const SHORT_SUM: i64 = 128;
const SHORT_UNITS: i64 = 12;

/// Facts about panels, and the order of the work.
#[derive(Clone, Debug, Default)]
pub(in crate::schedule) struct Partition {
    /// Set if the columns always fill their panels.
    pub(in crate::schedule) whole_panels: bool,
    /// Set if the columns always fill the spans of panels that a unit has.
    pub(in crate::schedule) whole_spans: bool,
    /// The rows in task memory, where another schedule runs the product block by block of rows.
    pub(in crate::schedule) blocks: Option<RowBuffer>,
}

impl Partition {
    pub(super) fn of(solver: &Solver, columns: &Dim, tile: Tile) -> Self {
        let width = i64::from(tile.columns);
        Self {
            whole_panels: solver.divisible(columns, width),
            whole_spans: solver.divisible(columns, width * SPAN),
            blocks: None,
        }
    }
}

impl MatmulPlan {
    /// Columns of whole panels.
    pub(in crate::schedule) fn total_columns(&self) -> Dim {
        self.panels() * i64::from(self.tile.columns)
    }

    /// The most panels that a unit packs before it multiplies by any.
    pub(in crate::schedule) fn panels_at_once(&self) -> i64 {
        let packs = matches!(self.right.form, RightForm::Rows | RightForm::Computed) && self.word.is_none();
        let plain = !self.left.is_packed() && self.partition.blocks.is_none() && !self.result.is_split();
        let short = self.shape.k.size.as_const().is_some_and(|depth| depth <= SHORT_SUM);
        let many = self.shape.m.size.as_const().is_some_and(|rows| rows > CHUNK_BLOCKS * i64::from(self.tile.rows));
        if packs && plain && short && many { SPAN } else { 1 }
    }

    /// Panels that are packed at once.
    pub(in crate::schedule) fn packed_panels(&self) -> Dim {
        match (&self.partition.blocks, &self.result) {
            (None, _) => Dim::constant(self.panels_at_once()),
            (Some(held), ResultForm::Block) => held.room.columns.ceil_div(&Dim::constant(i64::from(self.tile.columns))),
            (Some(_), _) => self.panels(),
        }
    }

    pub(in crate::schedule) fn panels(&self) -> Dim {
        self.shape.n.size.ceil_div(&Dim::constant(i64::from(self.tile.columns)))
    }

    /// Rows up to which a right operand that is read in place is read several panels at once: its
    /// rows are pages apart.
    pub(in crate::schedule) fn wide_rows(&self, target: &Target) -> Option<u32> {
        let most = if target.vector_registers() > 16 { 2 } else { 1 };
        let plain = self.right.form == RightForm::Rows && self.word.is_none() && !self.left.is_packed();
        (plain && self.partition.blocks.is_none() && self.panels_at_once() == 1).then_some(most)
    }

    /// Panels of one unit.
    pub(in crate::schedule) fn span(&self, target: &Target) -> Dim {
        let (one, span) = (Dim::constant(1), Dim::constant(SPAN));
        match (self.left.is_packed(), self.wide_rows(target)) {
            (true, _) => span,
            // `most / rows` is 0 for more rows than that.
            (false, Some(most)) => {
                let few = Dim::min(&Dim::constant(i64::from(most)).floor_div(&Dim::max(&self.shape.m.size, &one)), &one);
                few * (SPAN - 1) + 1
            }
            (false, None) if self.panels_at_once() > 1 => {
                let units = (self.row_units() * self.panels()).floor_div(&Dim::constant(SHORT_UNITS));
                Dim::min(&Dim::constant(self.panels_at_once()), &Dim::max(&one, &units))
            }
            (false, None) => one,
        }
    }

    /// Units that share the columns.
    pub(in crate::schedule) fn column_units(&self, target: &Target) -> Dim {
        self.panels().ceil_div(&self.span(target))
    }

    /// The most rows of a unit.
    pub(in crate::schedule) fn most_rows(&self) -> i64 {
        let rows = self.block_rows();
        if self.partition.blocks.is_some() {
            return SHARED_ROWS / rows * rows;
        }
        if self.is_packed_right() && !self.left.is_packed() {
            return PACKING_CHUNK_BLOCKS * rows;
        }
        let depth = self.shape.k.size.as_const().unwrap_or(768).max(1);
        let small = self.left.is_packed() && !self.right.converts;
        let bytes = if small { PACKED_CHUNK_BYTES } else { CHUNK_BYTES };
        (bytes / (depth * rows * self.rows_dtype().size() as i64)).clamp(2, CHUNK_BLOCKS) * rows
    }

    /// Rows that are packed at once.
    pub(in crate::schedule) fn packed_rows(&self) -> i64 {
        if self.partition.blocks.is_some() { self.block_rows() } else { self.most_rows() }
    }

    pub(in crate::schedule) fn chunks(&self) -> Dim {
        self.shape.m.size.ceil_div(&Dim::constant(self.most_rows()))
    }

    /// Units for one panel, or span of panels.
    pub(in crate::schedule) fn row_units(&self) -> Dim {
        Dim::product(self.shape.outer.iter().map(|o| o.run.size.clone())) * self.chunks()
    }

    /// Estimated nanoseconds: the products, and reading the right operand.
    pub(in crate::schedule) fn cost(&self) -> Dim {
        let outer = Dim::product(self.shape.outer.iter().map(|o| o.run.size.clone()));
        let matrix = &self.shape.n.size * &self.shape.k.size;
        let at_once = i64::from(self.tile.lanes) * self.word_size();
        let products = (&matrix * &self.shape.m.size * 2).ceil_div(&Dim::constant(at_once * 5));
        let reading = (matrix * self.compute.size() as i64).ceil_div(&Dim::constant(32));
        outer * (products + reading)
    }
}
