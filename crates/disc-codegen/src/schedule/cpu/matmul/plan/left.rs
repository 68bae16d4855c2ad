//! Chooses how the left operand is read.
use super::{
    MatmulPlan,
    forms::{LeftForm, RightForm},
};
use crate::target::Target;
use disc_ir::{Dim, Function, Solver};

impl MatmulPlan {
    pub(super) fn choose_left(&mut self, group: &Function, solver: &Solver, target: &Target, plain: bool) {
        let stored = self.left.operand.memory.as_ref().map(|memory| group.ty(memory.input).dtype());
        // Converting each element for each panel anew would cost as much as the products.
        let converts = match self.word {
            Some(word) => !self.has_words_in_place(group, solver, word),
            None if stored.is_some_and(|dtype| dtype != self.compute) => true,
            // Groups of 4-bit weights are read as a whole: rows must not end before.
            None => !solver.divisible(&self.shape.k.size, self.row_unit()),
        };
        let is_panelled = self.right.form != RightForm::Dots;
        let collides = is_panelled && self.rows_collide(target);
        if collides && !converts && plain && stored.is_some() && self.shape.sums.len() <= 1 && self.fewer_rows_pay() {
            self.tile.rows = super::staging::held_rows(target);
            return;
        }
        // Panels of weights leave a unit time to pack rows, and long rows are faster from there.
        let can_stage = plain && self.shape.k.left.is_const(1) && !self.right.is_prepared();
        let packs = (converts && is_panelled) || (collides && !can_stage);
        if stored.is_none() || self.shape.sums.len() > 1 || packs {
            self.pack_left();
        } else if collides {
            self.left.form = LeftForm::Staged { most_rows: super::staging::held_rows(target) };
        }
    }

    /// Has the left operand read from packed rows.
    pub(super) fn pack_left(&mut self) {
        self.left.form = LeftForm::Packed;
        // A row may end in zeros.
        self.shape.m.left = self.row_stride(&(&self.shape.k.size + (self.row_unit() - 1)));
        self.shape.k.left = Dim::constant(1);
    }

    /// Elements between rows of this many elements in task memory: an odd number of cache lines.
    pub(super) fn row_stride(&self, elements: &Dim) -> Dim {
        let line = 64 / self.rows_dtype().size() as i64;
        let pairs = elements.ceil_div(&Dim::constant(line)).floor_div(&Dim::constant(2));
        (pairs * 2 + 1) * line
    }
}
