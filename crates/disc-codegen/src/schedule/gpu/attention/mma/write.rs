//! Computes the outputs from the totals of a warp's queries, and stores them.
use super::{Here, Mma, OWN_QUERIES};
use crate::{
    kernel::Index,
    schedule::gpu::{fragments::passage::Passage, frame::GridFrame, matmul::conclude},
};
use disc_ir::{DType, Value};
use disc_kernel_macros::expr;

impl Mma<'_, '_> {
    /// Stores outputs, `lanes` at once, if columns are known to be whole vectors.
    pub(super) fn write(&self, frame: &mut GridFrame<'_>, here: &Here, totals: &[Value], lanes: u32) {
        let (group, parts) = (self.attention.group, self.parts());
        let lanes = if group.solver.divisible(&parts.columns, lanes.into()) { lanes } else { 1 };
        // The values were read, and no copies of keys after the last tile are under way.
        self.meet(&mut frame.kb);
        let passage = Passage { memory: here.team.memory, dtype: self.dtype(), sum: DType::F32, columns: self.columns() };
        passage.put(&mut frame.kb, &here.lane, here.warp, totals);
        passage.take(frame, &here.lane, (here.warp, lanes), |frame, [line, column], load| {
            let kb = &mut frame.kb;
            let (row, column) = (
                expr!(kb, here.place.first_row + (here.warp * int(OWN_QUERIES) + line)),
                expr!(kb, here.place.first_column + column),
            );
            let [rows, columns] = [&parts.rows, &parts.columns].map(|size| kb.dim(size));
            let exists = expr!(kb, (row < rows) & (column < columns));
            let inside = kb.open_if(exists);
            frame.elements.open_scope();
            let total = load(&mut frame.kb);
            let mut at = here.place.at(&[row, column]);
            if let (2.., Some(last)) = (lanes, at.last_mut()) {
                *last = Index::Affine { base: column, stride: 1 };
            }
            frame.elements.lanes = lanes;
            conclude(frame, group, parts.weighted, &at, total);
            frame.elements.close_scope();
            frame.kb.close_if(inside);
        });
    }
}
