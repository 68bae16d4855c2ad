//! Walks a plane from its first row to its last in one unit, so that results may be written over
//! the input: [`disc_passes::analysis::depthwise`] decides for which.
//!
//! A few rows of results are computed from a copy of the rows that they read; the last rows of the
//! copy are the first of the next one. Rows that are read in place are overwritten when the next
//! block has read them.
//!
//! Invariant: no element of the input is read once the result at its position is written.
use super::{Block, Emitter, Unit, pack::Place, plan::rows_read};
use crate::{
    kernel::{Index, KernelBuilder},
    target::CpuModel,
};
use disc_ir::Value;
use disc_kernel_macros::expr;

impl Emitter<'_, '_> {
    /// Computes all results of the plane at a position.
    pub(super) fn walk(&mut self, kb: &mut KernelBuilder, lead: &[Value]) {
        let plan = self.plan;
        let zero = kb.int(0);
        let slide = plan.rows().expect("a plane has rows");
        let (rows, columns) = (kb.dim(&slide.count), kb.dim(&plan.columns().count));
        let place = Place { lead: lead.to_vec(), first: vec![zero; 2] };
        let start = self.start(kb);
        let lead = lead.iter().map(|&value| Index::uniform(value)).collect();
        let mut unit = Unit { place, rows, columns, kernel: Vec::new(), start, lead, lying: None };
        self.either(kb, &mut unit, |emitter, kb, unit| {
            let most = kb.int(CpuModel::UNIT_ROWS);
            kb.for_each([zero, rows, most], |kb, step| {
                emitter.elements.open_scope();
                unit.place.first[0] = step;
                unit.rows = expr!(kb, min(rows - step, most));
                let is_later = expr!(kb, step > zero);
                kb.when(is_later, |kb| {
                    emitter.move_up(kb);
                });
                let from = expr!(kb, select(is_later, int(rows_read(slide, 1) - 1), zero));
                emitter.pack(kb, unit, from);
                emitter.planes(kb, unit);
                emitter.elements.close_scope();
            });
        });
    }

    /// Moves the last rows of a copy to the start of the next one.
    fn move_up(&self, kb: &mut KernelBuilder) {
        let plan = self.plan;
        let again = rows_read(plan.rows().expect("a plane has rows"), 1) - 1;
        let (pitch, lanes) = (kb.dim(&plan.phase()), kb.int(i64::from(plan.lanes)));
        let (zero, again, below) = (kb.int(0), kb.int(again), kb.int(CpuModel::UNIT_ROWS));
        let (count, distance) = (expr!(kb, again * pitch), expr!(kb, below * pitch));
        kb.for_each([zero, count, lanes], |kb, pieces| {
            let from = expr!(kb, pieces + distance);
            let vector = kb.load(self.held, from, plan.lanes, None);
            kb.store(self.held, pieces, vector, None);
        });
    }

    /// Computes all results of a plane that is read in place. A block is written when the next one
    /// has read its input: loads beside fresh stores wait.
    pub(super) fn plane_later(&mut self, kb: &mut KernelBuilder, unit: &Unit) {
        let plan = self.plan;
        let (zero, height) = (kb.int(0), kb.int(plan.block[0]));
        let mask = Some(kb.lane_mask(unit.columns, plan.lanes));
        let none = vec![unit.start; plan.block[0] as usize];
        let mut rows = kb.open_for_carrying([zero, unit.rows, height], &none);
        self.elements.open_scope();
        let mut block = Block { row: rows.index, column: zero, vectors: 1, mask };
        let mut sums = none;
        self.by_input(kb, unit, &block, &mut sums);
        rows.next = sums;
        let is_later = expr!(kb, block.row > zero);
        kb.when(is_later, |kb| {
            block.row = expr!(kb, block.row - height);
            let carried = rows.carried.clone();
            self.finish(kb, unit, &block, &carried);
        });
        self.elements.close_scope();
        let left = kb.close_for(rows);
        self.elements.open_scope();
        block.row = expr!(kb, (unit.rows - 1) / height * height);
        let is_any = expr!(kb, unit.rows > zero);
        kb.when(is_any, |kb| {
            self.finish(kb, unit, &block, &left);
        });
        self.elements.close_scope();
    }
}
