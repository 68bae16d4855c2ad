//! Chooses how the right operand is read.
use super::{
    MatmulPlan,
    dot_word::DotWord,
    forms::{LeftForm, ResultForm, RightForm},
    int4::Int4,
    operand::Operand,
    shape::Axis,
};
use crate::target::{CpuModel, Target};
use disc_ir::{DType, Dim, Function, Solver};

/// Rows up to which dot products along memory cost less than packing: two passes of the tallest
/// blocks of them.
pub(in crate::schedule) fn few_rows(target: &Target) -> u32 {
    if target.vector_registers() > 16 { 8 } else { 4 }
}

impl MatmulPlan {
    /// Reads panels that the compiler has laid out, or says that they are of another target.
    pub(super) fn read_panels(
        &mut self,
        group: &Function,
        solver: &Solver,
        target: &Target,
        columns: &Dim,
    ) -> Result<(), String> {
        let int4 = Int4::of(group, self.right.operand.value);
        if int4.is_none() && self.right.operand.dims.len() > 3 {
            self.take_word(DotWord::of(target, group.ty(self.right.operand.value).dtype(), self.compute));
        }
        let operand = &self.right.operand;
        let sized = match operand.dims.get(3) {
            Some(size) if let Some(int4) = &int4 => size.is_const(int4.group_rows()),
            Some(size) => self.word.is_some_and(|word| size.is_const(word.count())),
            None => true,
        };
        let fits = sized
            && (operand.memory.is_some() || int4.is_some())
            && solver.equal(&operand.dims[2], &Dim::constant(i64::from(self.tile.columns)));
        if !fits || self.shape.sums.len() > 1 {
            return Err("the panels are of another target".into());
        }
        let stored = operand.memory.as_ref().map(|memory| group.ty(memory.input).dtype());
        self.right.converts = self.word.is_none() && stored.is_some_and(|dtype| dtype != self.compute);
        self.right.form = int4.map_or(RightForm::Panels, RightForm::Int4);
        let dim = Some(self.shape.rank - 1);
        self.shape.n = Axis { size: columns.clone(), left: Dim::constant(0), right: Dim::constant(1), dim };
        Ok(())
    }

    /// Chooses the form of an operand that no weight was laid out for.
    pub(super) fn choose_right(&mut self, group: &Function) -> Result<(), String> {
        let (left, right, sums) = (&self.left.operand, &self.right.operand, &self.shape.sums);
        let along = |side: &Operand| sums.len() == 1 && side.sum.last().is_some_and(|&d| side.is_contiguous(d));
        let few = self.shape.n.size.as_const().is_some_and(|columns| columns <= CpuModel::FEW_COLUMNS);
        let dots = along(left) && along(right) && is_plain(group, [left, right]);
        let last = right.free.last();
        self.right.form = match () {
            _ if dots && few => RightForm::Dots,
            _ if last.is_none() => return Err("the product has no columns, and is not summed along memory".into()),
            _ if sums.len() <= 1 && last.is_some_and(|&d| right.is_contiguous(d)) => RightForm::Rows,
            _ if along(right) => RightForm::Columns { dots_for_few_rows: false },
            _ => RightForm::Computed,
        };
        Ok(())
    }

    /// Has a few rows multiplied along the sums, where both operands are contiguous along them.
    pub(super) fn choose_few_rows(&mut self) {
        let left = &self.left.operand;
        let along = left.sum.last().is_some_and(|&d| left.is_contiguous(d));
        let in_place = self.left.form != LeftForm::Packed;
        if let RightForm::Columns { dots_for_few_rows } = &mut self.right.form {
            *dots_for_few_rows = in_place && along;
        }
    }

    /// Returns true if units pack panels.
    pub(in crate::schedule) fn is_packed_right(&self) -> bool {
        match self.right.form {
            RightForm::Columns { .. } | RightForm::Computed | RightForm::Int4(_) => true,
            RightForm::Rows => self.partition.blocks.is_none() || self.keeps_tiles(),
            RightForm::Panels | RightForm::Dots => false,
        }
    }

    /// Returns true if units may have so many blocks of rows that the first of them leaves a panel
    /// of weights in task memory, in the type of the sums.
    pub(in crate::schedule) fn widens_panels(&self) -> bool {
        let many = self.shape.m.size.as_const().is_none_or(|rows| rows > i64::from(self.rows_as_stored()));
        let plain = self.partition.blocks.is_none() && !self.result.is_split();
        self.right.form == RightForm::Panels && self.right.converts && many && plain
    }

    /// Elements of a panel in task memory: whole squares of the rows that are packed at once.
    pub(in crate::schedule) fn packed_panel_elements(&self) -> Dim {
        let lanes = i64::from(self.tile.lanes);
        let steps = match (&self.result, &self.partition.blocks) {
            (ResultForm::Totals, Some(held)) => held.room.columns.ceil_div(&Dim::constant(self.word_size())),
            _ => self.word_steps(),
        };
        let rows = self.right.int4().map_or(steps, Int4::rows);
        let elements = if self.weaves_rows() { self.word_size() } else { 1 };
        rows.ceil_div(&Dim::constant(lanes)) * (lanes * i64::from(self.tile.columns) * elements)
    }

    /// Rows and columns of the blocks of dot products along memory, larger ones first.
    pub(in crate::schedule) fn dot_blocks(&self, target: &Target) -> [Vec<u32>; 2] {
        /// Columns of a block.
        const WIDE: u32 = 4;
        let tall = if target.vector_registers() > 16 { 4 } else { 2 };
        let sizes = |most: u32, size: Option<i64>| match size {
            Some(size) if size < i64::from(most) => vec![1],
            _ => vec![most, 1],
        };
        [sizes(tall, self.shape.m.size.as_const()), sizes(WIDE, self.shape.n.size.as_const())]
    }
}

/// Returns true if both operands hold what is computed with: vectors along the sums need no
/// conversion but that of a whole vector.
fn is_plain(group: &Function, sides: [&Operand; 2]) -> bool {
    let is_number = |side: &Operand| side.memory.as_ref().is_some_and(|memory| group.ty(memory.input).dtype() != DType::I1);
    sides.into_iter().all(is_number)
}
