//! Tile registers: blocks of results that one instruction adds products of 16 rows and 16 columns
//! to, where the target has such (AMX).
//!
//! A block is two tiles of rows by the two that a panel has of columns; panels are those of VNNI
//! groups. Sums leave the registers for task memory, where the epilogue reads them row by row. The
//! last rows of a chunk are computed by a whole tile, which starts as many rows earlier: rows that
//! are in two tiles are the same in both. Fewer rows than a tile has are multiplied as VNNI groups.
//!
//! Another schedule that keeps rows in task memory keeps those of whole tiles, padded along the
//! sums: see [`MatmulPlan::in_register_tiles`].
use super::{
    MatmulPlan,
    dot_word::DotWord,
    forms::{ResultForm, RightForm},
    source::Source,
};
use crate::target::Target;
use disc_ir::{
    Function, Solver,
    fragment::{REGISTER_ROW_BYTES, REGISTER_ROWS, Tile},
};

/// The most rows of a block of tiles.
pub(in crate::schedule) const BLOCK_ROWS: i64 = 2 * REGISTER_ROWS;

impl MatmulPlan {
    /// Takes tile registers, where the target multiplies the words of the operands in them and the
    /// sums fill them.
    pub(super) fn choose_register_tiles(&mut self, solver: &Solver, target: &Target) {
        let Some(word) = self.word else { return };
        let depth = (REGISTER_ROW_BYTES / word.elements.size()) as i64;
        let few = self.shape.m.size.as_const().is_some_and(|rows| rows < REGISTER_ROWS);
        let packs =
            matches!(self.right.form, RightForm::Panels | RightForm::Rows | RightForm::Columns { .. } | RightForm::Computed);
        let fits = self.shape.k.left.is_const(1) && self.shape.sums.len() == 1 && solver.divisible(&self.shape.k.size, depth);
        if packs && fits && !few && i64::from(self.tile.columns) == 2 * REGISTER_ROWS {
            self.register_tile = target.register_tile(word.elements);
        }
    }

    /// Takes tile registers for a product of which another schedule keeps rows in task memory, if
    /// the target multiplies the words of its operands in them. The rows are padded along the sums
    /// with zeros, and so are the panels.
    pub(in crate::schedule) fn in_register_tiles(mut self, group: &Function, target: &Target) -> Option<Self> {
        let elements = group.ty(self.left.operand.value).dtype();
        let alike = group.ty(self.right.operand.value).dtype() == elements && elements.is_float();
        let packs = matches!(self.right.form, RightForm::Rows | RightForm::Columns { .. });
        let fits = alike && packs && self.shape.sums.len() == 1 && i64::from(self.tile.columns) == 2 * REGISTER_ROWS;
        let word = DotWord::of(target, elements, self.compute).filter(|word| fits && !word.is_paired())?;
        self.register_tile = Some(target.register_tile(word.elements)?);
        self.word = Some(word);
        match self.result {
            ResultForm::Block => self.pack_left(),
            ResultForm::Totals => {
                let room = self.room(self.partition.blocks.as_ref()?.room.columns.clone());
                self.shape.m.left = room.stride.clone();
                self.partition.blocks.as_mut()?.room = room;
            }
            _ => return None,
        }
        Some(self)
    }

    /// The tile that blocks of rows are multiplied by, if there are tile registers for the product
    /// and it ends with the sums of whole blocks.
    pub(in crate::schedule) fn register_tiles(&self) -> Option<Tile> {
        let ends = self.keeps_tiles() || matches!(self.result, ResultForm::Direct | ResultForm::Apart);
        self.register_tile.filter(|_| ends)
    }

    /// The number of elements that rows in task memory are padded to a multiple of, if another
    /// schedule keeps rows for tile registers there: those of a row of a tile.
    pub(super) fn padded_depth(&self) -> Option<i64> {
        let elements = self.word.filter(|_| self.keeps_tiles())?.elements;
        Some((REGISTER_ROW_BYTES / elements.size()) as i64)
    }

    /// Returns true if another schedule keeps rows for tile registers in task memory.
    pub(in crate::schedule) fn keeps_tiles(&self) -> bool {
        self.register_tile.is_some() && self.partition.blocks.is_some()
    }

    /// Returns true if blocks of rows on a panel of this place are multiplied by tiles.
    pub(in crate::schedule) fn reads_register_tiles(&self, source: Source) -> bool {
        self.register_tiles().is_some() && matches!(source, Source::Panels | Source::Task)
    }

    /// Returns true if all chunks have the rows of a tile.
    pub(in crate::schedule) fn always_fills_registers(&self) -> bool {
        self.shape.m.size.as_const().is_some_and(|rows| rows >= REGISTER_ROWS)
    }

    /// The rows that a chunk is made of.
    pub(in crate::schedule) fn block_rows(&self) -> i64 {
        if self.register_tiles().is_some() { BLOCK_ROWS } else { i64::from(self.tile.rows) }
    }
}
