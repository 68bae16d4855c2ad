//! Computes results from the sums of a warp's tiles, and stores them.
use super::{Here, Mma};
use crate::{
    kernel::Index,
    schedule::{
        common::iteration_space::positions_of,
        gpu::{
            fragments::{TILE_ROWS, passage::Passage},
            frame::GridFrame,
            matmul::conclude,
        },
    },
};
use disc_ir::Value;
use disc_kernel_macros::expr;

impl Mma<'_, '_> {
    /// Computes the outputs from the sums of a warp and stores them, `lanes` of them at once, if
    /// columns are known to be whole vectors.
    pub(super) fn write(&self, frame: &mut GridFrame<'_>, here: &Here, sums: &[Value], lanes: u32) {
        let group = self.matmul.group;
        let is_whole = self.matmul.columns.last().is_some_and(|run| group.solver.divisible(&run.size, lanes.into()));
        let lanes = if is_whole { lanes } else { 1 };
        let columns = self.shape.warp_columns();
        let passage = Passage { memory: here.team.memory, dtype: self.dtype, sum: self.matmul.sum, columns };
        let tiles = (self.shape.warp_rows() / TILE_ROWS) as usize;
        for (number, sums) in sums.chunks(sums.len() / tiles).enumerate() {
            if number > 0 {
                frame.kb.warp_barrier();
            }
            passage.put(&mut frame.kb, &here.lane, here.warp_number, sums);
            passage.take(frame, &here.lane, (here.warp_number, lanes), |frame, own, load| {
                self.conclude(frame, here, (number as i64 * TILE_ROWS, own), (load, lanes));
            });
        }
    }

    /// Computes the outputs from a run of sums in the tiles that are so many rows below the first.
    fn conclude(
        &self,
        frame: &mut GridFrame<'_>,
        here: &Here,
        (below, own): (i64, [Value; 2]),
        (load, lanes): (&dyn Fn(&mut crate::kernel::KernelBuilder) -> Value, u32),
    ) {
        let kb = &mut frame.kb;
        let line = expr!(kb, own[0] + int(below));
        let [row, column] = [(0, line), (1, own[1])].map(|(side, own)| expr!(kb, here.first[side] + (own + here.warp[side])));
        let [rows, columns] = [&self.rows, &self.columns].map(|size| kb.dim(size));
        let exists = expr!(kb, (row < rows) & (column < columns));
        let inside = kb.open_if(exists);
        frame.elements.open_scope();
        let kb = &mut frame.kb;
        let sum = load(kb);
        let (down, along) = (positions_of(kb, row, &self.matmul.rows), positions_of(kb, column, &self.matmul.columns));
        let mut at: Vec<Index> = here.batch.iter().chain(&down).chain(&along).map(|&p| Index::uniform(p)).collect();
        if let (2.., Some(last)) = (lanes, at.last_mut()) {
            *last = Index::Affine { base: last.as_uniform().expect("it was a position"), stride: 1 };
        }
        frame.elements.lanes = lanes;
        conclude(frame, self.matmul.group, self.matmul.dot, &at, sum);
        frame.elements.close_scope();
        frame.kb.close_if(inside);
    }
}
