//! Chooses where the sums of a micro-kernel go.
use super::{
    MatmulPlan,
    forms::{ResultForm, RightForm},
    source::Source,
};
use crate::{kernel::cost, schedule::Group};
use disc_ir::{Dim, TensorType};

/// Operations for a vector of results from which on an epilogue is a long program. A GELU by the
/// error function has about half as many.
const LONG: usize = 128;

impl MatmulPlan {
    /// Has the epilogue finished apart, where that is a long program by `length`, which counts its
    /// operations. Dot products along memory finish theirs themselves.
    pub(in crate::schedule) fn choose_result(&mut self, group: &Group<'_>, length: impl FnOnce(&Self) -> usize) {
        // Most epilogues are seen to be short without writing one.
        if self.right.form == RightForm::Dots || !cost::is_long(group.function) {
            return;
        }
        self.result = ResultForm::Apart;
        if length(self) <= LONG * self.pieces(Source::Task).len() {
            self.result = ResultForm::Direct;
        }
    }

    /// The memory that the sums of a block are left in: rows of the widest panel.
    pub(in crate::schedule) fn sums_memory(&self) -> TensorType {
        TensorType::new([Dim::constant(self.block_rows() * self.sums_stride())], self.compute)
    }

    /// Elements between rows of these sums.
    pub(in crate::schedule) fn sums_stride(&self) -> i64 {
        self.pieces(Source::Wide).iter().map(|piece| i64::from(piece.lanes)).sum()
    }
}
