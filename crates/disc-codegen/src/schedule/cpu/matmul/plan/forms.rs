//! The forms that a plan chooses between: of the left operand, of the right operand, of the result,
//! and of rows in task memory.
use super::{int4::Int4, interleaved::InterleavedProduct, operand::Operand};
use disc_ir::{Dim, Value};

/// The operand whose free dimensions are rows: the left one, unless the product has no other than
/// its rows.
pub(in crate::schedule) struct Left {
    pub(in crate::schedule) operand: Operand,
    pub(in crate::schedule) form: LeftForm,
}

/// The memory that rows are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::schedule) enum LeftForm {
    /// The operand's own.
    InPlace,
    /// The operand's own; micro-kernels of more rows than `most_rows` copy some columns of each row
    /// to task memory at a time.
    Staged { most_rows: u32 },
    /// Task memory, where the first unit of a chunk that a thread runs packs its rows.
    Packed,
}

impl Left {
    pub(in crate::schedule) fn is_packed(&self) -> bool {
        self.form == LeftForm::Packed
    }
}

/// The operand whose free dimensions are columns.
pub(in crate::schedule) struct Right {
    pub(in crate::schedule) operand: Operand,
    pub(in crate::schedule) form: RightForm,
    /// Set for panels that hold another type than sums are computed in.
    pub(in crate::schedule) converts: bool,
}

/// The memory that panels are read from, and who makes them.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::schedule) enum RightForm {
    /// Panels that were made when the weights were loaded.
    Panels,
    /// Panels of 4-bit weights that were made when the weights were loaded.
    Int4(Int4),
    /// The operand, whose columns are contiguous: read in place for few rows, else from a panel
    /// that the unit copies.
    Rows,
    /// The operand, which is contiguous along the sums: read from a panel that the unit transposes,
    /// and along the sums where there are few rows and `dots_for_few_rows` is set.
    Columns { dots_for_few_rows: bool },
    /// The operand, read along the sums for any number of rows.
    Dots,
    /// A panel that the unit computes.
    Computed,
}

impl Right {
    /// Returns true if panels were made when the weights were loaded.
    pub(in crate::schedule) fn is_prepared(&self) -> bool {
        matches!(self.form, RightForm::Panels | RightForm::Int4(_))
    }

    /// Returns true if columns are contiguous in memory.
    pub(in crate::schedule) fn is_rows(&self) -> bool {
        self.form == RightForm::Rows
    }

    /// Returns true if a few rows are multiplied along the sums, rather than packing a panel for
    /// them.
    pub(in crate::schedule) fn has_dots_for_few_rows(&self) -> bool {
        self.form == RightForm::Columns { dots_for_few_rows: true }
    }

    /// The 4-bit weights that are stored in place of the operand, if they are.
    pub(in crate::schedule) fn int4(&self) -> Option<&Int4> {
        match &self.form {
            RightForm::Int4(int4) => Some(int4),
            _ => None,
        }
    }
}

/// The end of a micro-kernel.
#[derive(Clone, Debug)]
pub(in crate::schedule) enum ResultForm {
    /// The epilogue is part of the micro-kernel.
    Direct,
    /// Blocks leave their sums in task memory, and a routine with the epilogue finishes them.
    Apart,
    /// The same, and results are stored interleaved with those of other products.
    Interleaved(InterleavedProduct),
    /// A part of the sums is computed at a time, and left in a workspace to be added up.
    SplitK,
    /// Results stay in task memory, for another schedule: some rows and columns of them.
    Block,
    /// Sums are added to totals in task memory: some columns of the left operand are there at a
    /// time.
    Totals,
}

impl ResultForm {
    pub(in crate::schedule) fn is_split(&self) -> bool {
        matches!(self, Self::SplitK)
    }

    /// Returns true if a routine of its own has the epilogue.
    pub(in crate::schedule) fn is_finished_apart(&self) -> bool {
        matches!(self, Self::Apart | Self::Interleaved(_))
    }

    /// The places of the results in an interleaved value, if they are stored that way.
    pub(in crate::schedule) fn interleaved(&self) -> Option<&InterleavedProduct> {
        match self {
            Self::Interleaved(product) => Some(product),
            _ => None,
        }
    }
}

/// An operand or result of which some rows are in task memory: as many as a tile has.
#[derive(Clone, Debug)]
pub(in crate::schedule) struct RowBuffer {
    pub(in crate::schedule) value: Value,
    pub(in crate::schedule) room: Room,
}

/// The part that a value in task memory has in the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::schedule) enum Role {
    Result,
    /// The left operand.
    Rows,
    /// Some columns of the left operand at a time: sums are added to totals, which are in task
    /// memory as well.
    Parts,
}

/// Room for rows in task memory.
#[derive(Clone, Debug)]
pub(in crate::schedule) struct Room {
    /// The most columns that are there at once.
    pub(in crate::schedule) columns: Dim,
    /// Elements from one row to the next.
    pub(in crate::schedule) stride: Dim,
}
