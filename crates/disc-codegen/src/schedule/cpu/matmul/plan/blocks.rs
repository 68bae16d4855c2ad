//! Adapts a product to another schedule, which keeps rows of an operand or of the result in task
//! memory: all panels are packed first, and then one block of rows comes after the other.
use super::{
    MatmulPlan,
    forms::{LeftForm, ResultForm, RightForm, Role, Room, RowBuffer},
    shape::{Axis, Outer},
};
use crate::{kernel::compute_dtype, schedule::common::iteration_space::Merged};
use disc_ir::{Dim, TensorType, Value};

impl MatmulPlan {
    /// Room in task memory for rows of at most `columns` columns, in whole panels.
    pub(in crate::schedule) fn room(&self, columns: Dim) -> Room {
        let width = i64::from(self.tile.columns);
        let stride = self.row_stride(&(columns.ceil_div(&Dim::constant(width)) * width));
        Room { columns, stride }
    }

    /// Turns the plan into one for a product of which rows of a value are in task memory.
    pub(in crate::schedule) fn in_blocks(mut self, role: Role, held: RowBuffer) -> Self {
        if matches!(self.right.form, RightForm::Dots | RightForm::Columns { .. }) {
            self.right.form = RightForm::Columns { dots_for_few_rows: false };
        }
        self.result = match role {
            Role::Result => ResultForm::Block,
            Role::Rows => ResultForm::Direct,
            Role::Parts => ResultForm::Totals,
        };
        // Rows in task memory are in the type of the sums already.
        if role != Role::Result && self.shape.sums.len() <= 1 {
            self.left.form = LeftForm::InPlace;
            self.shape.m.left = held.room.stride.clone();
            self.shape.k.left = Dim::constant(1);
        }
        self.partition.blocks = Some(held);
        self
    }

    /// Makes the left operand contiguous along the sums, so that columns can be multiplied along
    /// them.
    pub(in crate::schedule) fn walk_along_sums(&mut self) {
        if !self.shape.k.left.is_const(1) || self.left.is_packed() {
            self.pack_left();
        }
    }

    /// Exchanges the rows and the last batch dimension. The right operand must be the same all
    /// along the latter.
    pub(in crate::schedule) fn exchange_rows(&mut self) {
        let is_held = self.partition.blocks.is_some() && !matches!(self.result, ResultForm::Block);
        let packed = self.left.is_packed() || is_held;
        let left = &self.left.operand;
        let stride = left.free.last().map_or(Dim::constant(0), |&dim| left.stride(dim));
        let (Some(outer), Some(axis)) = (self.shape.outer.last_mut(), self.shape.m.dim) else { return };
        let rows = Merged { size: self.shape.m.size.clone(), axis };
        let strides = if packed { self.shape.m.left.clone() } else { outer.left.clone() };
        self.shape.m =
            Axis { size: outer.run.size.clone(), left: strides, dim: Some(outer.run.axis), right: self.shape.m.right.clone() };
        *outer = Outer { run: rows, left: stride, right: Dim::constant(0) };
    }

    /// The input of the group that the rows are read from.
    pub(in crate::schedule) fn left_input(&self) -> Option<Value> {
        self.left.operand.memory.as_ref().map(|memory| memory.input)
    }

    /// Returns true if some columns of the left operand can be multiplied after the others.
    pub(in crate::schedule) fn takes_parts(&self) -> bool {
        self.right.is_rows() && self.shape.sums.len() == 1
    }

    /// Task memory for the rows of a tensor that a micro-kernel works on at once.
    pub(in crate::schedule) fn row_block(&self, tensor: &TensorType) -> TensorType {
        let held = self.partition.blocks.as_ref().expect("the plan is for blocks");
        let dtype = match (&self.result, self.word) {
            (ResultForm::Totals, Some(word)) => word.elements,
            _ => compute_dtype(tensor.dtype),
        };
        TensorType::new([Dim::constant(self.block_rows()), held.room.stride.clone()], dtype)
    }
}
