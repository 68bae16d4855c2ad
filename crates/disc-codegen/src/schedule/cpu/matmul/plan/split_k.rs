//! Decides whether the sums of a product are split into parts that are work units.
use super::{
    MatmulPlan,
    forms::{ResultForm, RightForm},
};
use crate::schedule::{
    Condition::{self, Less},
    Group,
};
use disc_ir::{Dim, TensorType};

/// Parts of a sum.
pub(in crate::schedule) const PARTS: i64 = 8;
/// A part is a multiple of so many products: the steps that a micro-kernel takes in one round.
const STEP: i64 = 16;
/// Below so many units, sums are split.
const FEW_UNITS: i64 = 8;
/// Sums of fewer products are not split, nor work of fewer estimated nanoseconds.
const LONG_SUM: i64 = 512;
const LEAST_COST: i64 = 20_000;

impl MatmulPlan {
    /// The most rows for which sums are split: a matrix that is read in place is read again for
    /// each block of them.
    pub(in crate::schedule) fn most_split_rows(&self) -> i64 {
        i64::from(self.rows_in_place())
    }

    /// Plans a part of the sums of a product, if a product may be split: a matrix in panels or
    /// contiguous along its few columns.
    pub(in crate::schedule) fn split_k(&self, group: &Group<'_>) -> Option<Self> {
        let in_memory =
            !self.left.is_packed() && self.word.is_none() && matches!(self.right.form, RightForm::Panels | RightForm::Rows);
        let few = self.panels().as_const().is_some_and(|panels| panels < FEW_UNITS);
        let short = self.shape.k.size.as_const().is_some_and(|sums| sums < LONG_SUM);
        let many = self.shape.m.size.as_const().is_some_and(|rows| rows > self.most_split_rows());
        if !in_memory || !few || short || many || !self.shape.outer.is_empty() {
            return None;
        }
        let outputs = group.outputs();
        let mut parts = Self::of_product(group.function, &group.solver, group.target, self.dot, &outputs, true).ok()?;
        parts.result = ResultForm::SplitK;
        let inputs = [&parts.left.operand, &parts.right.operand].map(|side| side.memory.as_ref().map(|memory| memory.input));
        parts.inputs = inputs.into_iter().flatten().collect();
        parts.inputs.dedup();
        parts.outputs.clear();
        Some(parts)
    }

    /// Holds for the sizes that sums are split for: each dimension is below its bound.
    pub(in crate::schedule) fn split_guard(&self) -> Vec<Condition> {
        vec![
            Less(self.shape.m.size.clone(), Dim::constant(self.most_split_rows() + 1)),
            Less(self.row_units() * self.panels(), Dim::constant(FEW_UNITS)),
            Less(Dim::constant(LONG_SUM - 1), self.shape.k.size.clone()),
            Less(Dim::constant(LEAST_COST), self.cost()),
        ]
    }

    /// The memory that parts are left in, for so many rows.
    pub(in crate::schedule) fn split_memory(&self, rows: &Dim) -> TensorType {
        TensorType::new([Dim::constant(PARTS), rows.clone(), self.shape.n.size.clone()], self.compute)
    }

    /// Products of one part.
    pub(in crate::schedule) fn split_step(&self) -> Dim {
        self.shape.k.size.ceil_div(&Dim::constant(PARTS * STEP)) * STEP
    }

    /// The most rows of a block.
    pub(in crate::schedule) fn tallest(&self) -> u32 {
        let rows = self.shape.m.size.as_const().and_then(|rows| u32::try_from(rows).ok());
        rows.map_or(self.tile.rows, |rows| rows.clamp(1, self.tile.rows))
    }
}
